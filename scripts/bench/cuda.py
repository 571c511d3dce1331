#!/usr/bin/env python3
"""Measures selfheal on a GPU of NVIDIA's, beside the CPU and beside PyTorch on the same GPU, in one go.

    python3 scripts/bench/cuda.py --config ../shared/real/config.yaml --suite real --suite standard \\
        --reference /path/to/auto-attack [--wheels DIR] [--minutes 30] [--out cuda-results]

The parts, each of which --skip leaves out:

- doctor: `selfheal doctor` on every model: gradients and logits of the device against the CPU provider's;
- agreement: AutoAttack of every case on the CPU and on the device, in every precision: verdicts that agree, and the
  share of the time in which the device computes, as nvidia-smi samples it;
- gradient: seconds of a gradient step at each batch, beside PyTorch's;
- reference: the reference AutoAttack on the same cases and the same device.

What is measured is written to OUT/results.json and OUT/tables.md after each step. The same command goes on where it
was stopped; a step that failed is tried again. With --wheels nothing is downloaded: pip takes the packages from that
folder, those that selfheal names where it fetches them. --provider cpu rehearses it all on the CPU. The interpreter needs PyTorch, onnx and
PyYAML; --selfheal and --bench give the two programs where there is no Go.
"""

import argparse
import collections
import fractions
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

from bench.autoattack import Bench, plural, read_cases, reference_version, say
from bench.pytorch import NETWORKS, Side, processor, this_script
from verify import documents
from verify.verification import Failed

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ("doctor", "agreement", "gradient", "reference")
STEPS = ("rn-18", "wrn-28-8")  # networks of the gradient step
SAMPLE = 200  # milliseconds between samples of nvidia-smi

Step = collections.namedtuple("Step", "part name work")


# ------------------------------------------------------------------ how busy the device is

class Watch:
    """Samples how busy a device is while a block runs; where there is no nvidia-smi it has no samples."""

    def __init__(self, device):
        self.command = ["nvidia-smi", "-i", str(device), "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits",
                        "-lms", str(SAMPLE)]
        self.process, self.busy = None, None

    def __enter__(self):
        if shutil.which(self.command[0]):
            self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.terminate()
            self.busy = share(self.process.communicate()[0])


def share(lines):
    """The mean of samples in per cent, one a line, from the first to the last at which the device computed, or None."""
    samples = [int(line) for line in lines.split() if line.isdigit()]
    working = [i for i, sample in enumerate(samples) if sample]
    return statistics.mean(samples[working[0]:working[-1] + 1]) / 100 if working else None


# ------------------------------------------------------------------ the steps

class Device(Bench):
    """The two sides on a device."""

    def __init__(self, arguments, program, bench):
        super().__init__(program, arguments.python, arguments.reference and arguments.reference.resolve(),
                         sorted(os.sched_getaffinity(0)), arguments.images)
        self.workers, self.bench = [], bench
        self.provider, self.device = arguments.provider, arguments.device
        self.place = f"cuda:{self.device}" if self.provider == "cuda" else "cpu"  # as PyTorch says it

    def run(self, case, provider, precision):
        """AutoAttack by selfheal."""
        runtime = {"provider": provider}
        if provider == "cuda":
            runtime.update(device=self.device, precision=precision)
        with Watch(self.device) as watch:
            found = self.selfheal_attack(case._replace(settings=[*case.settings, f"runtime={json.dumps(runtime)}"]), "full")
        return {**found, "busy": watch.busy if provider == "cuda" else None}

    def reference_run(self, case, precision):
        with Watch(self.device) as watch:
            found = self.torch(case, "attack", norm=case.norm, epsilon=epsilon(case), seed=case.seed, device=self.place,
                               tf32=precision == "tf32")
        return {**found, "busy": watch.busy}

    def doctor(self, case):
        command = [self.selfheal, "doctor", case.file, "--provider", self.provider]
        for flag, values in (("--mean", case.mean), ("--std", case.std)):
            if values is not None:
                command += [flag, ",".join(map(str, values if isinstance(values, list) else [values]))]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise Failed((done.stderr.strip() or done.stdout).splitlines()[-1])
        return {"said": done.stdout.splitlines()}

    def gradient(self, model, name, batch, precision, rounds):
        """Medians of seconds of a gradient step, ours and PyTorch's, taking turns."""
        sides = [Side([self.bench, "--model", str(model), "--batch", str(batch), "--threads", str(len(self.cores)),
                       "--provider", self.provider, "--precision", precision], self.cores)]
        try:
            tf32 = ["--tf32"] if precision == "tf32" else []
            there = this_script(self.python, "--worker", name, "--batch", batch, "--threads", len(self.cores),
                                "--device", self.place, *tf32)
            there[1] = str(ROOT / "scripts" / "bench" / "pytorch.py")
            sides.append(Side(there, self.cores))
            times = [[side.ask("gradient") for side in sides] for _ in range(rounds)]
        finally:
            for side in sides:
                side.close()
        ours, theirs = (statistics.median(column) for column in zip(*times))
        return {"seconds": ours, "pytorch": theirs, "versions": [side.version for side in sides]}


