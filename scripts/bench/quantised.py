#!/usr/bin/env python3
"""Times a network beside its quantised forms and writes the table "quantised" of docs/measured/performance.md.

    python3 scripts/bench/quantised.py quantised/model.onnx:quantised/model-*.onnx ... --out docs/measured/performance.md

Each argument is a network and, behind a colon, its forms. Judging is the file's answer to one image; a gradient is that
of the opened network with the file's answer, as attacks take it. Each file has a process of its own on the same cores,
and they take turns: a cell is the median over the rounds of the seconds of a batch, an image, and behind it the median
ratio to the network's own in the same round.
"""

import argparse
import datetime
import glob
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

from bench.pytorch import PASSES, PAUSE, ROOT, Side, ours, processor
from verify import documents

HEADER = ["network", "judging an image", "÷ float32", "a gradient with the file's answer", "÷ float32"]


def measure(bench, files, batch, threads, rounds):
    """For each file the cells of its row."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    sides = [Side(ours(bench, file, batch, threads), cores) for file in files]
    rows = [[pathlib.Path(file).stem] for file in files]
    for which in PASSES:
        times = []
        for _ in range(rounds):
            times.append([])
            for side in sides:
                time.sleep(PAUSE)
                times[-1].append(side.ask(which) / batch)
        for i, row in enumerate(rows):
            row.append(f"{1000 * statistics.median(t[i] for t in times):.2f} ms")
            row.append(f"{statistics.median(t[i] / t[0] for t in times):.2f}" if i else "")
    version = sides[0].version
    for side in sides:
        side.close()
    return rows, version


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="+", metavar="MODEL:FORMS")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", metavar="FILE", help="document whose table to bring up to date (default: printed)")
    arguments = parser.parse_args()
    load, rows = os.getloadavg()[0], []
    with tempfile.TemporaryDirectory() as scratch:
        bench = os.path.join(scratch, "bench")
        subprocess.run(["go", "build", "-o", bench, "./scripts/bench/passes"], cwd=ROOT, check=True)
        for network in arguments.networks:
            model, _, forms = network.partition(":")
            found, version = measure(bench, [model, *sorted(glob.glob(forms))], arguments.batch, arguments.threads, arguments.rounds)
            rows += found
    text = (f"Measured {datetime.date.today()} on {processor()}, {arguments.threads} cores, whose load was {load:.1f} before the start; "
            f"ONNX Runtime {version}; batches of {arguments.batch}; medians of {arguments.rounds} rounds.\n\n" + documents.table(HEADER, rows))
    print(text)
    if arguments.out:
        documents.replace_block(arguments.out, "quantised", text)


if __name__ == "__main__":
    main()
