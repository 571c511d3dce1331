#!/usr/bin/env python3
"""Times PGD of selfheal beside Foolbox's, ART's and torchattacks': the table "peers" of docs/measured/performance.md.

    python3 scripts/bench/peers.py --config ../shared/real/config.yaml --suite real --suite standard \\
        [--rounds 5] [--out docs/measured/performance.md]

A case is a network and its l-inf AutoAttack of a suite, of which the epsilon is taken: PGD has 100 steps of a tenth of
it from one random start, on every image that is classified right to the last step, 64 at a time. All are held to the
same cores and take turns, each in a process of its own. Compared is the time inside the attack; *process* is a whole `selfheal run`, with loading,
judging and reports. PyTorch runs the ONNX file itself, node by node. The libraries' starts are drawn otherwise, so that
the accuracy that is left may differ by an image or two. The interpreter needs PyTorch, onnx, foolbox, torchattacks and
adversarial-robustness-toolbox.
"""

import argparse
import datetime
import fractions
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

from bench.autoattack import BUSY, Bench, built, plural, processor, published, read_cases, say
from verify import documents
from verify.verification import Failed

PEERS = ("Foolbox", "ART", "torchattacks")
STEPS, BATCH = 100, 64


class Peers(Bench):
    def library(self, case, name):
        epsilon = float(fractions.Fraction(case.epsilon))
        return self.torch(case, "pgd", library=name, epsilon=epsilon, steps=STEPS, step=epsilon / 10, batch=BATCH)

    def selfheal_pgd(self, case):
        epsilon = fractions.Fraction(case.epsilon)
        attack = f"{{kind: pgd, norm: linf, epsilon: {case.epsilon}, steps: {STEPS}, step_size: {float(epsilon / 10)!r}}}"
        case = case._replace(settings=[f"attacks.{case.attack}={attack}"])
        with tempfile.TemporaryDirectory(prefix="selfheal-bench-") as folder:
            results, process = self.ours(case, [case.attack], "full", folder)
        cell = next(cell for cell in results["cells"] if cell["attack"] == case.attack)
        return {"seconds": sum(step["seconds"] for step in cell["steps"]), "process": process, "robust": cell["accuracy"],
                "largest": cell["max_norm"], "version": results["environment"]["selfheal"]}


def measure(bench, case, rounds):
    """Runs of each side, by its name."""
    sides = {name: [] for name in ("selfheal", *PEERS)}
    for number in range(rounds):
        for name, runs in sides.items():
            runs.append(bench.selfheal_pgd(case) if name == "selfheal" else bench.library(case, name))
            if runs[-1]["largest"] > float(fractions.Fraction(case.epsilon)) * (1 + 1e-5):
                raise Failed(f"{name} leaves the ball: {runs[-1]['largest']}")
            say(f"  round {number + 1}, {name}: {runs[-1]['seconds']:.2f} s, robust {100 * runs[-1]['robust']:.1f} %")
    return sides


def rows(case, sides, images):
    lines = []
    for name, runs in sides.items():
        ratio = statistics.median(run["seconds"] / ours["seconds"] for run, ours in zip(runs, sides["selfheal"]))
        process = f"{statistics.median(run['process'] for run in runs):.2f} s" if "process" in runs[0] else ""
        lines.append([case.model, f"{case.epsilon}", images, f"{name} {runs[0]['version']}",
                      f"{statistics.median(run['seconds'] for run in runs):.2f} s", process,
                      "" if name == "selfheal" else f"**{ratio:.1f}**", f"{100 * runs[0]['robust']:.1f} %"])
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=pathlib.Path, required=True)
    parser.add_argument("--suite", action="append", required=True, metavar="NAME", help="may be repeated")
    parser.add_argument("--model", action="append", default=[], metavar="NAME", help="only this model; may be repeated")
    parser.add_argument("--images", type=int, default=200, help="the first N of the data set (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="default %(default)s")
    parser.add_argument("--python", default=sys.executable, help="interpreter with the libraries (default: this one)")
    parser.add_argument("--out", type=pathlib.Path, help="document to write the table into (default: print it)")
    arguments = parser.parse_args()
    cores, load = sorted(os.sched_getaffinity(0)), os.getloadavg()[0]
    lines, torch = [], ""
    try:
        cases, _ = read_cases(arguments.config, arguments.suite, arguments.model)
        with tempfile.TemporaryDirectory(prefix="selfheal-bench-") as folder:
            bench = Peers(built(folder), arguments.python, None, cores, arguments.images)
            for case in (case for case in cases if case.norm == "linf"):
                say(f"{case.model}, {case.epsilon}, {bench.count(case)} images")
                sides = measure(bench, case, arguments.rounds)
                torch = sides["Foolbox"][0]["torch"]
                lines += rows(case, sides, bench.count(case))
    except (Failed, subprocess.CalledProcessError) as problem:
        sys.exit(f"peers.py: error: {problem}")
    text = (f"Measured {datetime.date.today().isoformat()} on {processor()}, {plural(len(cores), 'core')}, whose load was "
            f"{load:.1f} before the start; PyTorch {torch.split('+')[0]}; medians of {arguments.rounds} rounds. PGD, {STEPS} "
            f"steps of ε/10, one random start, ℓ∞.\n\n"
            + documents.table(["network", "ε", "images", "program", "attack", "process", "÷ ours", "accuracy left"], lines))
    if load > BUSY:
        say(f"warning: the machine is busy, its load is {load:.1f}")
    published(text, arguments.out, "peers")


if __name__ == "__main__":
    main()
