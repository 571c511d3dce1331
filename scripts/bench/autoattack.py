#!/usr/bin/env python3
"""Runs the reference AutoAttack under PyTorch and selfheal on the same cases and compares times and verdicts.

    python3 scripts/bench/autoattack.py --reference /path/to/auto-attack --config config.yaml --suite bundled \\
        [--images 200] [--cores 2] [--rounds 1] [--out docs/measured/performance.md]

A case is a model and an attack (AutoAttack, version standard) of a suite of a selfheal config, so that network,
images, normalisation, norm, epsilon and seed are the same by construction; the suite's controls are left out. Before
anything is timed, the margins of all images in PyTorch are held against selfheal's. In every round the two sides take
turns, each in a process of its own, held to the same cores:

- AutoAttack in one call (reference_attack.py), with as many threads as cores;
- `selfheal run` at full strength, every component at its full length on each image that still stands, adversarial
  images saved;
- `selfheal run` for verdicts alone, where an image is dropped at its first success;
- with `--modes bf16` at full strength in bf16 by OpenVINO, on a processor that has it.

Compared is the time inside the attacks, without start-up; the column *process* is the whole `selfheal run`. Figures
are medians over the rounds. --reference-results takes AutoAttack's side from a file, one that --json has written or
another of the same form: {MODEL FILE'S STEM: {NORM: {epsilon, n, clean, steps, robust, seconds, flags}}}.
"""

import argparse
import collections
import datetime
import fractions
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

from bench.pytorch import processor
from verify import documents
from verify.verification import Failed

ROOT = pathlib.Path(__file__).resolve().parents[2]
MARGINS_BOUND = 1e-4  # on max |m - m_selfheal| / max |m_selfheal|
BUSY = 0.3  # load average from which the machine does something else; two threads of PyTorch then wait for each other
MODES = {"full": "full strength", "verdict": "verdict-only", "bf16": "full strength in bf16"}
OPTIONS = {"bf16": ["--provider", "openvino", "--precision", "bf16"]}  # of `selfheal run`, by mode
PLAIN = {"kind", "version", "norm", "epsilon"}  # keys of an attack that is AutoAttack as published


# ------------------------------------------------------------------ cases

Case = collections.namedtuple("Case", "config suite model attack epsilon settings file mean std dataset norm seed")
Case.__doc__ = """A model and an attack. `epsilon` is text as the config has it; `settings` are --set arguments."""


def read_cases(config, suites, models=(), attacks=()):
    """The cases of a config's suites, and lines that say which attacks are left out."""
    import yaml
    config = pathlib.Path(config).resolve()
    tree = yaml.safe_load(config.read_text(encoding="utf-8"))
    cases, left_out = [], {}
    for suite_name in suites:
        suite = named(tree, "suites", suite_name)
        dataset = dict(named(tree, "datasets", suite["dataset"]))
        dataset["path"] = str(config.parent / dataset["path"])
        for model_name in suite["models"]:
            model = named(tree, "models", model_name)
            if model.get("output", "logits") != "logits":
                raise Failed(f"model {model_name} gives {model['output']}: AutoAttack needs logits")
            prepare = model.get("preprocess") or {}
            for attack_name in suite["attacks"]:
                if attack_name == "none" or (models and model_name not in models) or (attacks and attack_name not in attacks):
                    continue
                attack = named(tree, "attacks", attack_name)
                if (attack.get("kind"), attack.get("version", "standard")) != ("autoattack", "standard") or set(attack) - PLAIN:
                    left_out[attack_name] = f"attack {attack_name} is left out: not AutoAttack, version standard, as published"
                    continue
                epsilons = attack["epsilon"] if isinstance(attack["epsilon"], list) else [attack["epsilon"]]
                for epsilon in map(str, epsilons):
                    settings = [f"attacks.{attack_name}.epsilon={epsilon}"] if len(epsilons) > 1 else []
                    cases.append(Case(str(config), suite_name, model_name, attack_name, epsilon, settings,
                                      str(config.parent / model["path"]), prepare.get("mean"), prepare.get("std"),
                                      dataset, attack["norm"], tree.get("seed", 0)))
    if not cases:
        raise Failed("the suites have no case with AutoAttack, version standard")
    return cases, list(left_out.values())


