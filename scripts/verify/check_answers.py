#!/usr/bin/env python3
"""Asks `selfheal vnnlib` a benchmark's questions and checks the answers with ONNX Runtime and a parser of its own.

    python3 scripts/verify/check_answers.py --selfheal ./selfheal BENCHMARK/instances.csv --timeout 20s
    python3 scripts/verify/check_answers.py --selfheal ./selfheal --around IMAGES.bin NETWORK.onnx --scale 255

A `sat` must hold: its X lies in a case's box, and the file's own output on X fulfils that case's constraints, in float64
on float32 values. After an `unsat` no random point and no corner of a box may fulfil the property. --around asks, for real
images (CIFAR-10's records) in a network's own input space, whether a ball of 1e-5 holds an input of the centre's own
class, which it does: every answer must be `sat`.
"""

import argparse
import collections
import csv
import gzip
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

import numpy
import onnxruntime

from zoo import datasets

SAMPLES = 1000


def opened(path):
    """A file's bytes, unpacked."""
    data = pathlib.Path(path).read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def expressions(text):
    """The S-expressions of a text, as nested lists."""
    stack = [[]]
    for word in re.findall(r"[()]|[^\s()]+", re.sub(r";.*", "", text)):
        if word == "(":
            stack.append([])
        elif word == ")":
            inner = stack.pop()
            stack[-1].append(inner)
        else:
            stack[-1].append(word)
    return stack[0]


def value(term, at):
    """A linear term's value where X and Y are at."""
    if isinstance(term, str):
        if term[:2] in ("X_", "Y_"):
            return at[term[0]][..., int(term[2:])]
        return numpy.float64(term)
    parts = [value(part, at) for part in term[1:]]
    if term[0] == "-" and len(parts) == 1:
        return -parts[0]
    out = parts[0]
    for part in parts[1:]:
        out = {"+": out + part, "-": out - part, "*": out * part}[term[0]]
    return out


def holds(formula, at):
    """Whether a formula holds, point by point."""
    if formula[0] in ("and", "or"):
        parts = [holds(part, at) for part in formula[1:]]
        return (numpy.logical_and if formula[0] == "and" else numpy.logical_or).reduce(parts)
    left, right = value(formula[1], at), value(formula[2], at)
    return {"<=": left <= right, ">=": left >= right, "<": left < right, ">": left > right, "=": left == right}[formula[0]]


def boxes(formula, inputs):
    """The boxes of a formula's inputs: of its disjunctions each."""
    def ends(part):  # a list of {index: [low, high]}
        if part[0] == "and":
            out = [{}]
            for inner in part[1:]:
                out = [merged(a, b) for a in out for b in ends(inner)]
            return out
        if part[0] == "or":
            return [box for inner in part[1:] for box in ends(inner)]
        name, other, rising = part[1], part[2], part[0] in ("<=", "<")
        if isinstance(other, str) and other.startswith("X_"):
            name, other, rising = other, name, not rising
        if not (isinstance(name, str) and name.startswith("X_")):
            return [{}]
        end = float(other)
        both = part[0] == "="
        return [{int(name[2:]): (end if both or not rising else -numpy.inf, end if both or rising else numpy.inf)}]

    def merged(a, b):
        out = dict(a)
        for i, (low, high) in b.items():
            was = out.get(i, (-numpy.inf, numpy.inf))
            out[i] = (max(was[0], low), min(was[1], high))
        return out

    for box in ends(formula):
        low = numpy.array([box[i][0] for i in range(inputs)])
        high = numpy.array([box[i][1] for i in range(inputs)])
        if (low <= high).all():
            yield low, high


class Network:
    """An ONNX file as it lies."""

    def __init__(self, path):
        self.session = onnxruntime.InferenceSession(opened(path), providers=["CPUExecutionProvider"])
        self.input = self.session.get_inputs()[0]
        self.shape = [d if isinstance(d, int) and d > 0 else 1 for d in self.input.shape]
        self.dtype = numpy.float64 if "double" in self.input.type else numpy.float32
        self.inputs = int(numpy.prod(self.shape))

    def __call__(self, points):
        return numpy.array([self.session.run(None, {self.input.name: x.reshape(self.shape).astype(self.dtype)})[0]
                            .astype(numpy.float64).ravel() for x in points])


