"""The cases of goldens.py, operator by operator; goldens_nets.py adds networks.

A case builds its ONNX nodes on a Model and returns the output's name and the
PyTorch function that must agree with it. What is left out on purpose, because
ONNX Runtime or ONNX itself differs from PyTorch there:

- AveragePool with ceil_mode and count_include_pad, where windows reach beyond the end
  padding: PyTorch leaves the cells beyond out of the count, ONNX Runtime counts
  them; selfheal refuses it.
- ConvTranspose with output_padding of the stride or more (PyTorch allows it with
  dilation): ONNX Runtime computes something else, so selfheal refuses it.
- Clip is pinned to torch.clamp, whose gradient passes at both ends; ReLU6 and
  hardtanh, exported as the same Clip, give 0 at exactly their ends.
"""

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
import torch
import torch.nn.functional as F

CASES = []


@dataclass
class Case:
    name: str
    shape: tuple
    build: Callable
    opset: int = 13
    batch: int = 2
    kink: bool = False  # x lies on a kink or tie: the gradient is a convention
    x: Any = None
    head: Any = None
    head_name: str = ""
    labels: Any = None
    targets: Any = None


def case(name, shape, build, **more):
    CASES.append(Case(name, tuple(shape), build, **more))


# ------------------------------------------------------------- elementwise

def unary(name, op, fn, shape=(2, 3, 4), attrs=None, **more):
    case(name, shape, lambda m, x: (m.op(op, x, **(attrs or {})), fn), **more)


def positive(*shape):
    return lambda rng: rng.uniform(0.3, 2, shape)


unary("identity", "Identity", lambda x: x * 1)
unary("neg", "Neg", lambda x: -x)
unary("exp", "Exp", torch.exp)
unary("log", "Log", torch.log, x=positive(2, 3, 4))
unary("sqrt", "Sqrt", torch.sqrt, x=positive(2, 3, 4))
unary("relu", "Relu", F.relu)
unary("elu", "Elu", F.elu)
unary("elu_alpha", "Elu", lambda x: F.elu(x, 0.5), attrs={"alpha": 0.5})
unary("sigmoid", "Sigmoid", torch.sigmoid)
unary("tanh", "Tanh", torch.tanh)
unary("hardsigmoid", "HardSigmoid", lambda x: torch.clamp(float(np.float32(0.2)) * x + 0.5, 0, 1),
      x=lambda rng: rng.choice([-4.1, -1.3, -0.4, 0.7, 1.9, 3.6], (2, 3, 4)))
unary("hardsigmoid_torch", "HardSigmoid", F.hardsigmoid, attrs={"alpha": 1 / 6, "beta": 0.5},
      x=lambda rng: rng.choice([-4.1, -1.3, -0.4, 0.7, 1.9, 3.6], (2, 3, 4)))
unary("softmax", "Softmax", lambda x: F.softmax(x, -1), attrs={"axis": -1})
unary("softmax_axis1", "Softmax", lambda x: F.softmax(x, 1), attrs={"axis": 1})
unary("softmax_matrix", "Softmax", lambda x: F.softmax(x, -1), attrs={"axis": -1}, shape=(7,))
unary("logsoftmax_matrix", "LogSoftmax", lambda x: F.log_softmax(x, -1), attrs={"axis": -1}, shape=(7,))
unary("logsoftmax", "LogSoftmax", lambda x: F.log_softmax(x, -1), attrs={"axis": -1})
unary("logsoftmax_axis2", "LogSoftmax", lambda x: F.log_softmax(x, 2), attrs={"axis": 2}, shape=(2, 3, 4))

# Where the gradient is a convention: PyTorch's.
unary("relu_at_0", "Relu", F.relu, kink=True, x=lambda rng: rng.choice([-1.0, 0.0, 0.5], (2, 12)))
unary("elu_at_0", "Elu", lambda x: F.elu(x, 2.0), attrs={"alpha": 2.0}, kink=True, x=lambda rng: rng.choice([-1.0, 0.0, 0.5], (2, 12)))
unary("hardsigmoid_at_ends", "HardSigmoid", F.hardsigmoid, attrs={"alpha": 1 / 6, "beta": 0.5}, kink=True,
      x=lambda rng: rng.choice([-3.0, 0.0, 3.0], (2, 12)))
