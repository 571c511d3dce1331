#!/usr/bin/env python3
"""Runs the reference AutoAttack on the bundled networks and writes its verdicts to models/zoo/reference.json.

    python3 scripts/bench/reference_zoo.py --reference /path/to/auto-attack [--threads 1]

The cases are those of the config's suite `bundled`: two networks in three norms, 200 images, version standard, the
config's seed. A test of the Go program compares its own verdicts with the file. Cases that the file holds already are
kept, so that a stopped run goes on.
"""

import argparse
import fractions
import hashlib
import json
import os
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

from bench.autoattack import Bench, ROOT, read_cases, reference_version

OUT = ROOT / "models" / "zoo" / "reference.json"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", type=pathlib.Path, required=True, metavar="DIR", help="a checkout of fra31/auto-attack")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch (default %(default)s)")
    arguments = parser.parse_args()
    file = json.loads(OUT.read_text(encoding="utf-8")) if OUT.exists() else {"cases": []}
    file["reference"] = reference_version(arguments.reference.resolve()) + ", version standard"
    done = {(c["model"], c["attack"]) for c in file["cases"]}
    cores = sorted(os.sched_getaffinity(0))[:arguments.threads]
    bench = Bench(None, sys.executable, arguments.reference.resolve(), cores, images=10**9)
    cases, _ = read_cases(ROOT / "config.yaml", ["bundled"])
    for case in cases:
        if (case.model, case.attack) in done:
            continue
        run = bench.autoattack(case)
        file["torch"] = bench.torch(case, "margins")["torch"]
        file["cases"].append({
            "suite": case.suite, "model": case.model, "attack": case.attack, "norm": case.norm,
            "epsilon": float(fractions.Fraction(case.epsilon)), "seed": case.seed, "n": len(run["flags"]),
            "model_sha256": hashlib.sha256(pathlib.Path(case.file).read_bytes()).hexdigest(), "clean": run["clean"],
            "steps": [{key: step[key] for key in ("attack", "attacked", "robust")} for step in run["steps"]],
            "flags": run["flags"]})
        OUT.write_text(json.dumps(file, indent=1) + "\n", encoding="utf-8")
        print(f"{case.model}, {case.attack}: {100 * run['robust']:.1f} % of {len(run['flags'])}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