def named(tree, section, name):
    try:
        return tree[section][name]
    except (KeyError, TypeError) as problem:
        raise Failed(f"the config has no {section}.{name}") from problem


# ------------------------------------------------------------------ the two sides

class Bench:
    """What all runs share: programs, cores, number of images."""

    def __init__(self, selfheal, python, reference, cores, images):
        self.selfheal, self.python, self.reference, self.cores, self.images = selfheal, python, reference, cores, images
        self.workers = ["--workers", str(len(cores))]
        self.versions = {}  # of what took part

    def _run(self, command, **options):
        """Standard output and seconds of a command held to the cores."""
        start = time.perf_counter()
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True,
                              preexec_fn=lambda: os.sched_setaffinity(0, self.cores), **options)
        seconds = time.perf_counter() - start
        if done.returncode != 0:
            reason = (done.stderr or "").strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
            raise Failed(f"{' '.join(map(str, command[:2]))}: {reason[0]}")
        return done.stdout, seconds

    def torch(self, case, do, **more):
        """An answer of reference_attack.py."""
        job = {"do": do, "model": case.file, "mean": case.mean, "std": case.std, "dataset": case.dataset,
               "images": self.count(case), "threads": len(self.cores), **more}
        path = os.pathsep.join(filter(None, [self.reference and str(self.reference), os.environ.get("PYTHONPATH")]))
        answer, _ = self._run([self.python, str(ROOT / "scripts" / "bench" / "reference_attack.py")], input=json.dumps(job),
                              env={**os.environ, "PYTHONPATH": path})
        return json.loads(answer)

    def autoattack(self, case):
        return self.torch(case, "attack", norm=case.norm, epsilon=float(fractions.Fraction(case.epsilon)), seed=case.seed)

    def count(self, case):
        """Images of a case, at most: the data set's limit and --images."""
        return min(self.images, case.dataset.get("limit") or self.images)

    def ours(self, case, attacks, mode, folder):
        """results.json of a run of selfheal, and the seconds of its process; `folder` gets what it writes."""
        settings = {"models": [case.model], "controls": [], "attacks": attacks, "mode": "oblivious",
                    "save_adversarial": mode != "verdict"}
        sets = [*case.settings, *(f"suites.{case.suite}.{key}={json.dumps(value)}" for key, value in settings.items())]
        _, seconds = self._run(
            [self.selfheal, "run", "--config", case.config, "--suite", case.suite, "--out", folder, "--quiet",
             "--limit", str(self.images), *self.workers, *OPTIONS.get(mode, []),
             *(f"--set={s}" for s in sets)],
            stderr=subprocess.PIPE)
        results = json.loads((pathlib.Path(folder) / "results.json").read_text(encoding="utf-8"))
        made = results["environment"]
        self.versions["selfheal"] = made["selfheal"]
        runtime = made["onnxruntime"] + (" (bf16)" if mode == "bf16" else "")
        if runtime not in self.versions.setdefault("onnxruntime", []):
            self.versions["onnxruntime"].append(runtime)
        return results, seconds

    def selfheal_attack(self, case, mode):
        with tempfile.TemporaryDirectory(prefix="selfheal-bench-") as folder:
            results, process = self.ours(case, [case.attack], mode, folder)
        cells = {cell["attack"]: cell for cell in results["cells"]}
        cell = cells[case.attack]
        if cell.get("verdict_only", False) != (mode == "verdict"):
            raise Failed("this selfheal has no verdict-only mode: use --modes full" if mode == "verdict"
                         else "selfheal ran for verdicts alone although adversarial images were to be saved")
        return {"clean": cells["none"]["accuracy"], "steps": cell["steps"], "robust": cell["accuracy"],
                "flags": cell["verdicts"], "seconds": sum(step["seconds"] for step in cell["steps"]), "process": process}

    def check_margins(self, case):
        """The largest difference of the two sides' clean margins relative to the largest margin; Failed above the bound."""
        with tempfile.TemporaryDirectory(prefix="selfheal-bench-") as folder:
            self.ours(case, [], "full", folder)
            with open(pathlib.Path(folder) / "records.jsonl", encoding="utf-8") as lines:
                ours = {record["image"]: record["margin"] for record in map(json.loads, lines)}
        answer = self.torch(case, "margins")
        self.versions["torch"] = answer["torch"]
        theirs = {int(image): margin for image, margin in answer["margins"].items()}
        if ours.keys() != theirs.keys():
            raise Failed(f"{case.model}: the sides do not see the same images")
        difference = max(abs(theirs[image] - ours[image]) for image in ours) / max(map(abs, ours.values()))
        if not difference <= MARGINS_BOUND:  # nor where it is not a number
            raise Failed(f"{case.model}: margins in PyTorch differ from selfheal's by {difference:.1e} of the largest one")
        return difference


