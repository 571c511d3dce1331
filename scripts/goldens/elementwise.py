"""Cases of gradients.py: elementwise operators and activations.

Clip has no gradient at its ends, as ReLU6, hardtanh and, in PyTorch 2.15, torch.clamp;
before, clamp's passed there. HardSwish has
the slopes 0 at -3 and 1 at 3, as x * HardSigmoid(x) and PyTorch since 2.3; before,
F.hardswish had -1/2 and 3/2 there.

A shape of 15 values, or 7 or 11, fills no vector register: ONNX Runtime's kernels
must give an item the same bits wherever in the batch it stands.
"""

import numpy as np
import torch
import torch.nn.functional as F

from goldens.cases import case, positive, spread_signs, unary

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
# not F.hardsigmoid, of which PyTorch has no second derivative
unary("hardsigmoid_torch", "HardSigmoid", lambda x: torch.clamp(x / 6 + 0.5, 0, 1), attrs={"alpha": 1 / 6, "beta": 0.5},
      x=lambda rng: rng.choice([-4.1, -1.3, -0.4, 0.7, 1.9, 3.6], (2, 3, 4)))
unary("softmax", "Softmax", lambda x: F.softmax(x, -1), attrs={"axis": -1})
unary("softmax_axis1", "Softmax", lambda x: F.softmax(x, 1), attrs={"axis": 1})
unary("softmax_matrix", "Softmax", lambda x: F.softmax(x, -1), attrs={"axis": -1}, shape=(7,))
unary("logsoftmax_matrix", "LogSoftmax", lambda x: F.log_softmax(x, -1), attrs={"axis": -1}, shape=(7,))
unary("logsoftmax", "LogSoftmax", lambda x: F.log_softmax(x, -1), attrs={"axis": -1})
unary("logsoftmax_axis2", "LogSoftmax", lambda x: F.log_softmax(x, 2), attrs={"axis": 2}, shape=(2, 3, 4))


def hardswish(x):
    return x * torch.clamp(x / 6 + 0.5, 0, 1)


ODD = (3, 5)


def around(*centres):
    """Values near the given ones, 0.05 away or more."""
    return lambda rng: rng.choice(centres, (2, *ODD)) + rng.uniform(0.05, 0.2, (2, *ODD)) * rng.choice([-1, 1], (2, *ODD))


wide = around(-4, -2.5, -1, 0, 0.5, 1.5, 2.5, 4)

for _name, _op, _fn in (("exp", "Exp", torch.exp), ("sigmoid", "Sigmoid", torch.sigmoid), ("tanh", "Tanh", torch.tanh),
                        ("elu", "Elu", F.elu), ("relu", "Relu", F.relu)):
    unary(_name + "_odd", _op, _fn, shape=ODD)
unary("log_odd", "Log", torch.log, shape=ODD, x=positive(2, *ODD))
unary("sqrt_odd", "Sqrt", torch.sqrt, shape=ODD, x=positive(2, *ODD))
case("log_turned", ODD, lambda m, x: (m.op("Transpose", m.op("Log", m.op("Transpose", x, perm=[1, 0, 2])), perm=[1, 0, 2]), torch.log),
     x=positive(2, *ODD))