def epsilon(case):
    return float(fractions.Fraction(case.epsilon))


def label(case):
    return f"{case.model} {case.norm} {case.epsilon}"


def steps(device, cases, arguments, models):
    """All steps, the shortest parts first."""
    precisions = arguments.precisions if device.provider == "cuda" else ["f32"]
    plan = [Step("doctor", case.model, lambda case=case: device.doctor(case))
            for case in {case.model: case for case in cases}.values()]
    for name in STEPS:
        plan += [Step("gradient", f"{name} {batch} {precision}",
                      lambda a=(name, batch, precision): device.gradient(models(a[0]), *a, arguments.rounds))
                 for batch in arguments.batches for precision in precisions]
    for case in cases:
        plan += [Step("agreement", f"{label(case)} {device.provider} {precision}",
                      lambda a=(case, device.provider, precision): device.run(*a)) for precision in precisions]
        if device.provider != "cpu":
            plan.append(Step("agreement", f"{label(case)} cpu f32", lambda case=case: device.run(case, "cpu", "f32")))
        if arguments.reference:
            plan += [Step("reference", f"{label(case)} {precision}",
                          lambda a=(case, precision): device.reference_run(*a)) for precision in precisions]
    return [step for step in plan if step.part not in arguments.skip]


def execute(plan, results, deadline, written, now=time.monotonic):
    """Do what is not in results yet, as long as there is time; written() is called after each step."""
    for step in plan:
        done = results["steps"].setdefault(step.part, {})
        if step.name in done and "error" not in done[step.name]:
            continue
        if now() >= deadline:
            done[step.name] = {"error": "the time was over"}
            continue
        start = now()
        try:
            done[step.name] = step.work()
        except (Failed, OSError, ValueError, SystemExit, subprocess.CalledProcessError) as problem:
            done[step.name] = {"error": str(problem)}
        say(f"{step.part}, {step.name}: {done[step.name].get('error', 'done')} ({now() - start:.0f} s)")
        written()
    written()


# ------------------------------------------------------------------ tables

def seconds(value):
    return "–" if value is None else f"{value:.2f} s" if value >= 1 else f"{1000 * value:.1f} ms"


def percent(value):
    return "–" if value is None else f"{100 * value:.1f} %"


def agreement(ours, theirs):
    """The share of images with the same verdict, None where a side is missing."""
    if not ours or not theirs or "flags" not in ours or "flags" not in theirs:
        return None
    return statistics.mean(a == b for a, b in zip(ours["flags"], theirs["flags"], strict=True))


def tables(results):
    """Markdown of what is there."""
    found, provider = results["steps"], results["provider"]
    parts = [results["about"]]
    if rows := found.get("gradient"):
        lines = []
        for name, row in rows.items():
            network, batch, precision = name.split()
            ours, theirs = row.get("seconds"), row.get("pytorch")
            lines.append([NETWORKS[network], batch, precision, seconds(ours), seconds(theirs),
                          f"**{theirs / ours:.2f}**" if ours else row["error"]])
        parts += ["A gradient step:", documents.table(["network", "batch", "precision", "selfheal", "PyTorch", "÷ ours"], lines)]
    if rows := found.get("agreement"):
        lines = []
        for name, row in rows.items():
            case, where, precision = name.rsplit(" ", 2)
            if where != provider:
                continue
            if "error" in row:
                lines.append([case, precision, row["error"], *["–"] * 7])
                continue
            here = rows.get(f"{case} cpu f32")
            theirs = found.get("reference", {}).get(f"{case} {precision}", {})
            lines.append([case, precision, seconds(row["seconds"]), seconds(row["process"]), percent(row["busy"]),
                          percent(row["robust"]), percent(agreement(row, here)), seconds(theirs.get("seconds")),
                          f"**{theirs['seconds'] / row['seconds']:.1f}**" if "seconds" in theirs else theirs.get("error", "–"),
                          percent(agreement(row, theirs))])
        parts += ["AutoAttack, version standard, at full strength:", documents.table(
            ["case", "precision", "selfheal", "process", "device busy", "robust", "verdicts as on the CPU", "reference",
             "÷ ours", "verdicts as the reference"], lines)]
    if rows := found.get("doctor"):
        parts.append("`selfheal doctor`:\n\n" + "\n".join(
            f"- {name}: " + row.get("error", "all checks passed") for name, row in rows.items()))
    return "\n\n".join(parts) + "\n"


