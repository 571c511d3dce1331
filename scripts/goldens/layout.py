"""Cases of gradients.py: operators that move values without changing them."""

import numpy as np
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper

from goldens.cases import case

case("reshape", (2, 3, 4), lambda m, x: (m.op("Reshape", x, m.ints(0, 4, -1)), lambda t: t.reshape(t.shape[0], 4, 6)))
case("reshape_infer_batch", (2, 6), lambda m, x: (m.op("Reshape", x, m.ints(-1, 12)), lambda t: t.reshape(-1, 12)))
case("flatten", (2, 3, 4), lambda m, x: (m.op("Flatten", x, axis=1), lambda t: t.flatten(1)))
case("squeeze", (3, 1, 4), lambda m, x: (m.op("Squeeze", x, m.ints(2)), lambda t: t.squeeze(2)))
case("squeeze_opset11", (3, 1, 4), lambda m, x: (m.op("Squeeze", x, axes=[-2]), lambda t: t.squeeze(2)), opset=11)
case("unsqueeze", (3, 4), lambda m, x: (m.op("Unsqueeze", x, m.ints(1, 4)), lambda t: t[:, None, :, :, None]))
case("unsqueeze_front", (3, 4), lambda m, x: (m.op("Transpose", m.op("Unsqueeze", x, m.ints(0)), perm=[1, 0, 2, 3]),
                                               lambda t: t[:, None]))
case("transpose", (2, 3, 4), lambda m, x: (m.op("Transpose", x, perm=[0, 3, 1, 2]), lambda t: t.permute(0, 3, 1, 2)))
case("transpose_batch", (2, 3), lambda m, x: (
    m.op("Transpose", m.op("Mul", m.op("Transpose", x), m.const([[[1.0]], [[2.0]], [[-3.0]]])), perm=[2, 1, 0]),
    lambda t: t * torch.tensor([1.0, 2.0, -3.0]).double()))


def concat3(m, x):
    return m.op("Concat", x, m.op("Neg", x), m.op("Mul", x, x), axis=1), lambda t: torch.cat([t, -t, t * t], 1)


def concat_const(m, x):
    # constants cannot have a batch: the border comes from x times 0
    return (m.op("Concat", m.op("Mul", x, m.const(0.0)), m.op("Tanh", x), axis=-1),
            lambda t: torch.cat([0 * t, torch.tanh(t)], -1))


case("concat_channels", (2, 2, 3), concat3)
case("concat_last", (2, 3), concat_const)
case("slice", (4, 5), lambda m, x: (m.op("Slice", x, m.ints(1, -4), m.ints(3, 4), m.ints(1, 2)), lambda t: t[:, 1:3, 1:4]))
case("slice_steps1", (4, 5), lambda m, x: (m.op("Slice", x, m.ints(1), m.ints(1 << 60), m.ints(-1), m.ints(1)), lambda t: t[:, :, 1:]))
case("slice_all_axes", (4, 5), lambda m, x: (m.op("Slice", x, m.ints(0, 0, 2), m.ints(1 << 62, 3, -1)), lambda t: t[:, :3, 2:-1]))
case("slice_opset9", (4, 5), lambda m, x: (m.op("Slice", x, axes=[2], starts=[1], ends=[9]), lambda t: t[:, :, 1:]), opset=9)
case("pad", (2, 3, 3), lambda m, x: (m.op("Pad", x, m.ints(0, 0, 1, 2, 0, 0, 0, 1), m.const(0.5)), lambda t: F.pad(t, (2, 1, 1, 0), value=0.5)))
case("pad_channels", (2, 3, 3), lambda m, x: (m.op("Pad", x, m.ints(0, 1, 0, 0, 0, 1, 0, 0)), lambda t: F.pad(t, (0, 0, 0, 0, 1, 1))))
case("pad_opset9", (2, 3, 3), lambda m, x: (m.op("Pad", x, pads=[0, 0, 1, 0, 0, 0, 0, 2], value=0.0), lambda t: F.pad(t, (0, 2, 1, 0))), opset=9)
case("expand", (2, 1, 3), lambda m, x: (m.op("Expand", x, m.ints(1, 2, 4, 3)), lambda t: t.expand(-1, 2, 4, 3)))
case("expand_ones", (2, 1), lambda m, x: (m.op("Expand", x, m.ints(1, 1, 3)), lambda t: t.expand(-1, 2, 3)))