case("clip_at_ends", (12,), lambda m, x: (m.op("Clip", x, m.const(-1.0), m.const(0.5)), lambda t: torch.clamp(t, -1, 0.5)),
     kink=True, x=lambda rng: rng.choice([-2.0, -1.0, 0.0, 0.5, 1.0], (2, 12)))

case("clip", (2, 3, 4), lambda m, x: (m.op("Clip", x, m.const(-1.01), m.const(0.507)), lambda t: torch.clamp(t, -1.01, 0.507)))
case("clip_low", (2, 3, 4), lambda m, x: (m.op("Clip", x, m.const(-0.507)), lambda t: torch.clamp(t, min=-0.507)))
case("clip_high", (2, 3, 4), lambda m, x: (m.op("Clip", x, "", m.const(0.507)), lambda t: torch.clamp(t, max=0.507)))
case("clip6_opset9", (2, 3, 4), lambda m, x: (m.op("Clip", x, min=-0.507, max=1.01), lambda t: torch.clamp(t, -0.507, 1.01)), opset=9)


def where(m, x):
    c, a, b = m.op("Greater", x, m.const(0.3)), m.op("Mul", x, x), m.op("Neg", x)
    return m.op("Where", c, a, b), lambda t: torch.where(t > 0.3, t * t, -t)


def where_broadcast(m, x):
    # a per-channel value from the data where x is large, a constant elsewhere
    s = m.op("ReduceMean", x, axes=[2], keepdims=1)
    c = m.op("Less", x, m.const(-0.21))
    return m.op("Where", c, s, m.const(0.5)), lambda t: torch.where(t < -0.21, t.mean(2, keepdim=True), torch.tensor(0.5).double())


case("where", (2, 3, 4), where)
case("where_broadcast", (2, 5), where_broadcast)

