"""Cases of gradients.py: convolution, pooling, resizing. What is left out on purpose,
because ONNX Runtime or ONNX itself differs from PyTorch there:

- AveragePool with ceil_mode and count_include_pad, where windows reach beyond the end
  padding: PyTorch leaves the cells beyond out of the count, ONNX Runtime counts
  them; selfheal refuses it.
- ConvTranspose with output_padding of the stride or more (PyTorch allows it with
  dilation): ONNX Runtime computes something else, so selfheal refuses it.
"""

import numpy as np
import torch
import torch.nn.functional as F

from goldens.cases import CASES, Case, case, ties

# ------------------------------------------------------------- convolution

def conv_case(name, shape, out, kernel, stride=1, pads=0, dilation=1, group=1, bias=True, **more):
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
    return Case(name, tuple(shape), build, **more)


def conv(*args, **more):
    CASES.append(conv_case(*args, **more))


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


def conv_transpose_case(name, shape, out, kernel, stride=1, pads=0, dilation=1, group=1, output_padding=(0, 0), bias=True):
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
    return Case(name, tuple(shape), build)


def conv_transpose(*args, **more):
    CASES.append(conv_transpose_case(*args, **more))


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

# By other than whole factors, and in every way of placing and rounding that
# PyTorch and the operator sets write. PyTorch's own functions stand against
# theirs; for the rest the sampling is computed here from the standard's formulas.

PLACE = {
    "half_pixel": lambda i, n, m: (i + 0.5) * n / m - 0.5,
    "pytorch_half_pixel": lambda i, n, m: (i + 0.5) * n / m - 0.5 if m > 1 else 0.0,
    "half_pixel_symmetric": lambda i, n, m: (i + 0.5) * n / m - 0.5,  # of sizes; scales differ
    "asymmetric": lambda i, n, m: i * n / m,
    "align_corners": lambda i, n, m: i * (n - 1) / (m - 1) if m > 1 else 0.0,
    "tf_half_pixel_for_nn": lambda i, n, m: (i + 0.5) * n / m,
}
ROUND = {
    "floor": np.floor, "ceil": np.ceil,
    "round_prefer_floor": lambda v: np.ceil(v - 0.5), "round_prefer_ceil": lambda v: np.floor(v + 0.5),
}


def nearest(coord, rounding, sizes):
    def ref(t):
        for axis, m in zip(range(2, t.dim()), sizes):
            n = t.shape[axis]
            at = [int(np.clip(ROUND[rounding](PLACE[coord](i, n, m)), 0, n - 1)) for i in range(m)]
            t = t.index_select(axis, torch.tensor(at))
        return t
    return ref


def linear(coord, sizes):
    def ref(t):
        for axis, m in zip(range(2, t.dim()), sizes):
            n = t.shape[axis]
            at = [float(np.clip(PLACE[coord](i, n, m), 0, n - 1)) for i in range(m)]
            low = torch.tensor([int(v) for v in at])
            part = torch.tensor([v - int(v) for v in at]).double().reshape([-1] + [1] * (t.dim() - axis - 1))
            t = t.index_select(axis, low) * (1 - part) + t.index_select(axis, (low + 1).clamp(max=n - 1)) * part
        return t
    return ref


def resize_to(mode, sizes, coord, ref, scales=False, **attrs):
    def build(m, x):
        if scales:
            inputs = [x, "", m.const([1.0, 1.0, *scales])]
        else:
            front = m.op("Slice", m.op("Shape", x), m.ints(0), m.ints(2), m.ints(0))
            inputs = [x, "", "", m.op("Concat", front, m.ints(*sizes), axis=0)]
        return m.op("Resize", *inputs, mode=mode, coordinate_transformation_mode=coord, **attrs), ref
    return build


def interpolate(sizes, mode, corners=None):
    return lambda t: F.interpolate(t, size=sizes, mode=mode, align_corners=corners)


case("resize_nearest_up", (2, 3, 4), resize_to("nearest", (5, 7), "asymmetric", interpolate((5, 7), "nearest"), nearest_mode="floor"))
case("resize_nearest_down", (1, 7, 6), resize_to("nearest", (3, 4), "asymmetric", interpolate((3, 4), "nearest"), nearest_mode="floor"))
case("resize_nearest_many", (1, 2, 3), resize_to("nearest", (13, 4), "asymmetric", interpolate((13, 4), "nearest"), nearest_mode="floor"))
case("resize_nearest_exact", (1, 5, 4), resize_to("nearest", (8, 3), "half_pixel", interpolate((8, 3), "nearest-exact"), nearest_mode="round_prefer_ceil"))
case("resize_nearest_scales", (2, 5, 5), resize_to("nearest", None, "asymmetric", lambda t: F.interpolate(t, scale_factor=(1.5, 0.7), mode="nearest"),
                                                   scales=(1.5, 0.7), nearest_mode="floor"))
