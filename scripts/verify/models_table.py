#!/usr/bin/env python3
"""Checks every architecture against PyTorch and writes the table of docs/measured/models.md.

    python3 scripts/verify/models_table.py --out docs/measured/models.md
    python3 scripts/verify/models_table.py --also /path/to/other/python --runner /path/to/python/with/onnxruntime

Each network gets random weights, is exported by every exporter of every interpreter, opened and
differentiated by the Go program, and its logits and input gradient are compared with PyTorch's (see
verification.py). Needs Go, or a built program as --selfheal. One model at a time lies in a temporary
folder; the largest takes about 2 GB there. Exit code 1 where a network fails or misses a bound; the table
is written all the same, unless --only restricts it.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import pathlib
import platform
import sys
import tempfile
import time

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

from verify import documents, verification
from verify.verification import Failed

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEED = 1
OPSETS = {"torchscript": 13, "dynamo": 18}  # the defaults of export.py
TITLES = {"torchscript": "TorchScript", "dynamo": "dynamo"}


def describe():
    """What this interpreter has, as JSON; torch is only imported in processes like this one."""
    import torch

    from paper.architectures import ARCHITECTURES
    from zoo import exporters
    runtime = importlib.util.find_spec("onnxruntime") is not None
    return {"torch": torch.__version__, "exporters": exporters.available(),
            "architectures": {name: architecture.description for name, architecture in ARCHITECTURES.items()},
            "onnxruntime": importlib.metadata.version("onnxruntime") if runtime else None}


def random_network(name):
    """The architecture `name` with its default options and random weights, and its Architecture."""
    from paper.architectures import ARCHITECTURES, random_weights
    architecture = ARCHITECTURES[name]
    return random_weights(architecture.build(), architecture.input_shape(), SEED), architecture


def write_case(name, exporter, folder):
    """Export one network and save PyTorch's results."""
    network, architecture = random_network(name)
    verification.write_case(network, architecture.input_shape(), exporter, OPSETS[exporter], folder, SEED,
                            architecture.input_name, architecture.output_name)


def this_script(python, *arguments):
    return [python, str(pathlib.Path(__file__).resolve()), *arguments]


def check(name, python, exporter, selfheal, runner, timeout):
    """One line of the table as verification.check_case gives it, or Failed."""
    with tempfile.TemporaryDirectory(prefix="selfheal-models-") as folder:
        verification.run(this_script(python, "--case", name, "--exporter", exporter, "--folder", folder), timeout)
        return verification.check_case(folder, selfheal, runner, timeout)


def short(version):
    """1.13 of 1.13.0a0, 2.15 of 2.15.0+cu132."""
    return ".".join(version.split(".")[:2])


def quantity(number):
    """Three figures and a unit: 11.2 M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return str(number)


def line(name, title, opset, found):
    """The cells of one network and exporter."""
    nodes = sum(entry["count"] for entry in found["operators"])
    cells = {key: f"{found[key]:.1e}" for key in ("logits", "gradient", "torch_gradient")}
    if not verification.within_bounds(found):
        cells = {key: f"**{cell}**" for key, cell in cells.items()}
    return [name, title, opset, nodes, len(found["segments"]), quantity(found["parameters"]), quantity(found["flops"]),
            *cells.values()]


def report(versions, lines, failures):
    """The generated part of docs/measured/models.md."""
    parts = [f"{versions}.", documents.table(
        ["network", "exporter", "opset", "nodes", "segments", "parameters", "FLOPs", "logits", "gradient",
         "PyTorch float32"], lines)]
    if failures:
        parts.append("These do not keep the bounds:\n\n" + "\n".join(f"- {failure}" for failure in failures))
    return "\n\n".join(parts)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=str(ROOT / "docs" / "measured" / "models.md"), help="document to bring up to date")
    parser.add_argument("--also", action="append", default=[], metavar="PYTHON",
                        help="a further interpreter with PyTorch; may be repeated")
    parser.add_argument("--runner", metavar="PYTHON",
                        help="interpreter with onnx and onnxruntime (default: the first of the others that has it)")
    parser.add_argument("--selfheal", metavar="FILE", help="the built program (default: built by go build)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these architectures, printed and not written")
    parser.add_argument("--timeout", type=int, default=900, help="seconds for each step (default %(default)s)")
    for hidden in ("--case", "--exporter", "--folder"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--describe", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def sweep(arguments, interpreters, runner, selfheal):
    """Check everything; returns table lines and failures."""
    names = next(iter(interpreters.values()))["architectures"]
    lines, failures = [], []
    for name in arguments.only or names:
        for python, has in interpreters.items():
            for exporter in has["exporters"]:
                title, start = f"{TITLES[exporter]} {short(has['torch'])}", time.time()
                try:
                    found = check(name, python, exporter, selfheal, runner, arguments.timeout)
                    lines.append(line(name, title, OPSETS[exporter], found))
                    if not verification.within_bounds(found):
                        failures.append(f"{name}, {title}: logits {found['logits']:.1e}, gradient {found['gradient']:.1e}")
                except Failed as problem:
                    lines.append([name, title, OPSETS[exporter], *["–"] * 7])
                    failures.append(f"{name}, {title}: {problem}")
                print(*lines[-1], f"({time.time() - start:.0f} s)", sep="  ", flush=True)
    return lines, failures


def main():
    arguments = parse()
    if arguments.describe:
        print(json.dumps(describe()))
        return 0
    if arguments.case:
        write_case(arguments.case, arguments.exporter, arguments.folder)
        return 0
    try:
        interpreters = {python: json.loads(verification.run(this_script(python, "--describe"), 120))
                        for python in dict.fromkeys([sys.executable, *arguments.also])}
        runner = arguments.runner or next((python for python, has in interpreters.items() if has["onnxruntime"]), None)
        if runner is None:
            raise Failed("no interpreter has onnxruntime; name one by --runner")
        runtime = verification.run([runner, "-c", "import onnxruntime; print(onnxruntime.__version__)"], 120).strip()
        with tempfile.TemporaryDirectory(prefix="selfheal-models-") as folder:
            selfheal = arguments.selfheal or str(pathlib.Path(folder) / "selfheal")
            if not arguments.selfheal:
                verification.run(["go", "build", "-C", str(ROOT), "-o", selfheal, "."], 600)
            lines, failures = sweep(arguments, interpreters, runner, selfheal)
    except Failed as problem:
        sys.exit(f"models_table.py: error: {problem}")
    torches = " and ".join(f"PyTorch {has['torch']}" for has in interpreters.values())
    text = report(f"{torches}, ONNX Runtime {runtime}, {platform.system()} {platform.machine()}", lines, failures)
    if arguments.only:
        print(text)
    else:
        documents.replace_block(arguments.out, "models", text)
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
