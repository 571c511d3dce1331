#!/usr/bin/env python3
"""Draws what fit.py's --test found, over the epochs of several fits.

    python3 scripts/paper/fit_figure.py --log NAME=FILE [--log NAME=FILE] --out figure.png

Each FILE is a log.jsonl. Three panels: accuracy on clean and on attacked images, the mean of ||E(x) - x||^2, and the share
of a perturbation that passes. A fit that was judged once is a point. The interpreter needs matplotlib.
"""

import argparse
import json
import pathlib

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", action="append", required=True, metavar="NAME=FILE", help="may be repeated")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="PNG or SVG, by its name's end")
    arguments = parser.parse_args()
    figure, (accuracy, moved, passed) = pyplot.subplots(1, 3, figsize=(12, 4), layout="constrained")
    for number, (name, file) in enumerate(log.split("=", 1) for log in arguments.log):
        entries = [json.loads(line) for line in pathlib.Path(file).read_text(encoding="utf-8").splitlines()]
        entries = [entry for entry in entries if "test" in entry]
        epochs = [entry["epoch"] for entry in entries]
        for axes, key, line, factor in ((accuracy, "clean", "-", 100), (accuracy, "attacked", "--", 100),
                                        (moved, "moved", "-", 1), (passed, "passed", "-", 1)):
            label = f"{name}, {key}" if axes is accuracy else name
            axes.plot(epochs, [factor * entry["test"][key] for entry in entries], line, marker="o" if line == "-" else "s",
                      color=f"C{number}", markersize=4, label=label)
    for axes, title in ((accuracy, "accuracy in %"), (moved, "‖E(x) − x‖²"), (passed, "share of a perturbation that passes")):
        axes.set(title=title, xlabel="epochs", ylim=(0, None))
        axes.grid(alpha=0.3)
    accuracy.set_ylim(0, 100)
    moved.set(yscale="log", ylim=(1, None))
    accuracy.legend(fontsize=7)
    figure.savefig(arguments.out, dpi=100)


if __name__ == "__main__":
    main()