BINARY = {"Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div}


def binary(op, left):
    fn = BINARY[op]

    def channels(m, x):
        name, c = m.const([[[[0.75]], [[-1.5]], [[2.0]]]]), torch.tensor([0.75, -1.5, 2.0]).double().reshape(1, 3, 1, 1)
        return (m.op(op, x, name), lambda t: fn(t, c)) if left else (m.op(op, name, x), lambda t: fn(c, t))

    def scalar(m, x):
        name = m.const(1.75)
        return (m.op(op, x, name), lambda t: fn(t, 1.75)) if left else (m.op(op, name, x), lambda t: fn(torch.tensor(1.75).double(), t))

    def excite(m, x):  # [N,C,1,1] with [N,C,H,W], both from the data
        s = m.op("Exp", m.op("GlobalAveragePool", x))

        def ref(t):
            e = torch.exp(t.mean((2, 3), keepdim=True))
            return fn(e, t) if left else fn(t, e)
        return (m.op(op, s, x) if left else m.op(op, x, s)), ref

    side = "left" if left else "right"
    away = lambda rng: spread_signs(rng, (2, 3, 2, 3))
    case(f"{op.lower()}_channels_{side}", (3, 2, 3), channels, x=away)
    case(f"{op.lower()}_scalar_{side}", (3, 2, 3), scalar, x=away)
    case(f"{op.lower()}_excite_{side}", (3, 2, 3), excite, x=away)


def spread_signs(rng, shape):
    return rng.uniform(0.4, 1.6, shape) * rng.choice([-1, 1], shape)


for _op in BINARY:
    binary(_op, True)
    binary(_op, False)
case("mul_square", (2, 3), lambda m, x: (m.op("Mul", x, x), lambda t: t * t))
case("add_twice", (2, 3), lambda m, x: (m.op("Add", m.op("Add", x, x), x), lambda t: 3 * t))
case("sub_self_broadcast", (3, 4), lambda m, x: (m.op("Sub", x, m.op("ReduceMean", x, axes=[2], keepdims=1)),
                                                lambda t: t - t.mean(2, keepdim=True)))
case("add_vector", (3, 4), lambda m, x: (m.op("Add", x, m.const([1.0, -2.0, 3.0, 0.5])),
                                        lambda t: t + torch.tensor([1.0, -2.0, 3.0, 0.5]).double()))


# ------------------------------------------------------------- convolution

def conv(name, shape, out, kernel, stride=1, pads=0, dilation=1, group=1, bias=True, **more):
    k = len(kernel)
    stride = [stride] * k if isinstance(stride, int) else stride
    dilation = [dilation] * k if isinstance(dilation, int) else dilation
    pads = [pads] * 2 * k if isinstance(pads, int) else pads

    def build(m, x):
        wn, w = m.weight(out, shape[0] // group, *kernel)
        inputs = [x, wn]
        b = None
        if bias:
            bn, b = m.weight(out, scale=0.5)
            inputs.append(bn)
        border = [p for i in reversed(range(k)) for p in (pads[i], pads[i + k])]
        fn = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[k]
        return (m.op("Conv", *inputs, kernel_shape=list(kernel), strides=stride, pads=pads, dilations=dilation, group=group),
                lambda t: fn(F.pad(t, border), w, b, stride, 0, dilation, group))
    case(name, shape, build, **more)


conv("conv_3x3_pad1", (2, 5, 4), 3, (3, 3), pads=1)
conv("conv_3x3_valid", (2, 5, 4), 2, (3, 3), bias=False)
conv("conv_stride2", (2, 6, 5), 2, (3, 3), stride=2, pads=1)
conv("conv_stride2_rest", (2, 6, 6), 2, (3, 3), stride=2)
conv("conv_stride3_rest", (1, 9, 8), 2, (2, 2), stride=3)
conv("conv_strides_differ", (1, 6, 7), 2, (3, 2), stride=[1, 3], pads=[1, 0, 1, 1])
conv("conv_dilated", (2, 7, 7), 2, (3, 3), dilation=2, pads=2)
conv("conv_dilated_stride2", (1, 8, 9), 2, (3, 3), dilation=2, stride=2, pads=1)
conv("conv_groups", (4, 4, 4), 6, (3, 3), group=2, pads=1)
conv("conv_groups_stride2", (4, 5, 5), 4, (3, 3), group=2, pads=1, stride=2)
conv("conv_depthwise", (4, 4, 4), 4, (3, 3), group=4, pads=1)
conv("conv_depthwise_multiplier", (2, 4, 4), 6, (3, 3), group=2, pads=1)
conv("conv_depthwise_stride2", (3, 5, 5), 3, (3, 3), group=3, pads=1, stride=2)
conv("conv_asymmetric_pads", (2, 4, 5), 2, (3, 3), pads=[0, 1, 2, 0])
conv("conv_asymmetric_stride2", (2, 5, 5), 2, (3, 3), pads=[0, 0, 1, 1], stride=2)
conv("conv_1x1", (3, 3, 4), 2, (1, 1))
conv("conv_1x1_stride2", (3, 5, 4), 2, (1, 1), stride=2)
conv("conv_wide_pads", (2, 3, 3), 2, (2, 2), pads=3)
conv("conv_1x1_padded", (2, 3, 3), 2, (1, 1), pads=1)
conv("conv_whole_image", (2, 4, 4), 3, (4, 4))
conv("conv_1d", (2, 8), 3, (3,), pads=1, stride=2)
conv("conv_3d", (1, 3, 3, 3), 2, (2, 2, 2), pads=[1, 0, 0, 0, 1, 0], batch=2)


def conv_transpose(name, shape, out, kernel, stride=1, pads=0, dilation=1, group=1, output_padding=(0, 0), bias=True):
    def build(m, x):
        wn, w = m.weight(shape[0], out // group, *kernel)
        inputs = [x, wn]
        b = None
        if bias:
            bn, b = m.weight(out, scale=0.5)
            inputs.append(bn)
        return (m.op("ConvTranspose", *inputs, kernel_shape=list(kernel), strides=[stride] * 2, pads=[pads] * 4,
                     dilations=[dilation] * 2, group=group, output_padding=list(output_padding)),
                lambda t: F.conv_transpose2d(t, w, b, stride, pads, output_padding, group, dilation))
    case(name, shape, build)


conv_transpose("convtranspose", (2, 3, 4), 3, (3, 3))
conv_transpose("convtranspose_stride2", (2, 3, 3), 2, (2, 2), stride=2)
conv_transpose("convtranspose_output_padding", (2, 3, 3), 2, (3, 3), stride=2, pads=1, output_padding=(1, 1))
conv_transpose("convtranspose_output_padding_one", (2, 3, 3), 2, (3, 3), stride=2, pads=1, output_padding=(1, 0), bias=False)
conv_transpose("convtranspose_groups", (4, 3, 3), 6, (3, 3), stride=2, group=2, pads=1)
conv_transpose("convtranspose_dilated", (2, 3, 3), 2, (2, 2), dilation=2)
conv_transpose("convtranspose_dilated_stride2", (1, 3, 3), 2, (2, 2), stride=2, dilation=3, pads=1, output_padding=(1, 0))


def batchnorm(shape, eps):
    c = shape[0]

    def build(m, x):
        sn, s = m.weight(c, scale=1.0)
        bn, b = m.weight(c, scale=1.0)
        mn, mu = m.weight(c, scale=1.0)
        v = m.rng.uniform(0.2, 2, c).astype(np.float32)
        return (m.op("BatchNormalization", x, sn, bn, mn, m.const(v), epsilon=eps),
                lambda t: F.batch_norm(t, mu, torch.from_numpy(v).double(), s, b, False, 0, float(np.float32(eps))))
    return build


case("batchnorm_2d", (3, 3, 2), batchnorm((3,), 1e-5))
case("batchnorm_1d", (5,), batchnorm((5,), 1e-2))
case("batchnorm_channels_only", (4, 3), batchnorm((4,), 1e-3))


# ----------------------------------------------------------------- pooling

def max_pool(name, shape, kernel, stride, pads=0, dilation=1, ceil=0, **more):
    def build(m, x):
        attrs = dict(kernel_shape=list(kernel), strides=[stride] * 2, pads=[pads] * 4, dilations=[dilation] * 2)
        if ceil:
            attrs["ceil_mode"] = 1
        return m.op("MaxPool", x, **attrs), lambda t: F.max_pool2d(t, kernel, stride, pads, dilation, bool(ceil))
    case(name, shape, build, **more)


def ties(*shape):
    return lambda rng: rng.choice([0.0, 1.0], shape)


def with_zero(rng):
    x = (rng.permutation(64) - 32).reshape(2, 2, 4, 4) / 16
    return x  # distinct, one value exactly 0


max_pool("maxpool_2x2", (2, 4, 4), (2, 2), 2)
max_pool("maxpool_overlapping", (2, 5, 5), (3, 3), 2)
max_pool("maxpool_stride1", (1, 4, 5), (3, 2), 1)
max_pool("maxpool_padded", (2, 5, 4), (3, 3), 2, pads=1)
max_pool("maxpool_ceil", (1, 6, 5), (3, 3), 2, ceil=1)
max_pool("maxpool_ceil_padded", (1, 6, 6), (3, 3), 2, pads=1, ceil=1)
max_pool("maxpool_ceil_left_out", (1, 5, 8), (3, 3), 3, pads=1, ceil=1)
max_pool("maxpool_ceil_dilated", (1, 6, 6), (2, 2), 2, dilation=2, ceil=1)
max_pool("maxpool_dilated", (1, 6, 6), (2, 2), 1, dilation=2)
max_pool("maxpool_rest", (2, 5, 5), (2, 2), 2, batch=3)
max_pool("maxpool_zero_value", (2, 4, 4), (2, 2), 2, x=with_zero)
max_pool("maxpool_ties", (2, 4, 4), (2, 2), 2, kink=True, x=ties(2, 2, 4, 4))
max_pool("maxpool_ties_overlapping", (1, 5, 5), (3, 3), 1, pads=1, kink=True, x=ties(2, 1, 5, 5))
case("maxpool_1d", (2, 8), lambda m, x: (m.op("MaxPool", x, kernel_shape=[3], strides=[2], pads=[1, 1]), lambda t: F.max_pool1d(t, 3, 2, 1)))


def avg_pool(name, shape, kernel, stride, pads=0, ceil=0, include=0, **more):
    def build(m, x):
        return (m.op("AveragePool", x, kernel_shape=list(kernel), strides=[stride] * 2, pads=[pads] * 4, ceil_mode=ceil, count_include_pad=include),
                lambda t: F.avg_pool2d(t, kernel, stride, pads, bool(ceil), bool(include)))
    case(name, shape, build, **more)


avg_pool("avgpool_2x2", (2, 4, 4), (2, 2), 2)
avg_pool("avgpool_rest", (2, 5, 5), (2, 2), 2)
avg_pool("avgpool_overlapping", (2, 5, 4), (3, 2), 1)
avg_pool("avgpool_padded", (2, 5, 4), (3, 3), 2, pads=1)
avg_pool("avgpool_padded_included", (2, 5, 4), (3, 3), 2, pads=1, include=1)
avg_pool("avgpool_ceil", (1, 6, 5), (3, 3), 2, ceil=1)
avg_pool("avgpool_ceil_2x2", (1, 5, 5), (2, 2), 2, ceil=1)
avg_pool("avgpool_ceil_padded", (1, 6, 6), (3, 3), 2, pads=1, ceil=1)
avg_pool("avgpool_ceil_left_out", (1, 7, 8), (3, 3), 3, pads=1, ceil=1)
avg_pool("avgpool_ceil_included", (1, 7, 8), (3, 3), 3, pads=1, ceil=1, include=1)
avg_pool("avgpool_whole_image", (3, 3, 4), (3, 4), 1)
case("globalaveragepool", (3, 3, 4), lambda m, x: (m.op("GlobalAveragePool", x), lambda t: t.mean((2, 3), keepdim=True)))


def resize(scales, coord="asymmetric", rounding="floor", sizes=None):
    def build(m, x):
        if sizes is None:
            inputs = [x, "", m.const([1.0, 1.0, *scales])]
        else:  # as PyTorch's exporter writes it: batch and channels from the input
            front = m.op("Slice", m.op("Shape", x), m.ints(0), m.ints(2), m.ints(0))
            inputs = [x, "", "", m.op("Concat", front, m.ints(*sizes), axis=0)]
        return (m.op("Resize", *inputs, mode="nearest", coordinate_transformation_mode=coord, nearest_mode=rounding),
                lambda t: F.interpolate(t, scale_factor=scales, mode="nearest"))
    return build


case("resize_x2", (2, 3, 2), resize((2.0, 2.0)))
case("resize_x3_x1", (2, 2, 3), resize((3.0, 1.0)))
case("resize_x2_x3", (1, 3, 2), resize((2.0, 3.0)))
case("resize_half_pixel", (1, 3, 2), resize((2.0, 3.0), "half_pixel", "round_prefer_floor"))
case("resize_sizes", (1, 3, 2), resize((2.0, 4.0), sizes=(6, 8)))
case("upsample_opset9", (1, 3, 2), lambda m, x: (m.op("Upsample", x, m.const([1.0, 1.0, 2.0, 3.0]), mode="nearest"),
                                                lambda t: F.interpolate(t, scale_factor=(2.0, 3.0), mode="nearest")), opset=9)


# ---------------------------------------------------------------- matrices

def gemm(shape, wshape, attrs, cshape=None):
    def build(m, x):
        wn, w = m.weight(*wshape)
        inputs = [x, wn]
        c = torch.zeros(1).double()
        if cshape is not None:
            cn, c = m.weight(*cshape, scale=1.0)
            inputs.append(cn)
        a, b = np.float32(attrs.get("alpha", 1)).item(), np.float32(attrs.get("beta", 1)).item()
        return (m.op("Gemm", *inputs, **attrs),
                lambda t: a * (t @ (w.T if attrs.get("transB") else w)) + b * c)
    return build


case("gemm", (4,), gemm((4,), (4, 3), {}))
case("gemm_bias", (4,), gemm((4,), (4, 3), {}, (3,)), batch=3)
case("gemm_transb", (4,), gemm((4,), (3, 4), {"transB": 1}, (3,)))
case("gemm_alpha_beta", (4,), gemm((4,), (3, 4), {"transB": 1, "alpha": 0.5, "beta": 2.0}, (1, 3)))


def gemm_trans_a(transb):
    def build(m, x):  # the batch is a column: x turned, and turned back by transA
        wn, w = m.weight(*((3, 4) if transb else (4, 3)))
        t = m.op("Transpose", x, perm=[1, 0])
        return m.op("Gemm", t, wn, transA=1, transB=int(transb), alpha=1.5), lambda v: 1.5 * v @ (w.T if transb else w)
    return build


def gemm_right(transa, transb):
    def build(m, x):  # the data is the right factor
        wn, w = m.weight(*((4, 3) if transa else (3, 4)))
        r = x if transb else m.op("Transpose", x, perm=[1, 0])
        y = m.op("Gemm", wn, r, transA=int(transa), transB=int(transb), alpha=0.75)
        return m.op("Transpose", y, perm=[1, 0]), lambda v: 0.75 * v @ (w if transa else w.T)
    return build


case("gemm_transa", (4,), gemm_trans_a(False))
case("gemm_transa_transb", (4,), gemm_trans_a(True))
for _a in (False, True):
    for _b in (False, True):
        case(f"gemm_right_{int(_a)}{int(_b)}", (4,), gemm_right(_a, _b))


def gemm_c(m, x):  # the addend is data too
    wn, w = m.weight(3, 3)
    return m.op("Gemm", x, wn, m.op("Tanh", x), beta=-0.5), lambda t: t @ w - 0.5 * torch.tanh(t)


case("gemm_data_addend", (3,), gemm_c)


def matmul_const(*wshape, left=False):
    def build(m, x):
        wn, w = m.weight(*wshape)
        return (m.op("MatMul", wn, x), lambda t: w @ t) if left else (m.op("MatMul", x, wn), lambda t: t @ w)
    return build


def attention(m, x):  # [N,T,D]·[N,D,T] and its softmax times x: both factors from the data
    s = m.op("MatMul", x, m.op("Transpose", x, perm=[0, 2, 1]))
    return m.op("MatMul", m.op("Softmax", s, axis=-1), x), lambda t: F.softmax(t @ t.transpose(1, 2), -1) @ t


case("matmul_const_right", (4,), matmul_const(4, 3))
case("matmul_const_right_batched", (3, 4), matmul_const(4, 2))
case("matmul_const_left_batched", (3, 4), matmul_const(2, 3, left=True))
case("matmul_heads", (2, 3, 4), matmul_const(2, 4, 3))
case("matmul_data_data", (3, 4), lambda m, x: (m.op("MatMul", x, m.op("Transpose", x, perm=[0, 2, 1])), lambda t: t @ t.transpose(1, 2)))
case("matmul_attention", (3, 4), attention)


# ------------------------------------------------------------------ layout

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


# -------------------------------------------------------------- reductions

def reduce(op, axes, keep, opset=13):
    fn = torch.sum if op == "ReduceSum" else torch.mean

    def build(m, x):
        if op == "ReduceSum" and opset >= 13:
            y = m.op(op, x, m.ints(*axes), keepdims=keep)
        else:
            y = m.op(op, x, axes=list(axes), keepdims=keep)
        return y, lambda t: fn(t, dim=axes, keepdim=bool(keep))
    return build


for _op in ("ReduceSum", "ReduceMean"):
    _n = _op.lower()
    case(f"{_n}_keep", (2, 3, 4), reduce(_op, (2,), 1))
    case(f"{_n}_drop", (2, 3, 4), reduce(_op, (1,), 0))
    case(f"{_n}_several", (2, 3, 4), reduce(_op, (2, 3), 0))
    case(f"{_n}_several_keep", (2, 3, 4), reduce(_op, (-1, 1), 1))
    case(f"{_n}_opset11", (2, 3, 4), reduce(_op, (1, 2), 0, 11), opset=11)


    # sizes that ONNX Runtime's vectorised sums cut differently for each item
    case(f"{_n}_matrix", (11,), reduce(_op, (1,), 1))
    case(f"{_n}_middle", (7, 5), reduce(_op, (1,), 0))
    case(f"{_n}_spatial", (3, 3, 5), reduce(_op, (2, 3), 0))
    case(f"{_n}_outer", (7, 2, 3), reduce(_op, (1, 3), 1))
    case(f"{_n}_all", (3, 5, 3), reduce(_op, (1, 2, 3), 1))


def reduce_turned(op):  # the batch is the last axis
    fn = torch.sum if op == "ReduceSum" else torch.mean

    def build(m, x):
        t = m.op("Transpose", x, perm=[1, 2, 0])
        y = m.op(op, t, m.ints(0), keepdims=1) if op == "ReduceSum" else m.op(op, t, axes=[0], keepdims=1)
        return m.op("Transpose", y, perm=[2, 0, 1]), lambda t: fn(t, dim=1, keepdim=True)
    return build


case("reducesum_turned", (5, 3), reduce_turned("ReduceSum"))
case("reducemean_turned", (5, 3), reduce_turned("ReduceMean"))


def broadcast_sum(m, x):  # the gradient sums over leading and inner axes
    s = m.op("Slice", x, m.ints(0, 0), m.ints(1, 1), m.ints(1, 3))
    return m.op("Mul", x, s), lambda t: t * t[:, :1, :, :1]


case("mul_broadcast_inner", (7, 3, 3), broadcast_sum)