def recorded(results, case, images):
    """AutoAttack's run of a case in recorded results."""
    for norm, run in results.get(pathlib.Path(case.file).stem, {}).items():
        if norm.split()[0] == case.norm and fractions.Fraction(run["epsilon"]) == fractions.Fraction(case.epsilon):
            if run["n"] != images:
                raise Failed(f"{case.model}, {norm}: the recorded results are of {run['n']} images, not {images}")
            return run
    raise Failed(f"{case.model}: no recorded results with {case.norm} {case.epsilon}")


# ------------------------------------------------------------------ tables

class Measured:
    """A case with each side's runs, one a round: "reference", "full", "verdict"."""

    def __init__(self, case, sides):
        self.case, self.sides = case, sides

    def median(self, side, key="seconds"):
        return statistics.median(run[key] for run in self.sides[side])

    def ratio(self, side):
        """Median over the rounds of AutoAttack's seconds divided by ours; a recorded run counts for every round."""
        runs, reference = self.sides[side], self.sides["reference"]
        if len(reference) == 1:
            reference = reference * len(runs)
        return statistics.median(r["seconds"] / run["seconds"] for r, run in zip(reference, runs))

    def differing(self, side):
        """Positions in the data set whose verdicts differ, in the first round (the others repeat its seed)."""
        pairs = zip(self.sides["reference"][0]["flags"], self.sides[side][0]["flags"], strict=True)
        return [position for position, (theirs, ours) in enumerate(pairs) if theirs != ours]


def speed_table(rows, mode):
    lines = []
    for row in rows:
        n = len(row.sides[mode][0]["flags"])
        lines.append([row.case.model, row.case.norm, row.case.epsilon, f"{row.median('reference'):.1f} s",
                      f"{row.median(mode):.2f} s", f"**{row.ratio(mode):.1f}**", f"{row.median(mode, 'process'):.2f} s",
                      f"{n - len(row.differing(mode))} of {n}"])
    return documents.table(["model", "norm", "ε", "AutoAttack", "selfheal", "÷ ours", "process", "same verdicts"], lines)


def report(rows, modes, about):
    """The generated part of docs/measured/performance.md; `about` says what was run on what."""
    titles = {"full": "Full strength:", "verdict": "Verdict-only, against the same runs of AutoAttack, which has no such mode:",
              "bf16": "Full strength in bf16, verdicts in float32 (*process* includes the sample that is attacked again in "
                      "float32), against the same runs of AutoAttack in float32:"}
    parts = [about]
    for mode in modes:
        parts += [titles[mode], speed_table(rows, mode)]
    differing = [f"- {row.case.model}, {row.case.norm} {row.case.epsilon}, {MODES[mode]}: "
                 + ", ".join(map(str, row.differing(mode))) for row in rows for mode in modes if row.differing(mode)]
    if differing:
        parts.append("Images, by position in the data set from 0, with another verdict:\n\n" + "\n".join(differing))
    return "\n\n".join(parts)


