"""Cases of gradients.py whose gradients are taken by the weights as well, summed
over the batch: chosen ones of the other families and some of their own.

Beside what every golden holds, each has for every weight p the gradient d_p of
Σ w·y, and the second derivatives h = ∂(Σ ⟨v_q, d_q⟩)/∂ of x and of each weight,
where q runs over x and all weights.
"""

import numpy as np
import torch
import torch.nn.functional as F

from goldens.cases import CASES, Case
from goldens.spatial import conv_case, conv_transpose_case

# Cases of other files, whose every weight becomes a parameter.
CHOSEN = [
    "conv_3x3_pad1", "conv_stride2", "conv_stride2_rest", "conv_strides_differ", "conv_dilated_stride2", "conv_groups", "conv_groups_stride2",
    "conv_depthwise", "conv_depthwise_multiplier", "conv_depthwise_stride2", "conv_asymmetric_pads", "conv_asymmetric_stride2", "conv_1x1",
    "conv_1x1_stride2", "conv_wide_pads", "conv_whole_image", "conv_1d", "conv_3d",
    "convtranspose", "convtranspose_stride2", "convtranspose_output_padding", "convtranspose_output_padding_one", "convtranspose_groups",
    "convtranspose_dilated", "convtranspose_dilated_stride2",
    "gemm", "gemm_bias", "gemm_transb", "gemm_alpha_beta", "gemm_transa", "gemm_transa_transb", "gemm_right_00", "gemm_right_11",
    "matmul_const_right", "matmul_const_right_batched", "matmul_const_left_batched", "matmul_heads",
    "layernorm", "layernorm_axes", "layernorm_item", "groupnorm_opset21", "instancenorm", "rmsnorm", "prelu", "prelu_one",
    "einsum_linear", "einsum_channels", "einsum_three",
]
OWN = []


def cases():
    by_name = {c.name: c for c in CASES}
    return [by_name[name] for name in CHOSEN] + OWN


def own(name, shape, build, **more):
    OWN.append(Case(name, tuple(shape), build, **more))


def gradients(total, x, parameters, rng):
    """The goldens' entries for x, under the name "", and each parameter."""
    names, at = ["", *parameters], [x, *parameters.values()]
    first = torch.autograd.grad(total, at, create_graph=True)
    v = [np.round(rng.uniform(0.25, 1, t.shape) * rng.choice([-1, 1], t.shape), 4) for t in at]
    inner = sum((d * torch.from_numpy(u.astype(np.float32).astype(np.float64))).sum() for d, u in zip(first, v))
    second = torch.autograd.grad(inner, at, allow_unused=True, retain_graph=True)

    def numbers(values):
        return [float("%.7g" % n) for n in np.asarray(values, dtype=np.float64).ravel()]
    return [{"name": n, "gradient": numbers(d.detach()), "v": numbers(u), "h": numbers(torch.zeros_like(d) + (0 if h is None else h.detach()))}
            for n, d, u, h in zip(names, first, v, second)]


# One for each form that a Conv's weight gradient has: many positions or few, many
# channels or few, groups.
OWN.append(conv_case("conv_products", (9, 6, 6), 2, (3, 2), pads=[1, 0, 1, 1]))
OWN.append(conv_case("conv_products_stride2", (9, 67), 1, (3,), pads=1, stride=2))
OWN.append(conv_case("conv_exchanged", (9, 5, 4), 3, (3, 3), pads=1))
OWN.append(conv_case("conv_exchanged_stride2_rest", (9, 6, 6), 3, (3, 3), stride=2))
OWN.append(conv_case("conv_exchanged_dilated", (9, 7, 7), 2, (3, 3), pads=2, dilation=2))
OWN.append(conv_case("conv_grouped_products", (18, 6, 6), 2, (2, 2), pads=[0, 1, 1, 0], group=2))
OWN.append(conv_transpose_case("convtranspose_products", (2, 6, 6), 9, (2, 3), pads=1, group=1))
OWN.append(conv_transpose_case("convtranspose_depthwise", (3, 4, 4), 3, (3, 3), stride=2, pads=1, group=3))