for _coord in PLACE:
    for _round in ROUND:
        if _coord != "half_pixel_symmetric":
            case(f"resize_{_coord}_{_round}", (1, 5, 4), resize_to("nearest", (7, 6), _coord, nearest(_coord, _round, (7, 6)), nearest_mode=_round))
case("resize_nearest_1d", (2, 5), resize_to("nearest", (8,), "asymmetric", interpolate(8, "nearest"), nearest_mode="floor"))
case("resize_symmetric_opset19", (1, 5, 4), resize_to("linear", (7, 3), "half_pixel_symmetric", linear("half_pixel_symmetric", (7, 3))), opset=19)
case("resize_linear", (2, 3, 4), resize_to("linear", (6, 7), "half_pixel", interpolate((6, 7), "bilinear", False)))
case("resize_linear_pytorch", (2, 4, 4), resize_to("linear", (8, 1), "pytorch_half_pixel", linear("pytorch_half_pixel", (8, 1))))
case("resize_linear_down", (1, 7, 6), resize_to("linear", (3, 4), "pytorch_half_pixel", interpolate((3, 4), "bilinear", False)))
case("resize_linear_corners", (1, 3, 4), resize_to("linear", (7, 5), "align_corners", interpolate((7, 5), "bilinear", True)))
case("resize_linear_corners_one", (1, 3, 4), resize_to("linear", (1, 5), "align_corners", interpolate((1, 5), "bilinear", True)))
case("resize_linear_asymmetric", (1, 3, 4), resize_to("linear", (5, 8), "asymmetric", linear("asymmetric", (5, 8))))
case("resize_linear_x2", (2, 3, 3), resize_to("linear", None, "half_pixel", lambda t: F.interpolate(t, scale_factor=2.0, mode="bilinear"), scales=(2.0, 2.0)))
case("resize_linear_scales", (2, 5, 5), resize_to("linear", None, "pytorch_half_pixel",
                                                  lambda t: F.interpolate(t, scale_factor=(1.5, 0.7), mode="bilinear"), scales=(1.5, 0.7)))
case("resize_linear_1d", (2, 5), resize_to("linear", (8,), "half_pixel", interpolate(8, "linear", False)))
case("resize_linear_3d", (1, 2, 3, 2), resize_to("linear", (3, 4, 5), "half_pixel", interpolate((3, 4, 5), "trilinear", False)))
case("resize_cubic", (1, 5, 4), resize_to("cubic", (8, 7), "half_pixel", interpolate((8, 7), "bicubic", False)))
case("resize_cubic_down", (1, 7, 8), resize_to("cubic", (4, 5), "pytorch_half_pixel", interpolate((4, 5), "bicubic", False)))
case("resize_cubic_corners", (1, 4, 5), resize_to("cubic", (6, 9), "align_corners", interpolate((6, 9), "bicubic", True)))
case("upsample_linear_opset9", (1, 3, 2), lambda m, x: (m.op("Upsample", x, m.const([1.0, 1.0, 2.0, 3.0]), mode="linear"), linear("asymmetric", (6, 6))), opset=9)
case("resize_opset10", (1, 3, 2), lambda m, x: (m.op("Resize", x, m.const([1.0, 1.0, 2.0, 3.0]), mode="nearest"),
                                                lambda t: F.interpolate(t, scale_factor=(2.0, 3.0), mode="nearest")), opset=10)
case("resize_axes_opset18", (2, 3, 4), lambda m, x: (m.op("Resize", x, "", "", m.ints(5, 7), axes=[2, 3], mode="linear"), interpolate((5, 7), "bilinear", False)),
     opset=18)