# ------------------------------------------------------------------ the command

def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", required=True, help="of selfheal, with AutoAttack, version standard, in its suites")
    parser.add_argument("--suite", action="append", required=True)
    parser.add_argument("--norm", action="append", choices=["linf", "l2", "l1"], help="default: all of the suites")
    parser.add_argument("--reference", type=pathlib.Path, metavar="DIR", help="checkout of auto-attack (default: part left out)")
    parser.add_argument("--wheels", type=pathlib.Path, metavar="DIR", help="where pip finds packages, instead of the network")
    parser.add_argument("--provider", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--precisions", nargs="+", choices=["f32", "tf32"], default=["f32", "tf32"])
    parser.add_argument("--images", type=int, default=200, help="the first N of the data set (default %(default)s)")
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 128, 256, 512], help="of the gradient step")
    parser.add_argument("--rounds", type=int, default=15, help="of the gradient step (default %(default)s)")
    parser.add_argument("--minutes", type=float, default=60, help="no step begins later (default %(default)s)")
    parser.add_argument("--skip", nargs="+", choices=PARTS, default=[])
    parser.add_argument("--python", default=sys.executable, help="interpreter with PyTorch and onnx (default: this one)")
    parser.add_argument("--selfheal", metavar="FILE", help="the built program (default: built by go build)")
    parser.add_argument("--bench", metavar="FILE", help="scripts/bench/passes, built (default: built by go build)")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("cuda-results"))
    return parser.parse_args(arguments)


def offline(wheels, environment):
    """Have pip take packages from a folder alone, and npm none."""
    if wheels:
        environment.update(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(wheels.resolve()), npm_config_offline="true")


def about(arguments):
    gpu = "no GPU"
    if shutil.which("nvidia-smi"):
        gpu = subprocess.run(["nvidia-smi", "-i", str(arguments.device), "--query-gpu=name,driver_version,memory.total",
                              "--format=csv,noheader"], capture_output=True, text=True).stdout.strip() or gpu
    reference = f"; {reference_version(arguments.reference.resolve())}" if arguments.reference else ""
    cores = plural(len(os.sched_getaffinity(0)), "core")
    return (f"Provider {arguments.provider}, {gpu}; {processor()}, {cores}; load {os.getloadavg()[0]:.1f} at the start"
            f"{reference}; {arguments.images} images.")


def main(arguments=None):
    arguments = parse(arguments)
    offline(arguments.wheels, os.environ)
    arguments.out.mkdir(parents=True, exist_ok=True)
    file = arguments.out / "results.json"
    results = {"provider": arguments.provider, "images": arguments.images, "about": about(arguments), "steps": {}}
    if file.exists():
        before = json.loads(file.read_text(encoding="utf-8"))
        if any(before[key] != results[key] for key in ("provider", "images")):
            sys.exit(f"cuda.py: error: {file} is of provider {before['provider']} and {before['images']} images; "
                     "give another --out")
        results = before

    def written():
        file.write_text(json.dumps(results, indent=1), encoding="utf-8")
        (arguments.out / "tables.md").write_text(tables(results), encoding="utf-8")

    try:
        cases, left_out = read_cases(arguments.config, arguments.suite)
        cases = [case for case in cases if not arguments.norm or case.norm in arguments.norm]
        say(*left_out)
        with tempfile.TemporaryDirectory(prefix="selfheal-cuda-") as folder:
            programs = {"selfheal": ".", "bench": "./scripts/bench/passes"}
            for name, package in programs.items():
                if not getattr(arguments, name):
                    setattr(arguments, name, str(pathlib.Path(folder) / name))
                    subprocess.run(["go", "build", "-C", str(ROOT), "-o", getattr(arguments, name), package], check=True)

            def models(name):
                path = pathlib.Path(folder) / f"{name}.onnx"
                if not path.exists():
                    script = str(ROOT / "scripts" / "bench" / "pytorch.py")
                    subprocess.run([arguments.python, script, "--worker", name, "--export", str(path)], check=True)
                return path

            device = Device(arguments, arguments.selfheal, arguments.bench)
            plan = steps(device, cases, arguments, models)
            execute(plan, results, time.monotonic() + 60 * arguments.minutes, written)
    except (Failed, subprocess.CalledProcessError) as problem:
        sys.exit(f"cuda.py: error: {problem}")
    print(tables(results))
    failed = sum("error" in row for part in results["steps"].values() for row in part.values())
    sys.exit(f"{plural(failed, 'step')} failed or had no time; the same command tries again" if failed else None)


if __name__ == "__main__":
    main()
