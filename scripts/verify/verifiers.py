#!/usr/bin/env python3
"""Asks selfheal's verifier and another one the competition's questions, one after the other.

    python3 scripts/verify/verifiers.py run --selfheal selfheal --other 'abcrown.sh {family} {network} {property} {seconds}'
        --name alpha-beta-CROWN --seconds 30 --out verifiers.csv acasxu=benchmarks/acasxu:30 oval21=benchmarks/oval21:12 …
    python3 scripts/verify/verifiers.py table verifiers.csv --out docs/measured/verifiers.md
    python3 scripts/verify/verifiers.py published verifiers.csv results_csv/*.csv

`run` takes folders with an instances.csv and how many of its first lines to ask. The CSV file grows by a line a question;
the same command goes on where it was stopped. The other program is to print its answer and how many seconds that took.
`table` is the block "verifiers" of a document: how many questions each has decided. `published` compares with the
competition's published results, of whatever programs, in categories that are called as the families are, and with the
other program's answers: exit code 1 where the most say sat and selfheal unsat, or the other way round; whoever else
contradicts is named. A counterexample of selfheal has been run on the file before it was printed.
"""

import argparse
import collections
import csv
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

from verify import documents

COLUMNS = ["family", "network", "property", "seconds", "selfheal", "selfheal took", "other", "other took"]
DECIDED = ("sat", "unsat")
LATE = 90  # seconds after which a program is killed


def questions(folder, count):
    """The first lines of a folder's instances.csv, as (network, property)."""
    names = sorted(folder.glob("*instances.csv"))
    if len(names) != 1:
        raise ValueError(f"{folder} holds {len(names)} files *instances.csv")
    with names[0].open() as lines:
        return [(line[0], line[1]) for line in csv.reader(lines)][:count]


def unpacked(path, scratch):
    """A file, or what the one packed by gzip in its place holds."""
    if path.exists():
        return path
    target = pathlib.Path(scratch) / path.name
    with open(target, "wb") as out:
        subprocess.run(["gzip", "-dc", f"{path}.gz"], stdout=out, check=True)
    return target


def ask_selfheal(program, network, prop, seconds):
    begun = time.monotonic()
    try:
        out = subprocess.run([program, "vnnlib", network, prop, "--timeout", f"{seconds}s"], timeout=seconds + LATE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        answer = out.stdout.partition("\n")[0] or "error"
    except subprocess.TimeoutExpired:
        answer = "timeout"
    return answer, time.monotonic() - begun


def ask_other(command, family, network, prop, seconds):
    words = [word.format(family=family, network=network, property=prop, seconds=seconds) for word in shlex.split(command)]
    out = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=seconds + 2 * LATE)
    answer, took = out.stdout.split()
    return answer, float(took)


def run(a):
    done = list(csv.reader(a.out.open())) if a.out.exists() else []
    header = COLUMNS[:-2] + [a.name, f"{a.name} took"]
    if done and done[0] != header:
        raise ValueError(f"{a.out} has other columns")
    answered = {tuple(row[:4]) for row in done}
    with a.out.open("a", newline="") as out, tempfile.TemporaryDirectory() as scratch:
        write = csv.writer(out)
        if not done:
            write.writerow(header)
        for family, _, rest in (given.partition("=") for given in a.families):
            folder, _, count = rest.rpartition(":")
            for network, prop in questions(pathlib.Path(folder), int(count)):
                key = (family, network, prop, f"{a.seconds:g}")
                if key in answered:
                    continue
                files = [unpacked(pathlib.Path(folder) / name, scratch) for name in (network, prop)]
                own, took = ask_selfheal(a.selfheal, *files, a.seconds)
                other, other_took = ask_other(a.other, family, *files, a.seconds)
                row = [*key, own, f"{took:.2f}", other, f"{other_took:.2f}"]
                write.writerow(row)
                out.flush()
                os.fsync(out.fileno())
                print(*row, flush=True)
    return 0


def read(path):
    with path.open() as lines:
        header, *rows = csv.reader(lines)
    return header, rows


def table(a):
    header, rows = read(a.answers)
    families = list(dict.fromkeys(row[0] for row in rows))
    lines, totals = [], collections.Counter()
    for family in families:
        mine = [row for row in rows if row[0] == family]
        line = [family, len(mine)]
        for column in (4, 6):
            decided = [row for row in mine if row[column] in DECIDED]
            took = [float(row[column + 1]) for row in decided]
            sat = sum(row[column] == "sat" for row in decided)
            median = f"{statistics.median(took):.1f} s" if took else "—"
            line += [f"{len(decided)} ({len(decided) - sat} unsat, {sat} sat)", median]
            totals[column] += len(decided)
        lines.append(line)
    lines.append(["all", len(rows), totals[4], "", totals[6], ""])
    text = documents.table(["family", "questions", "selfheal", "median", header[6], "median"], lines)
    print(text)
    if a.out:
        documents.replace_block(a.out, "verifiers", text)
    return 0


def stem(path):
    return pathlib.PurePosixPath(path).name.removesuffix(".gz")


def published(a):
    """Answers by the names of network and property, of all programs."""
    header, rows = read(a.answers)
    known = collections.defaultdict(dict)
    for path in a.results:
        with path.open() as lines:
            for row in csv.reader(lines):
                answer = {"holds": "unsat", "violated": "sat"}.get(row[4].lower(), row[4].lower())
                if answer in DECIDED:
                    known[row[0], stem(row[1]), stem(row[2])][path.stem] = answer
    against, compared, wrong = [], 0, 0
    for row in rows:
        said = dict(known[row[0], stem(row[1]), stem(row[2])])
        if row[6] in DECIDED:
            said[header[6] + " here"] = row[6]
        compared += row[4] in DECIDED and bool(said)
        other = sorted(name for name, answer in said.items() if row[4] in DECIDED and answer != row[4])
        wrong += 2 * len(other) >= max(len(said), 1)
        if other:
            against.append(f"{row[1]} {row[2]}: selfheal {row[4]}, otherwise {', '.join(other)} of {len(said)}")
    print(f"{compared} of {len(rows)} answers compared, {wrong} against the most", *against, sep="\n")
    return 1 if wrong else 0


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    c = commands.add_parser("run")
    c.add_argument("families", nargs="+", metavar="FAMILY=FOLDER:COUNT")
    c.add_argument("--selfheal", required=True, metavar="PROGRAM")
    c.add_argument("--other", required=True, metavar="COMMAND")
    c.add_argument("--name", required=True, help="the other program's")
    c.add_argument("--seconds", type=float, default=30)
    c.add_argument("--out", type=pathlib.Path, required=True, metavar="CSV")
    c.set_defaults(do=run)
    c = commands.add_parser("table")
    c.add_argument("answers", type=pathlib.Path, metavar="CSV")
    c.add_argument("--out", metavar="DOCUMENT", help="document whose table to bring up to date (default: printed alone)")
    c.set_defaults(do=table)
    c = commands.add_parser("published")
    c.add_argument("answers", type=pathlib.Path, metavar="CSV")
    c.add_argument("results", type=pathlib.Path, nargs="+")
    c.set_defaults(do=published)
    a = parser.parse_args(argv)
    try:
        return a.do(a)
    except (OSError, ValueError, subprocess.SubprocessError) as problem:
        sys.exit(f"verifiers.py: error: {problem}")


if __name__ == "__main__":
    sys.exit(main())
