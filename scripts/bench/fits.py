#!/usr/bin/env python3
"""Times a training step of `selfheal fit` beside PyTorch's: the table "fits" of docs/measured/performance.md.

    python3 scripts/bench/fits.py --network resnet20.onnx --folder cifar-10-batches-bin \\
        --mean 0.485 0.456 0.406 --std 0.229 0.224 0.225 [--rounds 5] [--out docs/measured/performance.md]

Both train a `unet` through the frozen network on the same batches of 128 images: by the clean objective at width 16, and by
fast adversarial training (l-inf 8/255) at width 32. Both compute in float32 and in bf16, selfheal by OpenVINO. PyTorch is
scripts/zoo/fit.py, eager and channels last. All are held to the same cores and take turns, each in a process of its own. A step's time is the mean over an epoch of
--steps steps, without the first one. The interpreter needs PyTorch and onnx.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

from bench.autoattack import BUSY, Bench, built, plural, processor, published, say
from verify import documents
from verify.verification import Failed

ROOT = pathlib.Path(__file__).resolve().parents[2]
BATCH = 128
CONFIG = """
version: 1
runtime: {runtime}
datasets: {{train: {{format: cifar10-bin, path: {folder}, split: train, limit: {images}}}}}
models: {{net: {{path: {network}{preprocess}}}}}
controls:
  front:
    solver: {{method: greedy}}
    layers:
      - at: input
        embedding: {{kind: autoencoder, architecture: unet, width: {width}, fit: train, path: front.onnx, epochs: 1,
                    batch: {batch}, held_out: 0, augment: {{flip: true}}, models: [net]{objective}}}
"""
# Width, objective for selfheal, and for fit.py.
CASES = {
    "clean, width 16": (16, "", []),
    "adversarial, width 32": (32, ", objective: {kind: adversarial, norm: linf, epsilon: 8/255}",
                              ["--objective", "adversarial", "--norm", "linf"]),
}
SIDES = ("selfheal", "selfheal bf16", "PyTorch float32", "PyTorch bf16")


class Fits(Bench):
    def __init__(self, program, arguments, cores):
        super().__init__(program, arguments.python, None, cores, BATCH * arguments.steps)
        self.arguments = arguments

    def step(self, case, side):
        """Seconds of a step."""
        with tempfile.TemporaryDirectory(prefix="selfheal-bench-") as folder:
            return (self.ours_of if side in SIDES[:2] else self.torch_of)(CASES[case], side, pathlib.Path(folder))

    def ours_of(self, case, side, folder):
        width, objective, _ = case
        a = self.arguments
        preprocess = f", preprocess: {{mean: {a.mean}, std: {a.std}}}" if a.mean else ""
        (folder / "config.yaml").write_text(CONFIG.format(
            runtime="{provider: openvino, precision: bf16}" if side.endswith("bf16") else "{}", folder=a.folder.resolve(), images=self.images, network=a.network.resolve(), preprocess=preprocess, width=width,
            batch=BATCH, objective=objective))
        command = [self.selfheal, "fit", "--config", folder / "config.yaml", "--control", "front", *self.workers,
                   "--log-format", "json", "--log-every", "10ms"]
        with open(folder / "log", "w") as log:
            try:
                self._run([str(word) for word in command], stderr=log)
            except Failed as failed:
                raise Failed(f"{failed}: {(folder / 'log').read_text().strip().splitlines()[-1]}") from None
        records = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
        made = {record["step"]: datetime.datetime.fromisoformat(record["time"]) for record in records
                if record["msg"] == "training progress"}
        first, last = min(made), max(made)
        return (made[last] - made[first]).total_seconds() / (last - first)

    def torch_of(self, case, side, folder):
        width, _, objective = case
        a = self.arguments
        normalised = ["--mean", *a.mean, "--std", *a.std] if a.mean else []
        command = [self.python, ROOT / "scripts" / "zoo" / "fit.py", "--architecture", "unet", "--width", width, "--data", "cifar10",
                   "--folder", a.folder, "--models", a.network, *normalised, "--limit-train", self.images, "--batch", BATCH,
                   "--epochs", 2, "--weight", 0.1, "--reconstruction", "sum", "--optimizer", "adam", "--rate", 0.001, "--flip",
                   "--schedule", "constant", "--precision", "bf16" if side.endswith("bf16") else "f32", *objective,
                   "--out", folder / "out"]
        self._run([str(word) for word in command], env={**os.environ, "OMP_NUM_THREADS": str(len(self.cores))})
        entries = [json.loads(line) for line in (folder / "out" / "log.jsonl").read_text().splitlines()]
        return entries[-1]["seconds"] / a.steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", type=pathlib.Path, required=True, help="an ONNX classifier")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="CIFAR-10's binary files")
    parser.add_argument("--mean", type=float, nargs="+", help="of the network's images")
    parser.add_argument("--std", type=float, nargs="+", help="and their standard deviation")
    parser.add_argument("--steps", type=int, default=40, help="of an epoch (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="default %(default)s")
    parser.add_argument("--python", default=sys.executable, help="interpreter with PyTorch (default: this one)")
    parser.add_argument("--out", type=pathlib.Path, help="document to write the table into (default: print it)")
    arguments = parser.parse_args()
    cores, load = sorted(os.sched_getaffinity(0)), os.getloadavg()[0]
    lines = []
    try:
        with tempfile.TemporaryDirectory(prefix="selfheal-bench-") as folder:
            bench = Fits(built(folder), arguments, cores)
            for case in CASES:
                times = {side: [] for side in SIDES}
                for number in range(arguments.rounds):
                    for side, measured in times.items():
                        measured.append(bench.step(case, side))
                        say(f"  {case}, round {number + 1}, {side}: {measured[-1]:.3f} s a step")
                for side, measured in times.items():
                    ratios = [statistics.median(t / ours for t, ours in zip(measured, times[of])) for of in SIDES[:2]]
                    lines.append([case, side, f"{statistics.median(measured):.3f} s", *(f"{ratio:.2f}" for ratio in ratios)])
    except (Failed, subprocess.CalledProcessError) as problem:
        sys.exit(f"fits.py: error: {problem}")
    text = (f"Measured {datetime.date.today().isoformat()} on {processor()}, {plural(len(cores), 'core')}, whose load was "
            f"{load:.1f} before the start; medians of {arguments.rounds} rounds of {arguments.steps} steps of {BATCH} images "
            f"through {arguments.network.stem}.\n\n" + documents.table(["objective", "program", "step", "÷ selfheal", "÷ selfheal bf16"], lines))
    if load > BUSY:
        say(f"warning: the machine is busy, its load is {load:.1f}")
    published(text, arguments.out, "fits")


if __name__ == "__main__":
    main()
