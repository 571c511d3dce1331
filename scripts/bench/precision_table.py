#!/usr/bin/env python3
"""Compares attacks in bf16 with the same in float32: the table "precision" of docs/measured/attacks.md.

    selfheal run --config C --out f32                                            # no controls
    selfheal run --config C --out bf16 --provider openvino --precision bf16
    python3 scripts/bench/precision_table.py f32 bf16 --out docs/measured/attacks.md        # or several pairs of folders

Verdicts are compared image by image. Exit code 1 where fewer than 99 % agree or an accuracy is further off than half
a point.
"""

import argparse
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

from bench.quick_table import MOST_OFF, cells, epsilon
from verify import documents

LEAST_SAME = 0.99  # of the verdicts
HEADER = ["network", "norm", "ε", "images", "float32", "bf16", "same verdicts", "broken in float32 alone",
          "broken in bf16 alone", "attacked again: stood again"]


def compare(exact, reduced):
    """Table rows and what misses its bound."""
    rows, failures = [], []
    for key, cell in reduced.items():
        other = exact.get(key)
        if other is None or other["images"] != cell["images"]:
            raise ValueError(f"{key[0]}, {key[1]}: the other run has no such cell on the same images")
        if not cell["recipe"].endswith("+bf16") or cell["recipe"] != other["recipe"] + "+bf16":
            raise ValueError(f"{key[0]}, {key[1]}: recipes {other['recipe']} and {cell['recipe']} are not the same in two precisions")
        pairs = list(zip(other["verdicts"], cell["verdicts"], strict=True))
        alone, beside = pairs.count(("0", "1")), pairs.count(("1", "0"))
        same, off = 1 - (alone + beside) / len(pairs), cell["accuracy"] - other["accuracy"]
        again = cell["agreement"]
        rows.append([cell["model"], cell["norm"], epsilon(cell["epsilon"]), cell["n"], f"{100 * other['accuracy']:.1f} %",
                     f"{100 * cell['accuracy']:.1f} %", f"{100 * same:.1f} %", alone, beside,
                     f"{again['n']}: {again['agree']}"])
        if same < LEAST_SAME - 1e-9 or abs(off) > MOST_OFF + 1e-9:
            failures.append(f"{key[0]}, {key[1]}: {100 * same:.1f} % of the verdicts agree, off by {100 * off:+.1f} points")
    return rows, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", help="of a run in float32 and one in bf16, and of further pairs")
    parser.add_argument("--out", metavar="FILE", help="document whose table to bring up to date (default: printed)")
    arguments = parser.parse_args()
    if len(arguments.folders) % 2:
        parser.error("folders come in pairs")
    rows, failures = [], []
    try:
        for exact, reduced in zip(arguments.folders[::2], arguments.folders[1::2]):
            more, missed = compare(cells(exact), cells(reduced))
            rows, failures = rows + more, failures + missed
    except (OSError, ValueError) as problem:
        sys.exit(f"precision_table.py: error: {problem}")
    text = documents.table(HEADER, rows)
    print(text, *failures, sep="\n")
    if arguments.out:
        documents.replace_block(arguments.out, "precision", text)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