def asked(program, model, spec, timeout):
    """The program's answer, and the counterexample."""
    got = subprocess.run([program, "vnnlib", model, spec, "--timeout", timeout], capture_output=True, text=True)
    if got.returncode:
        return "error: " + got.stderr.strip(), None
    answer, _, rest = got.stdout.partition("\n")
    values = {kind: [float(v) for v in re.findall(rf"\({kind}_\d+ ([^)]+)\)", rest)] for kind in "XY"}
    return answer, values


def wrong(answer, values, network, text, rng, known):
    """What is wrong with an answer, or None."""
    formula = ["and"] + [e[1] for e in expressions(text) if e and e[0] == "assert"]
    if answer == "sat":
        x = numpy.array([values["X"]]).astype(numpy.float32)
        y = network(x)
        if not holds(formula, {"X": x.astype(numpy.float64), "Y": y})[0]:
            return "the counterexample does not hold"
    if answer == "unsat":
        points = [numpy.array([k]) for k in known]
        for low, high in list(boxes(formula, network.inputs))[:50]:
            some = low + (high - low) * rng.random((SAMPLES, len(low)))
            some[:64] = numpy.where(rng.random((64, len(low))) < 0.5, low, high)
            points.append(numpy.clip(some.astype(numpy.float32), low, high))
        for some in points:
            found = holds(formula, {"X": some.astype(numpy.float64), "Y": network(some)})
            if found.any():
                return "a sample fulfils the property"
    return None


def instances(arguments):
    """Models, properties and their texts."""
    folder = pathlib.Path(arguments.questions).parent
    with open(arguments.questions, newline="") as f:
        for row in csv.reader(f):
            yield str(folder / row[0].strip()), str(folder / row[1].strip())


def around(arguments, folder):
    """Balls around real images that ask for the centre's own class."""
    network = Network(arguments.questions)
    for number, x in enumerate(datasets.read_records(pathlib.Path(arguments.around), count=arguments.limit)[0]):
        if network.shape[-1] == 3:
            x = x.transpose(1, 2, 0)
        x = x.ravel() * (numpy.float32(arguments.scale) / 255)
        y = network([x])[0]
        lines = [f"(declare-const X_{i} Real)" for i in range(len(x))] + \
            [f"(declare-const Y_{i} Real)" for i in range(len(y))] + \
            [f"(assert (and (>= X_{i} {v - 1e-5!r}) (<= X_{i} {v + 1e-5!r})))" for i, v in enumerate(x.tolist())] + \
            [f"(assert (>= Y_{y.argmax()} Y_{i}))" for i in range(len(y)) if i != y.argmax()]
        path = pathlib.Path(folder) / f"{number}.vnnlib"
        path.write_text("\n".join(lines))
        yield arguments.questions, str(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", help="a benchmark's instances.csv, or a network with --around")
    parser.add_argument("--selfheal", default="./selfheal", help="the program (default ./selfheal)")
    parser.add_argument("--timeout", default="20s", help="for a question (default 20s)")
    parser.add_argument("--around", help="images as CIFAR-10 has them")
    parser.add_argument("--scale", type=float, default=1, help="largest value of a pixel in the network's input (default 1)")
    parser.add_argument("--limit", type=int, default=20, help="images (default 20)")
    parser.add_argument("--known", help="folder of counterexamples, each as NAME.txt of numbers X for a property NAME")
    arguments = parser.parse_args()
    rng, counts, faults = numpy.random.default_rng(0), collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        for model, spec in around(arguments, folder) if arguments.around else instances(arguments):
            answer, values = asked(arguments.selfheal, model, spec, arguments.timeout)
            network = Network(model)
            known = []
            if arguments.known and (path := pathlib.Path(arguments.known) / (pathlib.Path(spec).stem + ".txt")).exists():
                known.append(numpy.loadtxt(path).astype(numpy.float32))
            fault = wrong(answer, values, network, opened(spec).decode(), rng, known)
            if answer.startswith("error") or arguments.around and answer != "sat":
                fault = fault or f"is {answer}"
            counts[answer.split(":")[0]] += 1
            faults += fault is not None
            print(f"{pathlib.Path(model).name} {pathlib.Path(spec).name}: {answer}{' WRONG: ' + fault if fault else ''}",
                  flush=True)
    print(", ".join(f"{n} {answer}" for answer, n in sorted(counts.items())) + f"; {faults} wrong")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