def batchnorm(*shape):
    def build(m, x):
        c = shape[0]
        (sn, s), (bn, b), (mn, mu) = (m.weight(c, scale=1.0) for _ in range(3))
        vn, v = m.weight(values=m.rng.uniform(0.3, 2, c))
        eps = 1e-2

        def ref(t):
            sides = [1, c] + [1] * (t.dim() - 2)
            return (t - mu.reshape(sides)) / (v.reshape(sides) + float(np.float32(eps))).sqrt() * s.reshape(sides) + b.reshape(sides)
        return m.op("BatchNormalization", x, sn, bn, mn, vn, epsilon=eps), ref
    return build


own("batchnorm_parameters", (3, 3, 2), batchnorm(3, 3, 2))
own("batchnorm_parameters_1d", (4,), batchnorm(4), batch=3)


def biased(*shape):
    def build(m, x):  # a scale and a bias, broadcast over the batch and more
        (sn, s), (bn, b) = m.weight(*shape, scale=1.0), m.weight(*shape, scale=1.0)
        y = m.op("Add", m.op("Mul", x, sn), bn)
        return m.op("Mul", y, y), lambda t: (t * s + b) ** 2
    return build


own("scale_bias_vector", (3, 4), biased(4))
own("scale_bias_channels", (3, 2, 2), biased(3, 1, 1))
own("scale_bias_one", (3, 2), biased(1))
own("scale_bias_batch1", (3, 2), biased(1, 3, 2))


def perceptron(m, x):
    """A weight that is used twice, and one behind a nonlinearity."""
    (wn, w), (bn, b), (un, u) = m.weight(4, 4), m.weight(4, scale=1.0), m.weight(2, 4)
    h = m.op("Tanh", m.op("Gemm", x, wn, bn, transB=1))
    h = m.op("Tanh", m.op("Gemm", h, wn, bn, transB=1))
    return m.op("Gemm", h, un, transB=1), lambda t: torch.tanh(torch.tanh(t @ w.T + b) @ w.T + b) @ u.T


own("perceptron", (4,), perceptron, batch=3)


def small_net(m, x):
    """Conv, batch normalisation, ELU, transposed Conv, a bias, max pooling and a matrix."""
    (wn, w), (tn, t), (bn, b) = m.weight(3, 2, 3, 3), m.weight(3, 2, 2, 2), m.weight(2, 1, 1, scale=0.5)
    (sn, s), (on, o) = m.weight(3, scale=1.0), m.weight(3, scale=1.0)
    mn, vn = m.const([0.1, -0.2, 0.3]), m.const([0.5, 1.0, 2.0])
    mu, v = (torch.tensor(np.float32(k).astype(np.float64)) for k in ([0.1, -0.2, 0.3], [0.5, 1.0, 2.0]))
    mm, mt = m.weight(18, 3)
    y = m.op("Conv", x, wn, pads=[1] * 4, strides=[2, 2], kernel_shape=[3, 3])
    y = m.op("Elu", m.op("BatchNormalization", y, sn, on, mn, vn))
    y = m.op("Add", m.op("ConvTranspose", y, tn, strides=[2, 2], kernel_shape=[2, 2]), bn)
    y = m.op("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
    y = m.op("MatMul", m.op("Flatten", y), mm)

    def ref(a):
        a = F.elu(F.batch_norm(F.conv2d(a, w, None, 2, 1), mu, v, s, o, False, 0, float(np.float32(1e-5))))
        a = F.max_pool2d(F.conv_transpose2d(a, t, None, 2) + b, 2)
        return a.flatten(1) @ mt
    return y, ref


own("small_net", (2, 6, 6), small_net)