def plural(count, word):
    return f"{count} {word}" + ("" if count == 1 else "s")


def about(bench, rounds, difference, reference, source, load):
    """The sentences above the tables. `source`: the file that AutoAttack's side comes from, None where it ran."""
    versions = bench.versions
    theirs = (f"AutoAttack as recorded in {source['recorded in']}" if source is not None
              else f"{reference} under PyTorch {versions['torch'].split('+')[0]}")
    text = (f"Measured {datetime.date.today().isoformat()} on {processor()}, {plural(len(bench.cores), 'core')}; {theirs}; "
            f"selfheal {versions['selfheal']} with ONNX Runtime {' and '.join(versions['onnxruntime'])}; "
            f"{'one round' if rounds == 1 else f'medians of {rounds} rounds'}. "
            f"Clean margins differ by at most {difference:.0e} of the largest.")
    if load > BUSY:
        text += f" The machine was not idle: the load was {load:.1f} before the start."
    if source is None:
        return text
    return text + f" AutoAttack was not run here{': ' + source['what'] if source['what'] else '.'}"


def reference_version(folder):
    """AutoAttack and the commit of its checkout, where git knows it."""
    if not (folder / ".git").exists():  # another repository may lie around it
        return "AutoAttack"
    done = subprocess.run(["git", "-C", str(folder), "rev-parse", "--short=9", "HEAD"], capture_output=True, text=True)
    return f"AutoAttack {done.stdout.strip()}" if done.returncode == 0 else "AutoAttack"


def as_json(rows, text):
    """The measurements in the form that --reference-results reads; ours stand beside AutoAttack's."""
    file = {"what": text}
    for row in rows:
        norms = file.setdefault(pathlib.Path(row.case.file).stem, {})
        first = row.sides["reference"][0]
        key = row.case.norm if row.case.norm not in norms else f"{row.case.norm} {row.case.epsilon}"
        norms[key] = {
            **first, "epsilon": row.case.epsilon, "n": len(first["flags"]), "seconds": row.median("reference"),
            "seconds_each_round": [run["seconds"] for run in row.sides["reference"]],
            "selfheal": {mode: row.sides[mode] for mode in MODES if mode in row.sides}}
    return file


# ------------------------------------------------------------------ the command

def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=pathlib.Path, default=ROOT / "config.yaml", help="a selfheal config (default: the bundled one)")
    parser.add_argument("--suite", action="append", required=True, metavar="NAME", help="may be repeated")
    parser.add_argument("--model", action="append", default=[], metavar="NAME", help="only this model; may be repeated")
    parser.add_argument("--attack", action="append", default=[], metavar="NAME", help="only this attack; may be repeated")
    side = parser.add_mutually_exclusive_group(required=True)
    side.add_argument("--reference", type=pathlib.Path, metavar="DIR", help="a checkout of fra31/auto-attack")
    side.add_argument("--reference-results", type=pathlib.Path, metavar="FILE", help="recorded results instead of running it")
    parser.add_argument("--images", type=int, default=200, help="the first N of the data set (default %(default)s)")
    parser.add_argument("--cores", type=int, help="cores, threads and workers of both sides (default: all)")
    parser.add_argument("--rounds", type=int, default=1, help="default %(default)s")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=["full", "verdict"],
                        help="how selfheal runs (default: %(default)s)")
    parser.add_argument("--python", default=sys.executable, help="interpreter with PyTorch and onnx (default: this one)")
    parser.add_argument("--selfheal", metavar="FILE", help="the built program (default: built by go build)")
    parser.add_argument("--out", type=pathlib.Path, help="document to write the tables into (default: print them)")
    parser.add_argument("--json", type=pathlib.Path, help="write the measurements here, after every case")
    found = parser.parse_args(arguments)
    for name in ("images", "cores", "rounds"):
        if getattr(found, name) is not None and getattr(found, name) < 1:
            parser.error(f"--{name} must be 1 or more")
    return found


