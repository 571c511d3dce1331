"""The cases of gradients.py that are whole networks: three composed ones, and a
linear classifier under every loss head."""

import numpy as np
import torch
import torch.nn.functional as F

from goldens.cases import case


def bn(m, x, c):
    names, values = zip(*(m.weight(c, scale=0.5) for _ in range(3)))
    v = m.rng.uniform(0.5, 1.5, c).astype(np.float32)
    y = m.op("BatchNormalization", x, names[0], names[1], names[2], m.const(v))
    s, b, mu = values
    return y, lambda t: F.batch_norm(t, mu, torch.from_numpy(v).double(), s, b, False, 0, float(np.float32(1e-5)))


def convolve(m, x, cin, cout, k, stride=1, pad=0, op="Conv"):
    shape = (cout, cin, k, k) if op == "Conv" else (cin, cout, k, k)
    wn, w = m.weight(*shape)
    y = m.op(op, x, wn, kernel_shape=[k, k], strides=[stride] * 2, pads=[pad] * 4)
    if op == "Conv":
        return y, lambda t: F.conv2d(t, w, None, stride, pad)
    return y, lambda t: F.conv_transpose2d(t, w, None, stride, pad)


def linear(m, x, i, o):
    wn, w = m.weight(o, i)
    b_n, b = m.weight(o, scale=0.5)
    return m.op("Gemm", x, wn, b_n, transB=1), lambda t: F.linear(t, w, b)


def residual(m, x):
    """A pre-activation block with a strided shortcut, pooled and classified."""
    n1, f1 = bn(m, x, 2)
    r1 = m.op("Relu", n1)
    short, fs = convolve(m, r1, 2, 4, 1, 2)
    c1, f2 = convolve(m, r1, 2, 4, 3, 2, 1)
    n2, f3 = bn(m, c1, 4)
    c2, f4 = convolve(m, m.op("Relu", n2), 4, 4, 3, 1, 1)
    s = m.op("Relu", m.op("Add", c2, short))
    y, f5 = linear(m, m.op("Flatten", m.op("GlobalAveragePool", s)), 4, 3)

    def ref(t):
        r = F.relu(f1(t))
        return f5(F.relu(f4(F.relu(f3(f2(r)))) + fs(r)).mean((2, 3)))
    return y, ref


def squeeze_excite(m, x):
    c, f1 = convolve(m, x, 2, 4, 3, 1, 1)
    a = m.op("Mul", c, m.op("Sigmoid", c))  # SiLU
    p = m.op("GlobalAveragePool", a)
    d, f2 = convolve(m, p, 4, 2, 1)
    d = m.op("Mul", d, m.op("Sigmoid", d))
    u, f3 = convolve(m, d, 2, 4, 1)
    y = m.op("Mul", m.op("Sigmoid", u), a)

    def ref(t):
        v = F.silu(f1(t))
        return torch.sigmoid(f3(F.silu(f2(v.mean((2, 3), keepdim=True))))) * v
    return y, ref


def auto_encoder(m, x):
    c, f1 = convolve(m, x, 1, 3, 3, 2, 1)
    c = m.op("Elu", c)
    u = m.op("Resize", c, "", m.const([1.0, 1.0, 2.0, 2.0]), mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    d, f2 = convolve(m, u, 3, 2, 2, 2, 0, "ConvTranspose")
    p = m.op("MaxPool", d, kernel_shape=[2, 2], strides=[2, 2])
    e, f3 = convolve(m, m.op("Tanh", p), 2, 1, 1)
    return m.op("Sigmoid", e), lambda t: torch.sigmoid(f3(torch.tanh(F.max_pool2d(f2(F.interpolate(F.elu(f1(t)), scale_factor=2, mode="nearest")), 2))))


case("net_residual", (2, 6, 6), residual)
case("net_squeeze_excite", (2, 4, 4), squeeze_excite)
case("net_auto_encoder", (1, 6, 6), auto_encoder)


# -------------------------------------------------------------- loss heads

def pick(z, y):
    return z.gather(1, y[:, None])[:, 0]


def best_other(z, y):
    return z.masked_fill(F.one_hot(y, z.shape[1]).bool(), -torch.inf).max(1)[0]


def dlr(z, y, t):
    s = z.sort(1)[0]
    return -(pick(z, y) - best_other(z, y)) / (s[:, -1] - s[:, -3] + 1e-12)


def dlr_targeted(z, y, t):
    s = z.sort(1)[0]
    return -(pick(z, y) - pick(z, t)) / (s[:, -1] - 0.5 * (s[:, -3] + s[:, -4]) + 1e-12)


HEADS = {
    "ce": lambda z, y, t: F.cross_entropy(z, y, reduction="none"),
    "ce-targeted": lambda z, y, t: -F.cross_entropy(z, t, reduction="none"),
    "dlr": dlr,
    "dlr-targeted": dlr_targeted,
    "logit-difference": lambda z, y, t: pick(z, t) - pick(z, y),
    "margin": lambda z, y, t: best_other(z, y) - pick(z, y),
    "probability-margin": lambda z, y, t: best_other(z.softmax(1), y) - pick(z.softmax(1), y),
}
for _name, _fn in HEADS.items():
    case("head_" + _name.replace("-", "_"), (6,), lambda m, x: linear(m, x, 6, 5), batch=4,
         head=_fn, head_name=_name, labels=[0, 1, 2, 3], targets=[2, 4, 1, 0])