def topk(k, largest=1, axis=-1):
    def build(m, x):
        v, _ = m.op("TopK", x, m.ints(k), axis=axis, largest=largest, sorted=1, outputs=2)
        return v, lambda t: t.topk(k, axis, bool(largest), True)[0]
    return build


def gather(m, x):
    _, i = m.op("TopK", x, m.ints(3), axis=-1, outputs=2)
    square = m.op("Mul", x, x)
    return m.op("GatherElements", square, i, axis=-1), lambda t: (t * t).gather(-1, t.topk(3, -1)[1])


def gather_repeated(m, x):  # the same place twice: its cotangents add up
    _, i = m.op("TopK", x, m.ints(2), axis=1, outputs=2)
    i = m.op("Concat", i, i, axis=1)
    return m.op("GatherElements", x, i, axis=1), lambda t: t.gather(1, torch.cat([t.topk(2, 1)[1]] * 2, 1))


def scatter(m, x):
    v, i = m.op("TopK", x, m.ints(2), axis=-1, outputs=2)
    data, updates = m.op("Tanh", x), m.op("Mul", v, v)
    return (m.op("ScatterElements", data, i, updates, axis=-1, reduction="add"),
            lambda t: torch.tanh(t).scatter_add(-1, t.topk(2, -1)[1], t.topk(2, -1)[0] ** 2))


case("topk", (3, 6), topk(2))
case("topk_smallest", (7,), topk(3, 0))
case("topk_axis1", (5, 3), topk(2, 1, 1))
case("gather_elements", (2, 6), gather)
case("gather_elements_repeated", (4, 3), gather_repeated)
case("scatter_elements", (2, 6), scatter, opset=16)

# ----------------------------------------------------- splitting, picking

def split(axis, sizes, use, opset=13, **attrs):
    """Splits x, and multiplies the parts named in use with what they were squared."""
    def build(m, x):
        if opset < 13:
            parts = m.op("Split", x, axis=axis, split=sizes, outputs=len(sizes))
        elif attrs:
            parts = m.op("Split", x, axis=axis, outputs=len(sizes), **attrs)
        else:
            parts = m.op("Split", x, m.ints(*sizes), axis=axis, outputs=len(sizes))
        chosen = [m.op("Mul", parts[i], parts[i]) for i in use]
        return m.op("Concat", *chosen, axis=axis), lambda t: torch.cat([t.split(sizes, axis)[i] ** 2 for i in use], axis)
    return build


case("split", (6, 2), split(1, [1, 3, 2], (0, 1, 2)))
case("split_first", (6, 2), split(1, [2, 4], (0,)))
case("split_gaps", (7,), split(1, [1, 2, 1, 2, 1], (1, 3)))
case("split_opset11", (2, 6), split(-1, [2, 2, 2], (2, 0), opset=11), opset=11)
case("split_uneven_opset18", (2, 7), split(2, [3, 3, 1], (0, 1, 2), num_outputs=3), opset=18)


def gather_at(axis, indices, **more):
    at = torch.tensor(indices)

    def ref(t):
        y = t.index_select(axis, at.reshape(-1) % t.shape[axis])
        return y.reshape(*t.shape[:axis], *at.shape, *t.shape[axis + 1:])
    return dict(shape=more.pop("shape", (3, 4)), build=lambda m, x: (m.op("Gather", x, m.const(indices, np.int64), axis=axis), ref), **more)


case("gather_first", **gather_at(1, 0, shape=(5, 3)))
case("gather_last", **gather_at(1, -1, shape=(5, 3)))
case("gather_turned", **gather_at(2, [3, 2, 1, 0]))
case("gather_some", **gather_at(2, [-1, 0, 2]))
case("gather_repeated", **gather_at(1, [0, 2, 0, 0]))
case("gather_often", **gather_at(2, [1, 1, 0, 1, 1, 1, 3, 1]))
case("gather_matrix", **gather_at(1, [[2, 0], [1, 2]]))
case("gather_one_by_one", **gather_at(2, [[1]]))
case("gather_channels", **gather_at(1, [2, 0], shape=(3, 2, 2)))
case("slice_step2", (7, 5), lambda m, x: (m.op("Slice", x, m.ints(1, 0), m.ints(7, 5), m.ints(1, 2), m.ints(2, 3)), lambda t: t[:, 1:7:2, ::3]))
case("slice_backwards", (4, 5), lambda m, x: (m.op("Slice", x, m.ints(-1), m.ints(-(1 << 60)), m.ints(2), m.ints(-1)), lambda t: t.flip(2)))
case("slice_backwards_step2", (4, 6), lambda m, x: (m.op("Slice", x, m.ints(4, 3), m.ints(0, 0), m.ints(2, 1), m.ints(-2, -1)),
                                                    lambda t: t[:, [3, 2, 1]][:, :, [4, 2]]))