case("resize_axes_turned_opset18", (2, 3, 4), lambda m, x: (m.op("Resize", x, "", m.const([2.0, 1.5]), axes=[-1, 2], mode="nearest",
                                                                 coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
                                                            lambda t: F.interpolate(t, scale_factor=(1.5, 2.0), mode="nearest")), opset=18)


# ------------------------------------------------- global pools, unpooling

case("globalmaxpool", (3, 3, 4), lambda m, x: (m.op("GlobalMaxPool", x), lambda t: F.adaptive_max_pool2d(t, 1)))
case("globalmaxpool_1d", (3, 5), lambda m, x: (m.op("GlobalMaxPool", x), lambda t: F.adaptive_max_pool1d(t, 1)))
case("globalmaxpool_ties", (2, 3, 3), lambda m, x: (m.op("GlobalMaxPool", x), lambda t: F.adaptive_max_pool2d(t, 1)), kink=True, x=ties(2, 2, 3, 3))


def one_peak(rng):
    """One value above all others in each image: overlapping windows share their largest value."""
    x = rng.permutation(50).reshape(2, 1, 5, 5) * 0.01 - 0.25
    x[:, 0, 2, 2] = 1.5
    return x


def unpool(kernel, stride, pads=0, output_size=None, stated=None):
    """MaxPool's values, changed, put back at its indices; stated writes output_shape."""
    def build(m, x):
        attrs = dict(kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pads] * 4)
        v, i = m.op("MaxPool", x, outputs=2, **attrs)
        inputs = [m.op("Tanh", v), i]
        if stated:
            shape = m.op("Shape", x)
            inputs.append(shape if stated == "shape" else m.op("Concat", m.op("Slice", shape, m.ints(0), m.ints(2)), m.ints(*output_size), axis=0))

        def ref(t):
            v, i = F.max_pool2d(t, kernel, stride, pads, return_indices=True)
            return F.max_unpool2d(torch.tanh(v), i, kernel, stride, pads, output_size)
        return m.op("MaxUnpool", *inputs, **attrs), ref
    return build