unary("leakyrelu", "LeakyRelu", lambda x: F.leaky_relu(x, 0.01), shape=ODD)
unary("leakyrelu_steep", "LeakyRelu", lambda x: F.leaky_relu(x, 1.5), attrs={"alpha": 1.5}, shape=ODD)
unary("leakyrelu_negative", "LeakyRelu", lambda x: F.leaky_relu(x, -0.25), attrs={"alpha": -0.25}, shape=ODD)
unary("thresholdedrelu", "ThresholdedRelu", lambda x: F.threshold(x, 0.31, 0), attrs={"alpha": 0.31}, shape=ODD)
unary("selu", "Selu", F.selu, shape=ODD, x=wide)
unary("celu", "Celu", F.celu, shape=ODD, x=wide)
unary("celu_alpha", "Celu", lambda x: F.celu(x, 0.5), attrs={"alpha": 0.5}, shape=ODD, x=wide)
unary("elu_steep", "Elu", lambda x: F.elu(x, 2.0), attrs={"alpha": 2.0}, shape=ODD, x=wide)
unary("softplus", "Softplus", F.softplus, shape=ODD, x=wide)
unary("softsign", "Softsign", F.softsign, shape=ODD, x=wide)
unary("erf", "Erf", torch.erf, shape=ODD)
unary("gelu", "Gelu", F.gelu, opset=20, shape=ODD, x=wide)
unary("gelu_tanh", "Gelu", lambda x: F.gelu(x, approximate="tanh"), attrs={"approximate": "tanh"}, opset=20, shape=ODD, x=wide)
unary("mish", "Mish", F.mish, opset=18, shape=ODD, x=wide)
unary("mish_large", "Mish", F.mish, opset=18, x=lambda rng: rng.choice([-25.0, -12.0, 15.0, 21.0, 40.0, 90.0], (2, *ODD)))
unary("hardswish", "HardSwish", hardswish, opset=14, shape=ODD, x=wide)
unary("swish", "Swish", F.silu, opset=24, shape=ODD, x=wide)
unary("swish_alpha", "Swish", lambda x: x * torch.sigmoid(1.75 * x), attrs={"alpha": 1.75}, opset=24, shape=ODD, x=wide)
unary("abs", "Abs", torch.abs, shape=ODD)
unary("reciprocal", "Reciprocal", lambda x: 1 / x, shape=ODD, x=lambda rng: spread_signs(rng, (2, *ODD)))
unary("sin", "Sin", torch.sin, shape=ODD, x=wide)
unary("cos", "Cos", torch.cos, shape=ODD, x=wide)
unary("tan", "Tan", torch.tan, shape=ODD)
unary("atan", "Atan", torch.atan, shape=ODD, x=wide)
unary("sinh", "Sinh", torch.sinh, shape=ODD)
unary("cosh", "Cosh", torch.cosh, shape=ODD)
for _op, _fn in (("Sign", torch.sign), ("Floor", torch.floor), ("Ceil", torch.ceil), ("Round", torch.round)):
    case(_op.lower(), ODD, lambda m, x, op=_op, fn=_fn: (m.op("Mul", x, m.op("Add", m.op(op, x), m.const(0.25))), lambda t: t * (fn(t) + 0.25)),
         x=around(-1, 0, 1, 2, 0.75, 0.25, -0.75))


for _op, _fn in (("Sign", torch.sign), ("Floor", torch.floor), ("Ceil", torch.ceil), ("Round", torch.round)):
    case(f"{_op.lower()}_at_steps", ODD, lambda m, x, op=_op, fn=_fn: (m.op("Mul", x, m.op("Add", m.op(op, x), m.const(0.25))), lambda t: t * (fn(t) + 0.25)),
         kink=True, x=lambda rng: rng.choice([-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.5], (2, *ODD)))


def mask(m, x):
    truth = m.op("And", m.op("Greater", x, m.const(-0.61)), m.op("Less", x, m.const(0.93)))
    return m.op("Mul", x, m.op("Cast", truth, to=1)), lambda t: t * ((t > -0.61) & (t < 0.93))


def truncated(m, x):
    whole = m.op("Cast", m.op("Cast", x, to=7), to=1)
    return m.op("Mul", x, m.op("Add", whole, m.const(0.25))), lambda t: t * (t.trunc() + 0.25)


def numbers_alone(m, x):
    """x·x from 1.6 on, which is found by 1/[x < 1.2], ∞ from there on; else x/4."""
    v = m.op("Div", m.const(1.0), m.op("Cast", m.op("Less", x, m.const(1.2)), to=1))
    early = m.op("And", m.op("IsNaN", m.op("Sub", v, v)), m.op("Less", x, m.const(1.6)))
    y = m.op("Where", m.op("Xor", m.op("IsInf", v), early), x, m.const(0.25))
    return m.op("Mul", x, y), lambda t: t * torch.where(t < 1.6, torch.full_like(t, 0.25), t)


case("numbers_alone", ODD, numbers_alone)
case("cast_mask", ODD, mask)
case("cast_like", ODD, lambda m, x: (
    m.op("Mul", x, m.op("CastLike", m.op("Greater", m.op("CastLike", x, m.const(1.0)), m.const(0.4)), x)), lambda t: t * (t > 0.4)), opset=15)

def bits(name, op, fn, *mask, opset=18, **attrs):
    """x times its bytes after an operator on bits."""
    def build(m, x):
        levels = m.op("Cast", m.op("Add", m.op("Mul", x, m.const(20.0)), m.const(100.0)), to=2)
        y = m.op(op, levels, *[m.const(v, np.uint8) for v in mask], **attrs)
        return m.op("Mul", x, m.op("Cast", y, to=1)), lambda t: t * fn((20 * t.detach() + 100).to(torch.int64))
    case(name, ODD, build, opset=opset, x=lambda rng: (rng.integers(-40, 40, (2, *ODD)) + 0.5) / 20)


