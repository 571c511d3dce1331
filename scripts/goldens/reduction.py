"""Cases of gradients.py: reductions."""

import torch

from goldens.cases import case, positive, spread_signs


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


# -------------------------------------- other reductions: (axes, keepdims, opset)

FORMS = {"keep": ((2,), 1, 13), "drop": ((1,), 0, 13), "several": ((1, -1), 0, 18), "item": ((1, 2, 3), 1, 18)}
OTHERS = {
    "ReduceMax": lambda t, d, k: t.amax(d, k),
    "ReduceMin": lambda t, d, k: t.amin(d, k),
    "ReduceL1": lambda t, d, k: t.abs().sum(d, k),
    "ReduceL2": lambda t, d, k: torch.linalg.vector_norm(t, 2, d, k),
    "ReduceSumSquare": lambda t, d, k: (t * t).sum(d, k),
    "ReduceLogSum": lambda t, d, k: t.sum(d, k).log(),
    "ReduceLogSumExp": lambda t, d, k: t.logsumexp(d, k),
    "ReduceProd": lambda t, d, k: product(t, d, k),
}


def product(t, dims, keep):
    for d in sorted((d % t.dim() for d in dims), reverse=True):
        t = t.prod(d, keepdim=bool(keep))
    return t


def other(op, axes, keep, opset):
    def build(m, x):
        y = m.op(op, x, m.ints(*axes), keepdims=keep) if opset >= 18 else m.op(op, x, axes=list(axes), keepdims=keep)
        return y, lambda t: OTHERS[op](t, axes, bool(keep))
    return build


for _op in OTHERS:
    _x = {"ReduceLogSum": positive(2, 3, 5, 3), "ReduceProd": lambda rng: spread_signs(rng, (2, 3, 5, 3))}.get(_op)
    for _form, (_axes, _keep, _opset) in FORMS.items():
        case(f"{_op.lower()}_{_form}", (3, 5, 3), other(_op, _axes, _keep, _opset), opset=_opset, x=_x)

# Conventions: ties share, a norm at 0 has no gradient.
for _op in ("ReduceMax", "ReduceMin"):
    case(f"{_op.lower()}_ties", (3, 4), other(_op, (2,), 0, 13), kink=True, x=lambda rng: rng.choice([0.0, 0.5], (2, 3, 4)))


def with_zeros(rng):
    """Rows with no zero, one and two."""
    x = spread_signs(rng, (2, 3, 5))
    x[:, 1, 2] = 0
    x[:, 2, 0] = x[:, 2, 4] = 0
    return x


def zero_row(rng):
    x = spread_signs(rng, (2, 3, 5))
    x[:, 1] = 0
    return x


case("reduceprod_zeros", (3, 5), other("ReduceProd", (2,), 0, 13), x=with_zeros)
case("reducel2_zero", (3, 5), other("ReduceL2", (2,), 1, 13), kink=True, x=zero_row)
case("reducel1_zero", (3, 5), other("ReduceL1", (2,), 1, 13), kink=True, x=zero_row)
