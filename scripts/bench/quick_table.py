#!/usr/bin/env python3
"""Compares AutoAttack's version quick with standard: the table "quick" of docs/measured/attacks.md.

    selfheal run --config C --out standard --set save_adversarial=true          # every component at full strength
    selfheal run --config C --out quick --set attacks.NAME.version=quick ...    # the same attacks, verdicts alone
    python3 scripts/bench/quick_table.py --chosen standard quick --measured others others-quick --out docs/measured/attacks.md

The recipe was chosen on the networks of --chosen and is measured on those of --measured; either may be repeated. Both
runs of a pair must be of the same models, images and attacks without controls. Accuracies are compared cell by cell and
verdicts image by image; passes are forward and backward ones together. Exit code 1 where a measured cell is further off
than half a point or any costs more than a twentieth.
"""

import argparse
import json
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

from verify import documents

MOST_OFF = 0.005  # of the accuracy
MOST_PASSES = 1 / 20  # of standard's
HEADER = ["network", "chosen by", "norm", "ε", "images", "standard", "quick", "missed", "found beside", "passes, 1 in"]


def cells(folder):
    """The attacked cells of a run, by what identifies them."""
    results = json.loads((pathlib.Path(folder) / "results.json").read_text())
    found = {}
    for cell in results["cells"]:
        if cell["attack"] != "none":
            found[cell["model"], cell["attack"], cell["epsilon"]] = {**cell, "images": results["datasets"][cell["dataset"]]["sha256"]}
    return found


def passes(cell):
    return sum(step["forward"] + step["backward"] for step in cell["steps"])


def epsilon(value):
    """k/255 where it is one, k in quarters."""
    levels = round(value * 255 * 4) / 4
    return f"{levels:g}/255" if value < 0.2 and abs(levels - value * 255) < 1e-9 else f"{value:g}"


def compare(standard, quick, chosen=False):
    """Table rows of a pair of runs, whose networks the recipe was chosen by or not, and what misses its bound."""
    rows, failures = [], []
    for key, cell in quick.items():
        other = standard.get(key)
        if other is None or other["images"] != cell["images"]:
            raise ValueError(f"{key[0]}, {key[1]}: the other run has no such cell on the same images")
        pairs = list(zip(cell["verdicts"], other["verdicts"]))
        missed, beside = pairs.count(("1", "0")), pairs.count(("0", "1"))
        share = passes(other) / passes(cell)
        off = cell["accuracy"] - other["accuracy"]
        rows.append([cell["model"], "yes" if chosen else "no", cell["norm"], epsilon(cell["epsilon"]), cell["n"], f"{100 * other['accuracy']:.1f} %",
                     f"{100 * cell['accuracy']:.1f} %", missed, beside, f"{share:.1f}"])
        if off > MOST_OFF + 1e-9 and not chosen or share < 1 / MOST_PASSES:
            failures.append(f"{key[0]}, {key[1]}: off by {100 * off:+.1f} points for 1 pass in {share:.1f}")
    return rows, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option, networks in (("--chosen", "it was chosen by"), ("--measured", "it was not chosen by")):
        parser.add_argument(option, nargs=2, action="append", default=[], metavar=("STANDARD", "QUICK"),
                            help=f"folders of two runs of networks that {networks}")
    parser.add_argument("--out", metavar="FILE", help="document whose table to bring up to date (default: printed)")
    arguments = parser.parse_args()
    rows, failures = [], []
    try:
        for pairs, chosen in ((arguments.chosen, True), (arguments.measured, False)):
            for standard, quick in pairs:
                more, worse = compare(cells(standard), cells(quick), chosen)
                rows, failures = rows + more, failures + worse
    except (OSError, ValueError) as problem:
        sys.exit(f"quick_table.py: error: {problem}")
    text = documents.table(HEADER, rows)
    print(text, *failures, sep="\n")
    if arguments.out:
        documents.replace_block(arguments.out, "quick", text)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