def built(folder):
    """The program of this checkout, built in a folder."""
    program = str(pathlib.Path(folder) / "selfheal")
    subprocess.run(["go", "build", "-C", str(ROOT), "-o", program, "."], check=True)
    return program


def published(text, document, block):
    """Write a text into a document's block, or print it if there is no document."""
    if document:
        documents.replace_block(document, block, text)
    else:
        print(text)


def say(*lines):
    for line in lines:
        print(line, file=sys.stderr, flush=True)


def measure(bench, cases, arguments, source, finished):
    """Check and time every case, AutoAttack's side from the recorded results `source` unless None.

    Calls finished(rows, difference) after each case.
    """
    if source is not None:  # all of them before anything is timed
        for case in cases:
            recorded(source, case, bench.count(case))
    rows, checked = [], {}
    for case in cases:
        say(f"{case.model}, {case.attack}: {case.norm} {case.epsilon}, {bench.count(case)} images")
        if (case.suite, case.model) not in checked:
            checked[case.suite, case.model] = bench.check_margins(case)
            say(f"  clean margins differ by {checked[case.suite, case.model]:.1e}")
        sides = {side: [] for side in ("reference", *arguments.modes)}
        for number in range(arguments.rounds):
            for side, runs in sides.items():
                if side != "reference":
                    runs.append(bench.selfheal_attack(case, side))
                elif source is None:
                    runs.append(bench.autoattack(case))
                elif not runs:
                    runs.append(recorded(source, case, bench.count(case)))
                else:
                    continue
                say(f"  round {number + 1}, {side}: {runs[-1]['seconds']:.2f} s, robust {100 * runs[-1]['robust']:.1f} %")
        rows.append(Measured(case, sides))
        for mode in arguments.modes:
            say(f"  {MODES[mode]}: AutoAttack ÷ ours {rows[-1].ratio(mode):.2f}, {len(rows[-1].differing(mode))} verdicts differ")
        finished(rows, max(checked.values()))


def main(arguments=None):
    arguments = parse(arguments)
    cores = sorted(os.sched_getaffinity(0))
    if arguments.cores and arguments.cores > len(cores):
        sys.exit(f"autoattack.py: error: {len(cores)} cores are available, not {arguments.cores}")
    cores = cores[:arguments.cores]
    # First come the checks of what would fail after many minutes.
    if arguments.out and "<!-- begin autoattack -->" not in arguments.out.read_text(encoding="utf-8"):
        sys.exit(f"autoattack.py: error: {arguments.out} has no block named autoattack")
    source = reference = None
    if arguments.reference_results:
        source = {"what": "", **json.loads(arguments.reference_results.read_text(encoding="utf-8")),
                  "recorded in": arguments.reference_results.name}
    else:
        reference = reference_version(arguments.reference.resolve()) + f" (standard, {plural(len(cores), 'thread')})"
    text, load = None, os.getloadavg()[0]
    if load > BUSY:
        say(f"warning: the machine is busy, its load is {load:.1f}; times will be too long, PyTorch's above all")
    try:
        cases, left_out = read_cases(arguments.config, arguments.suite, arguments.model, arguments.attack)
        say(*left_out)
        with tempfile.TemporaryDirectory(prefix="selfheal-bench-") as folder:
            bench = Bench(arguments.selfheal or built(folder), arguments.python, arguments.reference and arguments.reference.resolve(), cores, arguments.images)

            def finished(rows, difference):
                nonlocal text
                introduction = about(bench, arguments.rounds, difference, reference, source, load)
                text = report(rows, arguments.modes, introduction)
                if arguments.json:
                    arguments.json.write_text(json.dumps(as_json(rows, introduction), indent=1), encoding="utf-8")

            measure(bench, cases, arguments, source, finished)
    except (Failed, subprocess.CalledProcessError) as problem:
        sys.exit(f"autoattack.py: error: {problem}")
    published(text, arguments.out, "autoattack")


if __name__ == "__main__":
    main()