bits("bitshift_right", "BitShift", lambda v: v >> 3, 3, opset=13, direction="RIGHT")
bits("bitshift_left", "BitShift", lambda v: (v << 2) & 255, 2, opset=13, direction="LEFT")
bits("bitwise_and", "BitwiseAnd", lambda v: v & 0xE0, 0xE0)
bits("bitwise_or", "BitwiseOr", lambda v: v | 0x0F, 0x0F)
bits("bitwise_xor", "BitwiseXor", lambda v: v ^ 0x80, 0x80)
bits("bitwise_not", "BitwiseNot", lambda v: 255 - v)
case("cast_truncated", ODD, truncated, x=around(-2, -1, 0.5, 1, 2))
case("cast_output", ODD, lambda m, x: (m.op("Cast", m.op("Mul", x, x), to=1), lambda t: t * t))


def clip_data(m, x):  # bounds computed from the data
    half = m.op("Mul", m.op("ReduceMean", m.op("Abs", x), axes=[1, 2], keepdims=1), m.const(1.1))
    y = m.op("Min", m.op("Max", x, m.op("Neg", half)), half)

    def ref(t):
        h = t.abs().mean((1, 2), keepdim=True) * float(np.float32(1.1))
        return torch.minimum(torch.maximum(t, -h), h)
    return y, ref


case("clip_by_data", ODD, clip_data)


def prelu(*shape):
    def build(m, x):
        sn, s = m.weight(*shape, scale=0.5)
        return m.op("PRelu", x, sn), lambda t: torch.where(t > 0, t, s * t)
    return build


def prelu_data(m, x):  # the slope is computed from the data
    s = m.op("Mul", m.op("ReduceMean", m.op("Mul", x, x), axes=[2], keepdims=1), m.const(0.3))
    return m.op("PRelu", x, s), lambda t: torch.where(t > 0, t, 0.3 * (t * t).mean(2, keepdim=True) * t)


case("prelu", ODD, prelu(3, 1))
case("prelu_one", ODD, prelu(1))
case("prelu_data_slope", ODD, prelu_data)


def gates(m, x):  # as exporters write HardSwish and SiLU without an operator for them
    a = m.op("Mul", m.op("HardSigmoid", x, alpha=1 / 6, beta=0.5), x)
    return m.op("Mul", a, m.op("Sigmoid", a)), lambda t: F.silu(hardswish(t))


def gelu_erf(order):
    """Gelu as PyTorch writes it for operator sets that lack it, and its other orders."""
    def build(m, x):
        e = m.op("Div", x, m.const(2 ** 0.5)) if order < 2 else m.op("Mul", x, m.const(0.5 ** 0.5))
        s = m.op("Add", m.op("Erf", e), m.const(1.0))
        if order == 0:
            y = m.op("Mul", m.op("Mul", x, s), m.const(0.5))
        elif order == 1:
            y = m.op("Mul", m.op("Mul", x, m.const(0.5)), s)
        else:
            y = m.op("Mul", x, m.op("Mul", s, m.const(0.5)))
        return y, F.gelu
    return build


case("gates", ODD, gates, x=wide)
for _i in range(3):
    case(f"gelu_erf_{_i}", ODD, gelu_erf(_i), x=wide)


def power(exponent):
    return lambda m, x: (m.op("Pow", x, m.const(exponent)), lambda t: t ** exponent)


for _name, _e in (("half", 0.5), ("square", 2.0), ("cube", 3.0), ("inverse", -1.0), ("fraction", -0.75), ("one_and_half", 1.5)):
    case("pow_" + _name, ODD, power(_e), x=positive(2, *ODD))
case("pow_square_signs", ODD, power(2.0))
case("pow_cube_signs", ODD, power(3.0))
case("pow_vector", ODD, lambda m, x: (m.op("Pow", x, m.const([0.0, 1.0, 2.0, 3.0, 0.5])), lambda t: t ** torch.tensor([0, 1, 2, 3, 0.5]).double()),
     x=positive(2, *ODD))
case("pow_data", ODD, lambda m, x: (m.op("Pow", x, m.op("Sub", x, m.const(0.61))), lambda t: t ** (t - float(np.float32(0.61)))), x=positive(2, *ODD))
case("pow_base", ODD, lambda m, x: (m.op("Pow", m.const([2.0, 0.5, 1.5, 3.0, 1.0]), x), lambda t: torch.tensor([2, 0.5, 1.5, 3, 1]).double() ** t))


