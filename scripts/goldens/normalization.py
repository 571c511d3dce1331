"""Cases of gradients.py: normalisations, by their operators and as exporters write
them for operator sets that lack those."""

import numpy as np
import torch
import torch.nn.functional as F

from goldens.cases import case


def shifted(*shape):
    """Values around 3: a mean that is large beside the deviation."""
    return lambda rng: 3 + rng.standard_normal(shape)


def layer_norm(axis, over, bias=True, eps=1e-5, opset=17):
    def build(m, x):
        sn, s = m.weight(*over, scale=1.0)
        inputs, b = [x, sn], None
        if bias:
            bn, b = m.weight(*over, scale=0.5)
            inputs.append(bn)
        return (m.op("LayerNormalization", *inputs, axis=axis, epsilon=eps),
                lambda t: F.layer_norm(t, over, s, b, float(np.float32(eps))))
    return build


case("layernorm", (3, 5), layer_norm(-1, (5,)), opset=17)
case("layernorm_matrix", (11,), layer_norm(-1, (11,), eps=1e-2), opset=17)
case("layernorm_axes", (3, 2, 5), layer_norm(2, (2, 5)), opset=17)
case("layernorm_item", (3, 5), layer_norm(1, (3, 5), bias=False), opset=17, x=shifted(2, 3, 5))


def layer_norm_plain(m, x):  # no scale to speak of
    return m.op("LayerNormalization", x, m.const(np.ones(5)), axis=-1), lambda t: F.layer_norm(t, (5,))


def layer_norm_channels(m, x):  # over the channels of an image, as ConvNeXt has it
    sn, s = m.weight(4, scale=1.0)
    bn, b = m.weight(4, scale=0.5)
    y = m.op("LayerNormalization", m.op("Transpose", x, perm=[0, 2, 3, 1]), sn, bn, axis=-1, epsilon=1e-6)
    return (m.op("Transpose", y, perm=[0, 3, 1, 2]),
            lambda t: F.layer_norm(t.permute(0, 2, 3, 1), (4,), s, b, float(np.float32(1e-6))).permute(0, 3, 1, 2))


def layer_norm_means(axes, over, affine=True):
    """As PyTorch writes it below operator set 17."""
    def build(m, x):
        d = m.op("Sub", x, m.op("ReduceMean", x, axes=axes, keepdims=1))
        v = m.op("ReduceMean", m.op("Pow", d, m.const(2.0)), axes=axes, keepdims=1)
        y = m.op("Div", d, m.op("Sqrt", m.op("Add", v, m.const(1e-5))))
        s, b = None, None
        if affine:
            sn, s = m.weight(*over, scale=1.0)
            bn, b = m.weight(*over, scale=0.5)
            y = m.op("Add", m.op("Mul", y, sn), bn)
        return y, lambda t: F.layer_norm(t, over, s, b, float(np.float32(1e-5)))
    return build


case("layernorm_plain", (3, 5), layer_norm_plain, opset=17)
case("layernorm_channels", (4, 2, 3), layer_norm_channels, opset=17)
case("layernorm_means", (3, 5), layer_norm_means([-1], (5,)))
case("layernorm_means_axes", (3, 2, 5), layer_norm_means([-2, -1], (2, 5)))
case("layernorm_means_plain", (7,), layer_norm_means([1], (7,), affine=False))


def instance_norm(channels, eps=1e-5):
    def build(m, x):
        sn, s = m.weight(channels, scale=1.0)
        bn, b = m.weight(channels, scale=0.5)
        return (m.op("InstanceNormalization", x, sn, bn, epsilon=eps),
                lambda t: F.instance_norm(t, weight=s, bias=b, eps=float(np.float32(eps))))
    return build


case("instancenorm", (3, 3, 3), instance_norm(3))
case("instancenorm_1d", (2, 7), instance_norm(2, 1e-3), x=shifted(2, 2, 7))


def group_norm(channels, groups, opset):
    def build(m, x):
        if opset < 21:  # one scale and bias a group
            size = channels // groups
            sn, s = m.weight(groups, scale=1.0)
            bn, b = m.weight(groups, scale=0.5)
            s, b = s.repeat_interleave(size), b.repeat_interleave(size)
        else:
            sn, s = m.weight(channels, scale=1.0)
            bn, b = m.weight(channels, scale=0.5)
        return (m.op("GroupNormalization", x, sn, bn, num_groups=groups),
                lambda t: F.group_norm(t, groups, s, b, float(np.float32(1e-5))))
    return build


def group_norm_reshaped(m, x):  # as PyTorch writes it
    sn, s = m.weight(4, 1, 1, scale=1.0)
    bn, b = m.weight(4, 1, 1, scale=0.5)
    r = m.op("Reshape", x, m.ints(0, 2, -1))
    y = m.op("Reshape", m.op("InstanceNormalization", r, m.const([1.0, 1.0]), m.const([0.0, 0.0])), m.op("Shape", x))
    return (m.op("Add", m.op("Mul", y, sn), bn),
            lambda t: F.group_norm(t, 2, s.flatten(), b.flatten(), float(np.float32(1e-5))))


case("groupnorm", (6, 3, 3), group_norm(6, 2, 18), opset=18)
case("groupnorm_opset21", (6, 3, 3), group_norm(6, 2, 21), opset=21)
case("groupnorm_reshaped", (4, 3, 3), group_norm_reshaped)


def rms_norm(m, x):
    sn, s = m.weight(5, scale=1.0)
    return (m.op("RMSNormalization", x, sn, axis=-1, epsilon=1e-3),
            lambda t: t / torch.sqrt((t * t).mean(-1, keepdim=True) + float(np.float32(1e-3))) * s)


case("rmsnorm", (3, 5), rms_norm, opset=23)
case("lpnorm_l2", (3, 5), lambda m, x: (m.op("LpNormalization", x, axis=-1), lambda t: F.normalize(t, dim=-1)))
case("lpnorm_l2_channels", (3, 5), lambda m, x: (m.op("LpNormalization", x, axis=1, p=2), lambda t: F.normalize(t, dim=1)))
case("lpnorm_l1", (3, 5), lambda m, x: (m.op("LpNormalization", x, axis=-1, p=1), lambda t: F.normalize(t, p=1, dim=-1)))


def lrn(size):
    return lambda m, x: (m.op("LRN", x, size=size, alpha=0.5, beta=0.75, bias=2.0), lambda t: F.local_response_norm(t, size, 0.5, 0.75, 2.0))


case("lrn", (5, 2, 3), lrn(3))
case("lrn_wide", (5, 2, 3), lrn(5))