def roll(m, x):
    a = m.op("Slice", x, m.ints(-2), m.ints(1 << 60), m.ints(1))
    b = m.op("Slice", x, m.ints(0), m.ints(-2), m.ints(1))
    return m.op("Concat", a, b, axis=1), lambda t: t.roll(2, 1)


case("roll", (5, 3), roll)


def pad_mode(mode, pads, fn, opset=13):
    return dict(shape=(2, 4, 5), build=lambda m, x: (m.op("Pad", x, m.ints(*pads), mode=mode), fn), opset=opset)


case("pad_negative", (2, 4, 5), lambda m, x: (m.op("Pad", x, m.ints(0, 0, -1, 2, 0, 0, 1, -3)), lambda t: F.pad(t, (2, -3, -1, 1))))
case("pad_reflect", **pad_mode("reflect", (0, 0, 2, 1, 0, 0, 1, 3), lambda t: F.pad(t, (1, 3, 2, 1), mode="reflect")))
case("pad_edge", **pad_mode("edge", (0, 0, 2, 1, 0, 0, 1, 3), lambda t: F.pad(t, (1, 3, 2, 1), mode="replicate")))
case("pad_edge_wide", **pad_mode("edge", (0, 0, 7, 0, 0, 0, 0, 6), lambda t: F.pad(t, (0, 6, 7, 0), mode="replicate")))
case("pad_wrap_opset19", **pad_mode("wrap", (0, 0, 2, 1, 0, 0, 1, 3), lambda t: F.pad(t, (1, 3, 2, 1), mode="circular"), opset=19))
case("pad_reflect_opset9", (2, 4, 5), lambda m, x: (m.op("Pad", x, pads=[0, 0, 1, 2, 0, 0, 1, 0], mode="reflect"),
                                                   lambda t: F.pad(t, (2, 0, 1, 1), mode="reflect")), opset=9)
case("pad_axes_opset18", (2, 4, 5), lambda m, x: (m.op("Pad", x, m.ints(1, 2, 0, 1), "", m.ints(-1, 2)), lambda t: F.pad(t, (1, 0, 2, 1))), opset=18)


# --------------------------------------------------- repeating, reshaping

case("tile", (2, 3), lambda m, x: (m.op("Tile", x, m.ints(1, 3, 2)), lambda t: t.repeat(1, 3, 2)))
case("tile_one", (2, 3), lambda m, x: (m.op("Mul", m.op("Tile", x, m.ints(1, 1, 1)), x), lambda t: t * t))
case("cumsum", (3, 4), lambda m, x: (m.op("CumSum", x, m.const(1, np.int64)), lambda t: t.cumsum(1)))
case("cumsum_backwards", (3, 4), lambda m, x: (m.op("CumSum", x, m.const(-1, np.int64), reverse=1, exclusive=1), lambda t: t.flip(2).cumsum(2).flip(2) - t))
case("trilu", (3, 4), lambda m, x: (m.op("Trilu", x), torch.triu), opset=14)
case("trilu_lower", (3, 4), lambda m, x: (m.op("Trilu", x, m.const(-1, np.int64), upper=0), lambda t: t.tril(-1)), opset=14)
case("reshape_allowzero", (2, 6), lambda m, x: (m.op("Reshape", x, m.ints(-1, 3, 4), allowzero=1), lambda t: t.reshape(-1, 3, 4)), opset=14)
case("reshape_by_shape", (2, 6), lambda m, x: (
    m.op("Reshape", x, m.op("Concat", m.op("Unsqueeze", m.op("Gather", m.op("Shape", x), m.const(0, np.int64)), m.ints(0)), m.ints(-1), axis=0)),
    lambda t: t.flatten(1)))
case("flatten_negative", (2, 3, 4), lambda m, x: (m.op("Flatten", x, axis=-3), lambda t: t.flatten(1)))