def extremum(op, fn):
    def two(m, x):
        return m.op(op, x, m.op("Mul", x, x)), lambda t: fn(t, t * t)

    def three(m, x):
        return (m.op(op, m.op("Neg", x), m.const([0.21, -0.33, 0.47, 0.09, -0.4]), x),
                lambda t: fn(fn(-t, torch.tensor(np.float32([0.21, -0.33, 0.47, 0.09, -0.4])).double()), t))

    def broadcast(m, x):
        return m.op(op, x, m.op("ReduceMean", x, axes=[2], keepdims=1)), lambda t: fn(t, t.mean(2, keepdim=True))

    n = op.lower()
    case(n, ODD, two, x=around(-1.4, -0.5, 0.5, 1.4))
    case(n + "_three", ODD, three)
    case(n + "_broadcast", ODD, broadcast)
    case(n + "_ties", ODD, two, kink=True, x=lambda rng: rng.choice([-1.0, 0.0, 0.5, 1.0, 2.0], (2, *ODD)))


extremum("Max", torch.maximum)
extremum("Min", torch.minimum)
case("sum", ODD, lambda m, x: (m.op("Sum", x, m.op("Mul", x, x), m.const(0.5)), lambda t: t + t * t + 0.5))
case("mean", ODD, lambda m, x: (m.op("Mean", x, m.op("Mul", x, x), m.const(0.5), m.op("Tanh", x)), lambda t: (t + t * t + 0.5 + torch.tanh(t)) / 4))

# Before operator set 13 everything from axis on was one dimension.
unary("softmax_opset9", "Softmax", lambda x: F.softmax(x.flatten(1), 1).reshape(x.shape), opset=9)
unary("softmax_opset11_axis2", "Softmax", lambda x: F.softmax(x.flatten(2), 2).reshape(x.shape), attrs={"axis": 2}, opset=11)
unary("logsoftmax_opset11", "LogSoftmax", lambda x: F.log_softmax(x.flatten(1), 1).reshape(x.shape), opset=11, shape=ODD)
unary("logsoftmax_opset9_matrix", "LogSoftmax", lambda x: F.log_softmax(x, 1), opset=9, shape=(7,))

# Where the gradient is a convention: PyTorch's.
unary("relu_at_0", "Relu", F.relu, kink=True, x=lambda rng: rng.choice([-1.0, 0.0, 0.5], (2, 12)))
unary("elu_at_0", "Elu", lambda x: F.elu(x, 2.0), attrs={"alpha": 2.0}, kink=True, x=lambda rng: rng.choice([-1.0, 0.0, 0.5], (2, 12)))
unary("hardsigmoid_at_ends", "HardSigmoid", F.hardsigmoid, attrs={"alpha": 1 / 6, "beta": 0.5}, kink=True,
      x=lambda rng: rng.choice([-3.0, 0.0, 3.0], (2, 12)))
case("clip_at_ends", (12,), lambda m, x: (m.op("Clip", x, m.const(-1.0), m.const(0.5)), lambda t: F.hardtanh(t, -1, 0.5)),
     kink=True, x=lambda rng: rng.choice([-2.0, -1.0, 0.0, 0.5, 1.0], (2, 12)))
case("clip_relu6_at_ends", (12,), lambda m, x: (m.op("Clip", x, m.const(0.0), m.const(6.0)), F.relu6),
     kink=True, x=lambda rng: rng.choice([-1.0, 0.0, 2.0, 6.0, 7.0], (2, 12)))
case("clip_low_at_end", (12,), lambda m, x: (m.op("Clip", x, m.const(-1.0)), lambda t: F.hardtanh(t, -1, 1e30)),
     kink=True, x=lambda rng: rng.choice([-2.0, -1.0, 0.0, 0.5, 1.0], (2, 12)))
case("clip_high_at_end", (12,), lambda m, x: (m.op("Clip", x, "", m.const(0.5)), lambda t: F.hardtanh(t, -1e30, 0.5)),
     kink=True, x=lambda rng: rng.choice([-2.0, -1.0, 0.0, 0.5, 1.0], (2, 12)))

unary("leakyrelu_at_0", "LeakyRelu", lambda x: F.leaky_relu(x, 0.25), attrs={"alpha": 0.25}, kink=True, x=lambda rng: rng.choice([-1.0, 0.0, 0.5], (2, 12)))
unary("selu_at_0", "Selu", F.selu, kink=True, x=lambda rng: rng.choice([-1.0, 0.0, 0.5], (2, 12)))
unary("celu_at_0", "Celu", lambda x: F.celu(x, 2.0), attrs={"alpha": 2.0}, kink=True, x=lambda rng: rng.choice([-1.0, 0.0, 0.5], (2, 12)))
unary("abs_at_0", "Abs", torch.abs, kink=True, x=lambda rng: rng.choice([-1.0, 0.0, 0.5], (2, 12)))
unary("softsign_at_0", "Softsign", F.softsign, kink=True, x=lambda rng: rng.choice([-1.0, 0.0, 0.5], (2, 12)))
unary("thresholdedrelu_at_end", "ThresholdedRelu", lambda x: F.threshold(x, 0.5, 0), attrs={"alpha": 0.5}, kink=True,
      x=lambda rng: rng.choice([-1.0, 0.5, 1.0], (2, 12)))
