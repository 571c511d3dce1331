#!/usr/bin/env python3
"""Compares a network's runs with those of its quantised forms: the table "quantised" of docs/measured/quantised.md.

    python3 scripts/zoo/quantise.py model.onnx ... --out quantised --test data/cifar-10-batches-bin/test_batch.bin
    selfheal run --config quantised/model.yaml --out results/model
    python3 scripts/bench/quantised_table.py results/model ... --out docs/measured/quantised.md

A cell is the accuracy under a network's own attack, and behind the arrow that on images made on the float network. p is
of an exact test of the same images under the float network and the form, each attacked itself: the smallest of the four
columns, times their number in the table (Bonferroni). Exit code 1 where an attack leaves more of a form than the float
network's images do, or, where a folder of the suite MODEL-square is given too, more than these and Square do together.
"""

import argparse
import json
import math
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

from verify import documents

HEADER = ["network", "images", "clean", "ℓ∞", "ℓ2", "ℓ1", "p"]
NORMS = ("linf", "l2", "l1")


def exact(a, b):
    """p of the exact test of two verdicts on the same images (McNemar), two-sided."""
    pairs = list(zip(a, b))
    one, other = pairs.count(("1", "0")), pairs.count(("0", "1"))
    tail = sum(math.comb(one + other, k) for k in range(min(one, other) + 1)) / 2 ** (one + other)
    return min(1.0, 2 * tail)


def rows(results, square):
    """Table rows of a run, with p uncorrected at their ends, and what misses its bound; Square's verdicts by model and norm."""
    suite = results["suites"][0]
    original, table, failures = suite["pairs"][0][0], [], []
    cells = {(c["model"], c.get("source") or c["model"], c.get("norm") or "clean"): c for c in results["cells"]}
    epsilons = {norm: cells[original, original, norm]["epsilon"] for norm in NORMS}
    for model in suite["models"]:
        clean = cells[model, model, "clean"]
        own = {norm: cells[model, model, norm] for norm in NORMS}
        given = {norm: cells[model, original, norm] for norm in NORMS}
        row = [model, clean["n"], f"{100 * clean['accuracy']:.1f}"]
        for norm in NORMS:
            cell = f"{100 * own[norm]['accuracy']:.1f}"
            row.append(cell if model == original else f"{cell} → {100 * given[norm]['accuracy']:.1f}")
            stood = square.get((model, norm), "1" * clean["n"])
            left = [a == b == "1" for a, b in zip(given[norm]["verdicts"], stood)]
            if own[norm]["verdicts"][:len(left)].count("1") > sum(left) or own[norm]["accuracy"] > given[norm]["accuracy"]:
                failures.append(f"{model}, {norm}: its own attack leaves more than images made on {original} and Square")
        p = [exact(cells[original, original, k]["verdicts"], c["verdicts"]) for k, c in {"clean": clean, **own}.items()]
        table.append([*row, None if model == original else min(p)])
    radius = f"{255 * epsilons['linf']:g}/255, {epsilons['l2']:g}, {epsilons['l1']:g}"
    table[0][0] += f" ({radius})"
    return table, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run of a config by scripts/zoo/quantise.py")
    parser.add_argument("--out", metavar="FILE", help="document whose table to bring up to date (default: printed)")
    arguments = parser.parse_args()
    table, failures, square = [], [], {}
    try:
        runs = [json.loads((pathlib.Path(folder) / "results.json").read_text()) for folder in arguments.runs]
        for cell in (cell for run in runs for cell in run["cells"] if cell["attack"].startswith("square-")):
            square[cell["model"], cell["norm"]] = cell["verdicts"]
        for run in (run for run in runs if run["suites"][0].get("pairs")):
            more, worse = rows(run, square)
            table, failures = table + more, failures + worse
    except (OSError, ValueError, KeyError) as problem:
        sys.exit(f"quantised_table.py: error: {problem}")
    tests = 4 * sum(row[-1] is not None for row in table)
    for row in table:
        row[-1] = "" if row[-1] is None else f"{min(1, row[-1] * tests):.2g}"
    text = documents.table(HEADER, table)
    print(text, *failures, sep="\n")
    if arguments.out:
        documents.replace_block(arguments.out, "quantised", text)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