def class_token(m, x):
    """A token in front of x's, expanded as PyTorch writes it: -1 replaced by 1 where the shape says so."""
    tn, token = m.weight(1, 1, 3, scale=1.0)
    batch = m.op("Unsqueeze", m.op("Gather", m.op("Shape", x), m.const(0, np.int64), axis=0), m.ints(0))
    wanted = m.op("Concat", batch, m.ints(-1), m.ints(-1), axis=0)
    ones = m.op("ConstantOfShape", m.ints(3), value=helper.make_tensor("v", TensorProto.INT64, [1], [1]))
    same = m.op("Equal", wanted, m.op("Mul", ones, m.const(-1, np.int64)))
    expanded = m.op("Expand", tn, m.op("Where", same, ones, wanted))
    y = m.op("Concat", expanded, x, axis=1)
    return m.op("Mul", y, y), lambda t: torch.cat([token.expand(t.shape[0], -1, -1), t], 1) ** 2


def filled(m, x):
    """Zeros and ones of the batch's size, joined to x."""
    shape = m.op("Concat", m.op("Slice", m.op("Shape", x), m.ints(0), m.ints(1)), m.ints(2, 3), axis=0)
    one = helper.make_tensor("v", TensorProto.FLOAT, [1], [1.0])
    y = m.op("Concat", m.op("ConstantOfShape", shape), x, m.op("ConstantOfShape", shape, value=one), axis=1)
    return m.op("Exp", y), lambda t: torch.cat([t.new_zeros(t.shape[0], 2, 3), t, t.new_ones(t.shape[0], 2, 3)], 1).exp()


case("class_token", (4, 3), class_token)
case("constant_of_batch", (4, 3), filled)


# ------------------------------------- the batch joined with other dimensions

def heads(m, x):
    """Attention as PyTorch's functional form writes it: tokens first, batch and heads in one dimension, and the
    rows of a matrix product that mix tokens with the batch."""
    (qn, q), (kn, k), (on, o), (bn, b) = m.weight(4, 4), m.weight(4, 4), m.weight(3, 4), m.weight(3, scale=1.0)
    t = m.op("Transpose", x, perm=[1, 0, 2])  # [T, N, 4]
    shape = m.op("Shape", t)
    batch = m.op("Gather", shape, m.const(1, np.int64))
    joined = m.op("Unsqueeze", m.op("Mul", batch, m.const(2, np.int64)), m.ints(0))

    def split(w):
        s = m.op("Reshape", m.op("MatMul", t, w), m.op("Concat", m.ints(3), joined, m.ints(2), axis=0))  # [T, 2N, 2]
        return m.op("Transpose", s, perm=[1, 0, 2])
    a = m.op("Softmax", m.op("MatMul", split(qn), m.op("Transpose", split(kn), perm=[0, 2, 1])), axis=-1)
    y = m.op("Transpose", m.op("MatMul", a, split(kn)), perm=[1, 0, 2])
    y = m.op("Reshape", y, m.ints(-1, 4))  # [T·N, 4]
    y = m.op("Tanh", m.op("Gemm", y, on, bn, transB=1))
    y = m.op("Reshape", y, m.op("Concat", m.ints(3), m.op("Unsqueeze", batch, m.ints(0)), m.ints(3), axis=0))

    def ref(t):
        n = t.shape[0]
        u, v = ((t @ w).reshape(n, 3, 2, 2).transpose(1, 2) for w in (q, k))
        a = F.softmax(u @ v.transpose(2, 3), -1) @ v
        return torch.tanh(a.transpose(1, 2).reshape(n, 3, 4) @ o.T + b)
    return m.op("Transpose", y, perm=[1, 0, 2]), ref


def windows(m, x):
    """Windows of an image as items of their own, normalised, and put together again."""
    wn, w = m.weight(2, 2)
    y = m.op("Reshape", x, m.ints(-1, 2, 2, 2, 2, 2))  # [N, 2, 2, 2, 2, C]
    y = m.op("Reshape", m.op("Transpose", y, perm=[0, 1, 3, 2, 4, 5]), m.ints(-1, 4, 2))  # [4N, 4, C]
    y = m.op("Sub", y, m.op("ReduceMean", y, axes=[1], keepdims=1))
    y = m.op("Exp", m.op("MatMul", y, wn))
    y = m.op("Reshape", y, m.ints(-1, 2, 2, 2, 2, 2))

    def ref(t):
        v = t.reshape(-1, 2, 2, 2, 2, 2).transpose(2, 3).reshape(-1, 4, 2)
        v = ((v - v.mean(1, keepdim=True)) @ w).exp()
        return v.reshape(-1, 2, 2, 2, 2, 2).transpose(2, 3).reshape(-1, 4, 4, 2)
    return m.op("Reshape", m.op("Transpose", y, perm=[0, 1, 3, 2, 4, 5]), m.ints(-1, 4, 4, 2)), ref


