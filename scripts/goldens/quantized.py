"""Cases of gradients.py: quantised graphs in QDQ form.

Their functions are stairs, whose derivative is 0 almost everywhere. The gradient is a
convention, that of PyTorch's fake_quantize: it passes straight through the rounding and
stops where the quantiser saturates, after rounding half to even. The cases are
therefore marked as kinks: differences say nothing of them. The exception lies
wholly beyond the range, where the derivative is 0 by any account.
"""

import numpy as np
import torch
import torch.nn.functional as F

from goldens.cases import case

RANGE = {np.int8: (-128, 127), np.uint8: (0, 255)}


def beyond(*shape):
    """Values up to one and a half times the range of ±2 that most cases have."""
    return lambda rng: rng.uniform(-3, 3, shape)


def qdq(m, x, scale, zero=None, kind=np.int8, axis=None):
    """QuantizeLinear and DequantizeLinear of x, and the same in PyTorch."""
    attrs = {} if axis is None else {"axis": axis}
    parameters = [m.const(scale)] + ([] if zero is None else [m.const(zero, kind)])
    y = m.op("DequantizeLinear", m.op("QuantizeLinear", x, *parameters, **attrs), *parameters, **attrs)
    lo, hi = RANGE[kind]

    def reference(t):
        if axis is None:
            return torch.fake_quantize_per_tensor_affine(t, float(np.float32(scale)), int(zero or 0), lo, hi)
        return torch.fake_quantize_per_channel_affine(
            t, torch.tensor(scale), torch.tensor(zero, dtype=torch.int32), axis, lo, hi)
    return y, reference


case("quantize_signed", (3, 4, 5), lambda m, x: qdq(m, x, 1 / 64, 3), x=beyond(2, 3, 4, 5), kink=True)
case("quantize_unsigned", (3, 4), lambda m, x: qdq(m, x, 0.0117, 100, np.uint8), x=beyond(2, 3, 4), kink=True)
case("quantize_default", (9,), lambda m, x: qdq(m, x, 1 / 128, None, np.uint8), x=beyond(2, 9), kink=True)
case("quantize_channels", (3, 4, 4), lambda m, x: qdq(m, x, [0.01, 0.02, 0.5], [5, -7, 0], axis=1),
     x=beyond(2, 3, 4, 4), kink=True)
# At the last ties that stay inside or saturate, and just beside them: -128.5 rounds to -128,
# 127.5 to 128; with a zero point of -2 as well.
case("quantize_at_ends", (8,), lambda m, x: qdq(m, x, 0.5, 0), kink=True,
     x=lambda rng: np.array([[-64.25, -64.5, -64.0, 63.75, 63.5, 64.0, 0.25, 0.75]] * 2))
case("quantize_at_ends_shifted", (8,), lambda m, x: qdq(m, x, 0.5, -2), kink=True,
     x=lambda rng: np.array([[-63.25, -63.5, -63.0, 64.75, 64.5, 65.0, 0.25, 0.75]] * 2))


def saturated(m, x):
    y, reference = qdq(m, x, 1 / 64, 3)
    return m.op("Add", m.op("Mul", x, x), y), lambda t: t * t + reference(t)


case("quantize_saturated", (7,), saturated,
     x=lambda rng: rng.uniform(2.2, 3, (2, 7)) * rng.choice([-1, 1], (2, 7)))


def quantized_conv(m, x):
    """As ONNX Runtime's quantiser writes a Conv: every input comes out of a DequantizeLinear."""
    a, activation = qdq(m, x, 1 / 64, 3)
    q = m.rng.integers(-127, 128, (4, 3, 3, 3))
    scale = np.array([0.001, 0.002, 0.003, 0.004], np.float32)
    bias = m.rng.integers(-9000, 9000, 4)
    w = m.op("DequantizeLinear", m.const(q, np.int8), m.const(scale), m.const([0, 0, 0, 0], np.int8), axis=0)
    b = m.op("DequantizeLinear", m.const(bias, np.int32), m.const(scale / 64), axis=0)
    y, output = qdq(m, m.op("Relu", m.op("Conv", a, w, b, pads=[1, 1, 1, 1])), 0.011, -128)
    weight = torch.from_numpy(q * scale.astype(np.float64)[:, None, None, None])
    offset = torch.from_numpy(bias * (scale / 64).astype(np.float64))
    return y, lambda t: output(F.relu(F.conv2d(activation(t), weight, offset, padding=1)))


case("quantize_conv", (3, 5, 5), quantized_conv, x=beyond(2, 3, 5, 5), kink=True)
