#!/usr/bin/env python3
"""Writes the skeletons of models/zoo/skeletons: every architecture as a graph without weights.

    python3 scripts/zoo/skeletons.py --out models/zoo/skeletons
    python3 scripts/zoo/skeletons.py --out models/zoo/skeletons --exporter dynamo

The TorchScript exporter writes all of them at opset 13 as NAME.onnx, the dynamo exporter four of different
kinds at opset 18 as NAME-dynamo.onnx.
"""

import argparse
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

from paper.architectures import ARCHITECTURES
from zoo import export

DYNAMO = ("rn-18", "wrn-28-8", "efficientnet-b0", "segnet")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder to write")
    parser.add_argument("--exporter", choices=("torchscript", "dynamo"), default="torchscript")
    arguments = parser.parse_args(argv)
    folder = pathlib.Path(arguments.out)
    folder.mkdir(parents=True, exist_ok=True)
    names, suffix = (DYNAMO, "-dynamo") if arguments.exporter == "dynamo" else (ARCHITECTURES, "")
    failures = 0
    for name in names:
        failures += export.main(["--architecture", name, "--skeleton", "--exporter", arguments.exporter,
                                 "--out", str(folder / f"{name}{suffix}.onnx")])
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
