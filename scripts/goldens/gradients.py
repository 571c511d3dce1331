"""Writes the gradient goldens: small ONNX models and what PyTorch gives for them.

Every case is one model (built node by node, not exported, so that each operator
and attribute is tried on purpose), an input x, a cotangent w, the output y and
dx = Jᵀw from torch.autograd; and away from kinks a direction v with the
Hessian-vector product h = ∂⟨v, dx⟩/∂x by double backward. PyTorch computes in
float64 from float32 inputs and weights, so that a golden carries no rounding of
its own.

upstream.json has for each of them a cotangent of which some values are infinite or NaN, and PyTorch's gradient
and, away from kinks, Hessian-vector product by it: they are finite where the model switches those off.

    python3 scripts/goldens/gradients.py --out models/grad/gradtest/testdata [--only PREFIX]

Used: Python 3.11, PyTorch 1.13, onnx 1.12, numpy 1.24. The same versions write the same bytes.
"""

import argparse
import json
import os
import pathlib
import sys
import zlib

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

import numpy as np
import onnx
import torch
from onnx import TensorProto, checker, helper, numpy_helper

# Imported for the cases that they add.
from goldens import (  # noqa: F401
    elementwise,
    layout,
    matrix,
    nets,
    normalization,
    parameters,
    quantized,
    reduction,
    spatial,
)
from goldens.cases import CASES

torch.set_num_threads(1)
IR_VERSION = 8


class Model:
    """A graph under construction: op() appends a node and returns its output."""

    def __init__(self, rng, training=False):
        self.rng, self.nodes, self.consts, self.count = rng, [], [], 0
        self.training, self.parameters = training, {}  # weights by name, where gradients are taken by them

    def op(self, kind, *inputs, outputs=1, **attrs):
        names = [f"t{self.count + i}" for i in range(outputs)]
        self.count += outputs
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attrs))
        return names[0] if outputs == 1 else names

    def const(self, value, dtype=np.float32):
        name = f"c{self.count}"
        self.count += 1
        self.consts.append(numpy_helper.from_array(np.asarray(value, dtype=dtype), name))
        return name

    def ints(self, *values):
        return self.const(list(values), np.int64)

    def weight(self, *shape, scale=None, values=None):
        """A random constant, or one of the given values: its name in the graph and its value for PyTorch."""
        if values is None:
            fan = max(1, int(np.prod(shape[1:])))
            values = self.rng.standard_normal(shape) * (scale or 1 / np.sqrt(fan))
        v = np.asarray(values).astype(np.float32)
        name, t = self.const(v), torch.from_numpy(v.astype(np.float64)).requires_grad_(self.training)
        if self.training:
            self.parameters[name] = t
        return name, t


def spread_values(rng, shape):
    """Distinct values in (-2, 2), none near 0: away from the kinks of ReLU and from ties."""
    n = int(np.prod(shape))
    v = (rng.permutation(n) - n / 2 + 0.5) * (4 / n)
    return v.reshape(shape)


def rounded(values):
    """float32 numbers that three or four decimals write exactly enough to be read back."""
    return np.round(np.asarray(values, dtype=np.float64), 4).astype(np.float32)


def numbers(values):
    return [float("%.7g" % v) for v in np.asarray(values, dtype=np.float64).ravel()]


def hessian_vector(dx, tx, v):
    """∂⟨v, dx⟩/∂x; zeros where dx is piecewise constant and autograd keeps no graph of it."""
    if not dx.requires_grad:
        return torch.zeros_like(tx)
    (h,) = torch.autograd.grad((dx * torch.from_numpy(v.astype(np.float64))).sum(), tx, allow_unused=True)
    zero = torch.zeros_like(tx)
    return zero if h is None else zero + h  # autograd's own zeros have no memory that NumPy could read


def upstream(y, dx, w, case):
    """w with one infinite value of either sign and one NaN an item: where y does not move with x, if there are such places."""
    w, odd = w.astype(np.float64), np.random.default_rng(zlib.crc32(case.name.encode()) + 1)
    off = (dx == 0) if dx.shape == w.shape else np.zeros(w.shape, bool)
    for item in range(len(w)):
        flat, places = w[item].reshape(-1), np.flatnonzero(off[item].reshape(-1))
        if len(places) == 0:
            places = np.arange(len(flat))
        chosen = odd.permutation(places)[:3]
        flat[chosen] = [np.inf, -np.inf, np.nan][: len(chosen)]
    return w


def by_upstream(case, reference, tx, dx, w, v):
    y = reference(tx)
    w = upstream(y.detach().numpy(), dx, w, case)
    total = (y * torch.from_numpy(w)).sum()
    (dx,) = torch.autograd.grad(total, tx, create_graph=not case.kink)
    out = {"w": words(w), "dx": words(dx.detach())}
    if not case.kink:
        out["h"] = words(hessian_vector(dx, tx, v))
    return out