def strided(m, x):
    """A view by strides as PyTorch's newer exporter writes it: places in the flat batch, counted."""
    n = m.op("Gather", m.op("Shape", x), m.const(0, np.int64))
    first = m.op("Mul", m.op("Range", m.const(0, np.int64), n, m.const(1, np.int64)), m.const(12, np.int64))
    at = m.op("Add", m.op("Unsqueeze", first, m.ints(1, 2)), m.const([[[0], [1], [2]]], np.int64))
    at = m.op("Add", at, m.const([[[0, 3, 3, 9]]], np.int64))
    y = m.op("Gather", m.op("Reshape", m.op("Mul", x, x), m.ints(-1)), at, axis=0)
    return y, lambda t: (t * t).flatten(1)[:, torch.tensor([[0, 3, 3, 9], [1, 4, 4, 10], [2, 5, 5, 11]])]


def strided_whole(m, x):
    n = m.op("Gather", m.op("Shape", x), m.const(0, np.int64))
    first = m.op("Mul", m.op("Range", m.const(0, np.int64), n, m.const(1, np.int64)), m.const(4, np.int64))
    at = m.op("Add", m.op("Unsqueeze", first, m.ints(1, 2)), m.const([[[0], [1], [2], [3]]], np.int64))
    pooled = m.op("GlobalAveragePool", x)
    return m.op("Exp", m.op("Gather", m.op("Reshape", pooled, m.ints(-1)), at, axis=0)), lambda t: t.mean((2, 3)).exp()[:, :, None]


case("heads_joined", (3, 4), heads)
case("windows_joined", (4, 4, 2), windows)
case("strided_view", (4, 3), strided, batch=3)
case("strided_view_whole", (4, 2, 2), strided_whole)


def gather_nd(m, x):  # x[:, [0, 2, -1], [1, 0, 1]] as advanced indexing is exported: the indexed axes in front
    t = m.op("Transpose", x, perm=[1, 2, 0, 3])
    y = m.op("GatherND", m.op("Mul", t, t), m.const([[0, 1], [2, 0], [-1, 1]], np.int64))
    return m.op("Transpose", y, perm=[1, 0, 2]), lambda t: t[:, [0, 2, 2], [1, 0, 1]] ** 2


def table(m, x):  # a table read by GatherND, and a mask filled by ScatterND: constants
    a = m.op("GatherND", m.const([[1.0, 2.0], [3.0, 4.0]]), m.const([[1, 0], [0, 1], [1, 1]], np.int64))
    b = m.op("ScatterND", m.const([0.0, 0.0, 0.0]), m.const([[2], [0]], np.int64), m.const([5.0, -1.0]))
    return m.op("Add", m.op("Mul", x, a), b), lambda t: t * torch.tensor([3.0, 2.0, 4.0]).double() + torch.tensor([-1.0, 0.0, 5.0]).double()


case("gather_nd", (3, 2, 4), gather_nd)
case("gather_nd_table", (2, 3), table)

# Forms of other operator sets.
case("split_opset7", (4, 3), split(1, [1, 3], (0, 1), opset=7), opset=7)
case("expand_opset8", (2, 1), lambda m, x: (m.op("Expand", x, m.ints(1, 1, 3)), lambda t: t.expand(-1, 2, 3)), opset=8)
case("pad_edge_opset7", (2, 4, 5), lambda m, x: (m.op("Pad", x, pads=[0, 0, 1, 0, 0, 0, 0, 2], mode="edge"), lambda t: F.pad(t, (0, 2, 1, 0), mode="replicate")), opset=7)
case("unsqueeze_opset11", (3, 4), lambda m, x: (m.op("Unsqueeze", x, axes=[1, 4]), lambda t: t[:, None, :, :, None]), opset=11)