case("maxunpool", (2, 4, 6), unpool(2, 2), batch=3)
case("maxunpool_padded", (2, 4, 4), unpool(2, 2, 1, stated="shape", output_size=(4, 4)))
case("maxunpool_stated", (2, 4, 6), unpool(2, 2, stated="shape"))
case("maxunpool_rest", (2, 5, 7), unpool(2, 2, stated="shape", output_size=(5, 7)), batch=3)
case("maxunpool_rest_sizes", (1, 5, 4), unpool(2, 2, stated="sizes", output_size=(5, 4)))
case("maxunpool_overlapping", (1, 5, 5), unpool(3, 1, 1, stated="shape", output_size=(5, 5)), x=one_peak, kink=True)
def both_outputs(m, x):
    v, i = m.op("MaxPool", x, outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    u = m.op("MaxUnpool", m.op("Exp", v), i, kernel_shape=[2, 2], strides=[2, 2])

    def ref(t):
        v, i = F.max_pool2d(t, 2, return_indices=True)
        return t * F.max_unpool2d(torch.exp(v), i, 2)
    return m.op("Mul", u, x), ref


case("maxpool_both_outputs", (2, 4, 4), both_outputs)


# ------------------------------------------------------- depth and space

def depth_to_space(t):
    n, c, h, w = t.shape
    return t.reshape(n, 2, 2, c // 4, h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, c // 4, 2 * h, 2 * w)


case("depthtospace", (8, 2, 3), lambda m, x: (m.op("DepthToSpace", x, blocksize=2), depth_to_space))
case("depthtospace_crd", (8, 2, 3), lambda m, x: (m.op("DepthToSpace", x, blocksize=2, mode="CRD"), lambda t: F.pixel_shuffle(t, 2)))
case("spacetodepth", (2, 4, 6), lambda m, x: (m.op("SpaceToDepth", x, blocksize=2),
                                              lambda t: t.reshape(-1, 2, 2, 2, 3, 2).permute(0, 3, 5, 1, 2, 4).reshape(-1, 8, 2, 3)))

# Forms of other operator sets.
case("upsample_opset7", (1, 3, 2), lambda m, x: (m.op("Upsample", x, scales=[1.0, 1.0, 2.0, 3.0], mode="nearest"),
                                                lambda t: F.interpolate(t, scale_factor=(2.0, 3.0), mode="nearest")), opset=7)
case("maxpool_opset7", (2, 4, 4), lambda m, x: (m.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), lambda t: F.max_pool2d(t, 2)), opset=7)
case("avgpool_dilated_opset19", (1, 6, 5), lambda m, x: (
    m.op("AveragePool", x, kernel_shape=[2, 2], dilations=[2, 1], strides=[1, 2]),
    lambda t: F.avg_pool2d(torch.stack([t[:, :, :-2], t[:, :, 2:]]).mean(0), (1, 2), (1, 2))), opset=19)
case("batchnorm_opset7", (3, 2), batchnorm((3,), 1e-3), opset=7)
case("depthtospace_opset9", (8, 2, 3), lambda m, x: (m.op("DepthToSpace", x, blocksize=2), depth_to_space), opset=9)
case("lppool", (2, 4, 5), lambda m, x: (m.op("LpPool", x, kernel_shape=[2, 3], strides=[2, 1]), lambda t: F.lp_pool2d(t, 2.0, (2, 3), (2, 1))))
case("lppool_padded_abs", (2, 4, 4), lambda m, x: (m.op("LpPool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4, p=1),
                                                  lambda t: 9 * F.avg_pool2d(t.abs(), 3, 1, 1)))
case("globallppool", (2, 4, 5), lambda m, x: (m.op("GlobalLpPool", x), lambda t: t.flatten(2).norm(dim=2)[:, :, None, None]))


# ------------------------------------------------------------ sampling

def sampled(by, mode="linear", padding="zeros", align=0, image=(2, 4, 5)):
    """The image at the places that by gives. PyTorch has no second derivative of grid_sample, so these count as kinks."""
    modes = {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest"}

    def build(m, x):
        grid, of = by(m, x, align)
        y = m.op("GridSample", x, grid, mode=modes[mode] if by is not turned else mode, padding_mode=padding, align_corners=align)

        def ref(t):
            return F.grid_sample(t, of(t), modes[mode], padding, align_corners=bool(align))
        return y, ref
    return build


def moving(m, x, align):
    """Places that follow the image, some outside of it."""
    w, tw = m.weight(2, 2, 1, 1, scale=1.1)

    def of(t):
        return torch.tanh(F.conv2d(t, tw)).permute(0, 2, 3, 1) * 1.4
    return m.op("Mul", m.op("Transpose", m.op("Tanh", m.op("Conv", x, w)), perm=[0, 2, 3, 1]), m.const(1.4)), of


def turned(m, x, align):
    """A spatial transformer: θ from the image's means, and its grid."""
    w, tw = m.weight(2, 6, scale=0.7)
    base = torch.tensor([0.8, 0.3, 0.1, -0.2, 0.9, 0.05], dtype=torch.float64)
    mean = m.op("Flatten", m.op("GlobalAveragePool", x))
    theta = m.op("Reshape", m.op("Add", m.op("MatMul", mean, w), m.const(base.numpy())), m.ints(-1, 2, 3))
    size = m.op("Concat", m.op("Slice", m.op("Shape", x), m.ints(0), m.ints(1)), m.ints(2, 3, 6), axis=0)

    def of(t):
        theta = (t.mean((2, 3)) @ tw + base).reshape(-1, 2, 3)
        return F.affine_grid(theta, (len(t), 2, 3, 6), align_corners=bool(align))
    return m.op("AffineGrid", theta, size, align_corners=align), of


def still(m, x, align):
    """The same places for all images, exported with a batch of 1."""
    places = rotated_places()
    grid = m.op("Expand", m.const(places), m.op("Concat", m.op("Slice", m.op("Shape", x), m.ints(0), m.ints(1)), m.ints(1, 1, 1), axis=0))
    return grid, lambda t: torch.from_numpy(places.astype(np.float32).astype(np.float64)).expand(len(t), -1, -1, -1)


def rotated_places():
    y, x = np.meshgrid(np.linspace(-1.3, 1.3, 3), np.linspace(-1.2, 1.2, 4), indexing="ij")
    return np.stack([0.9 * x - 0.4 * y, 0.4 * x + 0.9 * y], -1)[None] + 0.013


for mode in ("linear", "cubic", "nearest"):
    for padding in ("zeros", "border", "reflection"):
        for align in (0, 1):
            case(f"gridsample_{mode}_{padding}_{align}", (2, 4, 5), sampled(moving, mode, padding, align), opset=16, kink=True)
case("gridsample_still", (2, 4, 5), sampled(still), opset=16, batch=3, kink=True)
case("gridsample_affine", (2, 4, 5), sampled(turned, "cubic"), opset=20, kink=True)
case("gridsample_affine_aligned", (2, 4, 5), sampled(turned, padding="border", align=1), opset=20, kink=True)