unary("hardswish_at_ends", "HardSwish", lambda x: x * F.hardsigmoid(x), opset=14, kink=True, x=lambda rng: rng.choice([-3.0, -1.0, 0.0, 1.0, 3.0, 4.0], (2, 12)))
case("prelu_at_0", (12,), lambda m, x: (m.op("PRelu", x, m.const(np.float32([0.25] * 12))), lambda t: F.prelu(t, torch.tensor([0.25]).double())),
     kink=True, x=lambda rng: rng.choice([-1.0, 0.0, 0.5], (2, 12)))
case("pow_at_0", (12,), lambda m, x: (m.op("Pow", x, m.const(np.float32([0, 1, 2, 1.5] * 3))), lambda t: t ** torch.tensor([0, 1, 2, 1.5] * 3).double()),
     kink=True, x=lambda rng: rng.choice([0.0, 0.5], (2, 12)))
case("pow_data_at_0", (12,), lambda m, x: (m.op("Pow", x, m.op("Mul", x, x)), lambda t: t ** (t * t)), kink=True,
     x=lambda rng: rng.choice([0.0, 0.5], (2, 12)))

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


for _op in BINARY:
    binary(_op, True)
    binary(_op, False)
case("mul_square", (2, 3), lambda m, x: (m.op("Mul", x, x), lambda t: t * t))
case("add_twice", (2, 3), lambda m, x: (m.op("Add", m.op("Add", x, x), x), lambda t: 3 * t))
case("sub_self_broadcast", (3, 4), lambda m, x: (m.op("Sub", x, m.op("ReduceMean", x, axes=[2], keepdims=1)),
                                                lambda t: t - t.mean(2, keepdim=True)))
case("add_vector", (3, 4), lambda m, x: (m.op("Add", x, m.const([1.0, -2.0, 3.0, 0.5])),
                                        lambda t: t + torch.tensor([1.0, -2.0, 3.0, 0.5]).double()))

# fmod has the derivatives 1 and -trunc(a/b).
case("mod_constant", ODD, lambda m, x: (m.op("Mod", x, m.const(0.7), fmod=1), lambda t: torch.fmod(t, float(np.float32(0.7)))),
     x=around(-1.05, -0.35, 0.35, 1.05))
case("mod_data", (4, 3), lambda m, x: (m.op("Mod", m.op("Mul", x, m.const(5)), m.op("Exp", m.op("ReduceMean", x, axes=[1], keepdims=1)), fmod=1),
                                     lambda t: torch.fmod(5 * t, torch.exp(t.mean(1, keepdim=True)))))


# Operators whose derivative is 0: each is a factor of x, beside 0.25.


def factor(name, build, fn, **more):
    case(name, ODD, lambda m, x: (m.op("Mul", x, m.op("Add", build(m, x), m.const(0.25))), lambda t: t * (fn(t) + 0.25)), **more)


def as_float(m, t):
    return m.op("Cast", t, to=1)


for _op, _fn in (("Greater", torch.gt), ("GreaterOrEqual", torch.ge), ("Less", torch.lt), ("LessOrEqual", torch.le),
                 ("Equal", torch.eq)):
    factor(f"{_op.lower()}_factor", lambda m, x, op=_op: as_float(m, m.op(op, x, m.op("Neg", x))),
           lambda t, fn=_fn: fn(t, -t).double())
factor("or_not_factor", lambda m, x: as_float(m, m.op("Or", m.op("Not", m.op("Less", x, m.const(0.4))), m.op("Less", x, m.const(-0.7)))),
       lambda t: ((t >= 0.4) | (t < -0.7)).double())
for _op, _fn in (("ArgMax", torch.argmax), ("ArgMin", torch.argmin)):
    factor(f"{_op.lower()}_factor", lambda m, x, op=_op: as_float(m, m.op(op, x, axis=2, keepdims=1)),
           lambda t, fn=_fn: fn(t, 2, keepdim=True).double())
factor("onehot_factor", lambda m, x: m.op("OneHot", m.op("ArgMax", x, axis=2, keepdims=0), m.ints(5), m.const([0.0, 1.0]), axis=-1),
       lambda t: F.one_hot(t.argmax(2), 5).double())
