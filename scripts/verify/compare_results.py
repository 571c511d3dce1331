#!/usr/bin/env python3
"""Compares two versions of the program image by image, on the same configs.

    python3 scripts/verify/compare_results.py --run PROGRAM --out before       # every config of harness/testdata/configs
    python3 scripts/verify/compare_results.py --run OTHER --out after
    python3 scripts/verify/compare_results.py before after                     # or two folders of one run each

Of every image of every cell `verdict`, `predicted` and `first_success` are equal, `norm` is too unless an attack that
looks for the smallest norm broke the image, and margins, bounds and radii differ by at most 1e-4. An image of which
this does not hold is a line: its cell, its id, and each value before and after. A bracket depends on the machine's
speed: there what one run proved the other must not have broken. Exit code 1 where an image differs or a cell is gone or
new.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import time

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "harness" / "testdata" / "configs"
KEY = ("suite", "model", "defense", "source", "attack", "epsilon", "image")
EQUAL = ("label", "verdict", "predicted", "first_success", "votes", "pixels")
NEAR = ("margin", "clean_margin", "bound", "radius")
MOST = 1e-4


def records(folder):
    """The records of a run by cell and image."""
    found = {}
    with (folder / "records.jsonl").open() as lines:
        for record in map(json.loads, lines):
            found[tuple(record.get(name) for name in KEY)] = record
    return found


def near(a, b):
    return a == b or a is not None and b is not None and abs(a - b) <= MOST


def same_norm(a, b):
    """To the judge's tolerance: float32 pixels of two equal attacks may differ in their last bits."""
    return math.isclose(a["norm"], b["norm"], rel_tol=1e-5) or None not in (a.get("distance"), b.get("distance"))


def bracketed(a, b):
    """What one of two runs proved of an image the other did not break."""
    return all(x["broken"] is None or x["broken"] >= y["proven"] for x, y in ((a, b), (b, a)))


def changes(a, b):
    """The values of an image that differ, as `name before → after`."""
    names = [name for name in EQUAL if a.get(name) != b.get(name)]
    names += [name for name in NEAR if not near(a.get(name), b.get(name))]
    if not same_norm(a, b):
        names.append("norm")
    if "proven" in a and "proven" in b and not bracketed(a, b):
        names += ["proven", "broken"]
    return [f"{name} {json.dumps(a.get(name))} → {json.dumps(b.get(name))}" for name in names]


def name_of(key):
    *cell, image = key
    return "/".join(str(part) for part in cell if part is not None) + f", image {image}"


def cells(folder):
    """What the cells of a run say beside their records: verdicts under every seed, warnings, errors."""
    results = json.loads((folder / "results.json").read_text())
    return {tuple(cell.get(name) for name in KEY[:-1]): cell for cell in results["cells"]}


def compare(before, after):
    """Lines about what differs between two runs, and how many images were compared."""
    old, new = records(before), records(after)
    lines = [f"{name_of(key)}: only {where}" for one, other, where in ((old, new, "before"), (new, old, "after"))
             for key in one if key not in other]
    for key in old:
        if key in new and (different := changes(old[key], new[key])):
            lines.append(f"{name_of(key)}: " + "; ".join(different))
    was, now = cells(before), cells(after)
    for key in was.keys() & now.keys():
        cell = "/".join(str(part) for part in key if part is not None)
        for a, b in zip(was[key].get("seeds") or [], now[key].get("seeds") or []):
            if a["verdicts"] != b["verdicts"]:
                lines.append(f"{cell}, seed {a['seed']}: verdicts {a['verdicts']} → {b['verdicts']}")
        if was[key].get("error") != now[key].get("error"):
            lines.append(f"{cell}: error {was[key].get('error')} → {now[key].get('error')}")
    return lines, len(old.keys() & new.keys())


def warned(before, after):
    """Lines about warnings that came or went."""
    lines, was, now = [], cells(before), cells(after)
    for key in was.keys() & now.keys():
        a, b = ({w["id"] for w in of[key].get("warnings") or []} for of in (was, now))
        if a != b:
            cell = "/".join(str(part) for part in key if part is not None)
            lines.append(f"{cell}: " + ", ".join([f"no {w} any more" for w in sorted(a - b)] +
                                                 [f"{w} is new" for w in sorted(b - a)]))
    return lines


def pairs(before, after):
    """The folders of results in two folders, which may be results themselves."""
    if (before / "records.jsonl").exists():
        return [(before.name, before, after)]
    return [(path.parent.name, path.parent, after / path.parent.name) for path in sorted(before.glob("*/records.jsonl"))]


def run(program, out, configs):
    """Runs configs by a program, each into a folder of its name."""
    for config in configs:
        start = time.monotonic()
        subprocess.run([program, "run", "--config", config, "--out", out / config.stem, "--quiet"], check=True)
        print(f"{config.stem}: {time.monotonic() - start:.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=pathlib.Path, metavar="BEFORE AFTER", help="two folders of results")
    parser.add_argument("--run", metavar="PROGRAM", help="run the configs by this program instead")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="with --run: where to")
    parser.add_argument("--config", action="append", type=pathlib.Path, metavar="FILE",
                        help="with --run: this config; may be repeated (default: all of harness/testdata/configs)")
    arguments = parser.parse_args()
    if bool(arguments.run) != bool(arguments.out) or len(arguments.folders) != (0 if arguments.run else 2):
        parser.error("give two folders of results, or --run and --out")
    if arguments.run:
        run(arguments.run, arguments.out, arguments.config or sorted(CONFIGS.glob("*.yaml")))
        return 0
    found = pairs(*arguments.folders)
    if not found:
        parser.error(f"{arguments.folders[0]} has no records.jsonl, nor has a folder in it")
    differ = 0
    for name, before, after in found:
        if not (after / "records.jsonl").exists():
            print(f"{name}: only {before}")
            differ += 1
            continue
        lines, images = compare(before, after)
        print(f"{name}: {len(lines)} differ of {images} records", *(f"  {line}" for line in lines),
              *(f"  (warnings: {line})" for line in warned(before, after)), sep="\n")
        differ += len(lines)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