def words(values):
    """Numbers, and text for those that JSON has none for."""
    values = np.asarray(values, dtype=np.float64).ravel()
    return [float("%.7g" % v) if np.isfinite(v) else str(v) for v in values]


def make(case, training=False):
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    m = Model(rng, training)
    if case.x is not None:
        x = rounded(case.x(rng))
    else:
        x = rounded(spread_values(rng, (case.batch, *case.shape)))
    y_name, reference = case.build(m, "x")
    tx = torch.from_numpy(x.astype(np.float64)).requires_grad_(True)
    y = reference(tx)
    w = rounded(rng.uniform(0.25, 1, y.shape) * rng.choice([-1, 1], y.shape))

    for node in m.nodes:
        node.output[:] = ["y" if o == y_name else o for o in node.output]
        node.input[:] = ["y" if i == y_name else i for i in node.input]
    graph = helper.make_graph(
        m.nodes, case.name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *x.shape[1:]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", *y.shape[1:]])],
        m.consts)
    model = helper.make_model(graph, producer_name="goldens.py", ir_version=IR_VERSION,
                              opset_imports=[helper.make_opsetid("", case.opset)])
    if case.opset <= 17:  # onnx 1.12 can't check newer ones, and later versions refuse GroupNormalization of 18
        checker.check_model(model)

    out = {"name": case.name, "shape": list(x.shape), "kink": case.kink}
    if case.head:
        labels, targets = case.labels, case.targets
        loss = case.head(y, torch.tensor(labels), torch.tensor(targets))
        total = loss.sum()
        out |= {"head": case.head_name, "labels": labels, "targets": targets, "loss": numbers(loss.detach())}
    else:
        total = (y * torch.from_numpy(w.astype(np.float64))).sum()
        out["w"] = numbers(w)
    out |= {"x": numbers(x), "y": numbers(y.detach())}
    if training:
        out["parameters"] = parameters.gradients(total, tx, m.parameters, rng)
        return model, out
    (dx,) = torch.autograd.grad(total, tx, create_graph=not case.kink)
    out["dx"] = numbers(dx.detach())
    v = None
    if not case.kink:
        v = rounded(rng.uniform(0.25, 1, x.shape) * rng.choice([-1, 1], x.shape))
        out |= {"v": numbers(v), "h": numbers(hessian_vector(dx, tx, v))}
    assert all(np.isfinite(out[k]).all() for k in ("y", "dx", "h") if k in out), case.name
    assert np.abs(out["dx"]).max() > 0, case.name
    if not case.head:
        out["upstream"] = by_upstream(case, reference, tx, dx.detach().numpy(), w, v)
    return model, out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", help="write just the cases whose names begin so, and leave the other files alone")
    args = parser.parse_args()
    names = [c.name for c in CASES]
    assert len(set(names)) == len(names), "two cases of one name"
    for folder, cases, training in ("", CASES, False), ("parameters", parameters.cases(), True):
        chosen = [c for c in cases if c.name.startswith(args.only or "")]
        write(os.path.join(args.out, folder), [make(c, training) for c in chosen], bool(args.only))


def write(folder, made, keep):
    """Writes models and goldens into a folder, and removes its others unless they are to be kept."""
    os.makedirs(folder, exist_ok=True)
    unusual = {golden["name"]: golden.pop("upstream") for _, golden in made if "upstream" in golden}
    if unusual:
        path = os.path.join(folder, "upstream", "upstream.json")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if keep and os.path.exists(path):
            with open(path, encoding="ascii") as f:
                unusual = json.load(f) | unusual
        with open(path, "w", encoding="ascii") as f:
            lines = [json.dumps(name) + ":" + json.dumps(unusual[name], separators=(",", ":")) for name in sorted(unusual)]
            f.write("{\n" + ",\n".join(lines) + "\n}\n")
    stale = set() if keep else {f for f in os.listdir(folder) if f.endswith((".onnx", ".json"))}
    total = 0
    for model, golden in made:
        path = os.path.join(folder, golden["name"])
        onnx.save(model, path + ".onnx")
        with open(path + ".json", "w", encoding="ascii") as f:
            json.dump(golden, f, separators=(",", ":"))
            f.write("\n")
        total += os.path.getsize(path + ".onnx") + os.path.getsize(path + ".json")
        stale -= {golden["name"] + ".onnx", golden["name"] + ".json"}
    for old in stale:
        os.remove(os.path.join(folder, old))
    print(f"{folder}: {len(made)} goldens, {total // 1024} KiB")


if __name__ == "__main__":
    main()
