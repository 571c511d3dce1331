#!/usr/bin/env python3
"""Asks selfheal's verifier about random small networks and compares with exact answers by another method.

    python3 scripts/verify/random_verification.py --selfheal selfheal --count 500

Networks of ReLU, LeakyReLU and max pooling are mixed-integer linear programs, which HiGHS solves: by how much the
constraints of a property can hold at once, at most, over the box of inputs. Those with a sigmoid take two inputs, which
a grid of 600 by 600 covers, up to what the network's Lipschitz constant leaves between its points. Questions that are
decided by less than 1e-4 are not asked. Exit code 1 where an answer is wrong. Needs numpy, scipy and onnx.
"""

import argparse
import collections
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from scipy.optimize import Bounds, LinearConstraint, milp

CLEAR = 1e-4
KINDS = ("relu", "leaky", "pool", "sigmoid")


class Network:
    """Two hidden layers; weights float32. `pool` takes the largest of each two neighbours of the first."""

    def __init__(self, rng, kind):
        self.kind = kind
        # Boxes of more than 20 inputs are not cut, but the values of activations.
        self.inputs = 2 if kind == "sigmoid" else int(rng.choice([rng.integers(2, 6), rng.integers(21, 31)]))
        widths = [self.inputs, 2 * int(rng.integers(2, 6)), int(rng.integers(3, 9)), int(rng.integers(1, 4))]
        self.weights = []
        for layer, (m, n) in enumerate(zip(widths, widths[1:])):
            taken = m // 2 if kind == "pool" and layer == 1 else m
            self.weights.append(((rng.normal(size=(taken, n)) * (2 / taken) ** 0.5).astype(np.float32),
                                 (0.5 * rng.normal(size=n)).astype(np.float32)))
        self.outputs = widths[-1]
        self.box = np.sort(rng.uniform(-1, 1, size=(2, self.inputs)), axis=0).round(3)
        self.box[1] = np.maximum(self.box[1], self.box[0] + 0.01)  # so that float32 values lie between

    def activate(self, z, layer):
        if self.kind == "pool" and layer == 0:
            return z.reshape(*z.shape[:-1], -1, 2).max(-1)
        if self.kind == "sigmoid":
            return 1 / (1 + np.exp(-z))
        return np.maximum(z, 0.1 * z if self.kind == "leaky" else 0)

    def __call__(self, x):
        for layer, (w, b) in enumerate(self.weights):
            x = x @ w.astype(float) + b
            if layer < 2:
                x = self.activate(x, layer)
        return x

    def save(self, path):
        nodes, constants, x = [], [], "x"
        for layer, (w, b) in enumerate(self.weights):
            constants += [numpy_helper.from_array(w, f"w{layer}"), numpy_helper.from_array(b, f"b{layer}")]
            nodes.append(helper.make_node("Gemm", [x, f"w{layer}", f"b{layer}"], [f"z{layer}"]))
            if layer == 2:
                break
            x = f"a{layer}"
            if self.kind == "pool" and layer == 0:
                constants += [numpy_helper.from_array(np.array([0, 1, -1]), "rows"),
                              numpy_helper.from_array(np.array([0, len(w[0]) // 2]), "flat")]
                nodes += [helper.make_node("Reshape", ["z0", "rows"], ["r"]),
                          helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2], strides=[2]),
                          helper.make_node("Reshape", ["p", "flat"], [x])]
            elif self.kind == "leaky":
                nodes.append(helper.make_node("LeakyRelu", [f"z{layer}"], [x], alpha=0.1))
            else:
                nodes.append(helper.make_node("Sigmoid" if self.kind == "sigmoid" else "Relu", [f"z{layer}"], [x]))
        graph = helper.make_graph(nodes, "random", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", self.inputs])],
                                  [helper.make_tensor_value_info("z2", TensorProto.FLOAT, ["N", self.outputs])], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        onnx.save(model, path)


def property_of(network, cases):
    """A property in VNN-LIB: the box, and a disjunction of conjunctions of rows·y <= t."""
    lines = [f"(declare-const X_{i} Real)" for i in range(network.inputs)]
    lines += [f"(declare-const Y_{i} Real)" for i in range(network.outputs)]
    for i, (low, high) in enumerate(network.box.T):
        lines += [f"(assert (>= X_{i} {low:.3f}))", f"(assert (<= X_{i} {high:.3f}))"]
    def constraint(row, t):
        terms = " ".join(f"(* {v:.6f} Y_{i})" for i, v in enumerate(row))
        return f"(<= (+ {terms}) {t:.6f})"
    text = " ".join("(and " + " ".join(constraint(*c) for c in case) + ")" for case in cases)
    return "\n".join([*lines, f"(assert (or {text}))", ""])


def most_by_milp(network, case):
    """By how much the constraints of a case can hold at once: the largest s with row·y + s <= t of each."""
    columns, rows, integer = 0, [], []
    low, high = [], []

    def variable(least, most, whole=0):
        nonlocal columns
        low.append(least), high.append(most), integer.append(whole)
        columns += 1
        return columns - 1

    def add(terms, least, most):
        rows.append((terms, least, most))

    before = [variable(*ends) for ends in network.box.T]
    ends = network.box
    for layer, (w, b) in enumerate(network.weights):
        w, b = w.astype(float), b.astype(float)
        centre, radius = ends.mean(0) @ w + b, (ends[1] - ends[0]) / 2 @ abs(w)
        ends = np.stack([centre - radius, centre + radius])
        z = [variable(*e) for e in ends.T]
        for j, name in enumerate(z):
            add({name: 1, **{x: -v for x, v in zip(before, w[:, j])}}, b[j], b[j])
        if layer == 2:
            break
        before = []
        slope = 0.1 if network.kind == "leaky" else 0
        if network.kind == "pool" and layer == 0:
            for one, other in zip(z[::2], z[1::2]):
                most = max(high[one], high[other])
                a, first = variable(max(low[one], low[other]), most), variable(0, 1, 1)
                for name, taken in ((one, 1), (other, 0)):  # a = name where first is `taken`
                    add({a: 1, name: -1}, 0, np.inf)
                    room = most - low[name]
                    sign = room if taken else -room
                    add({a: 1, name: -1, first: sign}, -np.inf, room if taken else 0)
                before.append(a)
        else:
            for name in z:
                l, u = low[name], high[name]
                a, on = variable(min(l, slope * l), max(u, slope * u)), variable(0, 1, 1)
                add({a: 1, name: -1}, 0, np.inf)
                add({a: 1, name: -slope}, 0, np.inf)
                room = (1 - slope) * max(-l, 0)
                add({a: 1, name: -1, on: room}, -np.inf, room)
                add({a: 1, name: -slope, on: -(1 - slope) * max(u, 0)}, -np.inf, 0)
                before.append(a)
        ends = network.activate(ends, layer)
    s = variable(-1e2, 1e2)
    for row, t in case:
        add({s: 1, **{name: v for name, v in zip(z, row)}}, -np.inf, t)
    matrix = np.zeros((len(rows), columns))
    for i, (terms, _, _) in enumerate(rows):
        for name, v in terms.items():
            matrix[i, name] += v
    cost = np.zeros(columns)
    cost[s] = -1
    for presolve in (True, False):  # HiGHS fails on some problems with it
        found = milp(cost, integrality=np.array(integer), bounds=Bounds(low, high), options={"presolve": presolve},
                     constraints=LinearConstraint(matrix, [r[1] for r in rows], [r[2] for r in rows]))
        if found.success:
            break
    else:
        raise ValueError(f"HiGHS: {found.message}")
    return found.x[s], found.x[s]


def most_by_grid(network, case):
    """Bounds of most_by_milp, by a grid and the network's Lipschitz constant in the largest norm."""
    steps = 600
    axes = [np.linspace(low, high, steps + 1) for low, high in network.box.T]
    y = network(np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2))
    least = np.min([t - y @ row for row, t in case], axis=0)
    jacobian = abs(network.weights[0][0].astype(float)) / 4
    jacobian = jacobian @ abs(network.weights[1][0].astype(float)) / 4 @ abs(network.weights[2][0].astype(float))
    half = (network.box[1] - network.box[0]) / (2 * steps)
    away = max(float(half @ jacobian @ abs(row)) for row, _ in case)
    return np.max(least), np.max(least) + away


def ask(program, folder, network, cases):
    network.save(folder / "net.onnx")
    (folder / "prop.vnnlib").write_text(property_of(network, cases))
    out = subprocess.run([program, "vnnlib", folder / "net.onnx", folder / "prop.vnnlib", "--timeout", "20s"],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    return out.partition("\n")[0]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--selfheal", required=True, metavar="PROGRAM")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args(argv)
    rng, counts, wrong = np.random.default_rng(a.seed), collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        while sum(counts.values()) < a.count:
            network = Network(rng, KINDS[sum(counts.values()) % len(KINDS)])
            cases = []
            for _ in range(int(rng.integers(1, 4))):
                rows = rng.normal(size=(int(rng.integers(1, 3)), network.outputs)).round(6)
                points = rng.uniform(*network.box, size=(2000, network.inputs))
                values = network(points) @ rows.T  # t is about the edge of what can be met
                t = values.min(0) + rng.normal() * values.std(0) * rng.choice([0.02, 0.2])
                cases.append([(row, round(float(v), 6)) for row, v in zip(rows, t)])
            solve = most_by_grid if network.kind == "sigmoid" else most_by_milp
            ends = np.max([solve(network, case) for case in cases], axis=0)
            if ends[0] < CLEAR and ends[1] > -CLEAR:
                continue
            want, got = "sat" if ends[0] >= CLEAR else "unsat", ask(a.selfheal, pathlib.Path(folder), network, cases)
            counts[network.kind, got] += 1
            if got != want:
                wrong += got in ("sat", "unsat")
                print(f"question {sum(counts.values())}, {network.kind}: {got}, exactly {want} by {ends}", flush=True)
    for key, n in sorted(counts.items()):
        print(*key, n)
    print(f"{wrong} of {a.count} answers wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
