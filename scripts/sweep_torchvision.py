#!/usr/bin/env python3
"""Tries the Go program on torchvision's classifiers at random weights and writes the table of docs/models.md.

    go build -o /tmp/selfheal . && python3 scripts/sweep_torchvision.py --selfheal /tmp/selfheal
    python3 scripts/sweep_torchvision.py --selfheal /tmp/selfheal --only swin_t vit_b_16 --exporter dynamo

Every network of at most 100 million parameters, the smallest first, is exported by every exporter with a batch of 1
and with an open one, opened by `selfheal inspect`, differentiated by `selfheal grad` and, with onnxruntime, compared
with PyTorch in double precision over five images (see verification.py): so an export of batch 1 shows that its images
stay apart. In brackets behind the errors: PyTorch's own in float32; logits may be three times as inexact.

Each result is a line of --results, and what stands there is not tried again unless it failed: a run that was stopped
is continued. One network at a time lies in a temporary folder. Exit code 1 where one does not work.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile
import time

import torch
import torchvision

import documents
import exporters
import models_table
import verification
from architectures import SCALE, random_weights

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE / "torchvision.jsonl"
# Smallest sensible sides: 64 but where the network's own pooling or windows are made for its usual size.
SIDE = 64
SIDES = {"alexnet": 224, "efficientnet_v2": 128, "vgg": 224, "vit": 224, "swin": 224, "maxvit": 224, "inception": 128, "squeezenet": 96}
# Ranges of the scales of BatchNormalization where the usual ones make so deep a network chaotic: PyTorch's own gradient
# in float32 is then off by as much as it is long.
SCALES = {f"efficientnet_b{n}": (0.2, 0.6) for n in range(4, 8)}
IMAGES = 5
OPSETS = {"torchscript": 17, "dynamo": 20}  # dynamo's as PyTorch 2.15 writes it unasked
LARGEST = 100e6  # parameters
BATCHES = ("1", "open")
CALIBRATION_BATCH = 16


def side(name):
    return next((size for prefix, size in SIDES.items() if name.startswith(prefix)), SIDE)


def parameters(name):
    """How many parameters torchvision's network `name` has with its thousand classes; nothing is downloaded."""
    return torchvision.models.get_model_weights(name).DEFAULT.meta["num_params"]


def build(name):
    """The torchvision network `name` with ten classes and random weights."""
    quick = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}  # theirs takes minutes
    network = torchvision.models.get_model(name, weights=None, num_classes=10, **quick)
    shape = (3, side(name), side(name))
    return random_weights(network, shape, 1, CALIBRATION_BATCH, SCALES.get(name, SCALE)), shape


def worker(name, forms, folder):
    """Write the case of one network and its exports, in a process of its own; prints the exports that failed."""
    network, shape = build(name)
    x = verification.write_results(network, shape, folder, 1, IMAGES)
    failed = {}
    for form in forms:
        exporter, batch = form.split(",")
        symbolic, inner = batch == "open", folder / form
        inner.mkdir()
        try:
            data = exporters.export(network, x if symbolic else x[:1], exporter, OPSETS[exporter], "input", "logits", symbolic)
            (inner / verification.MODEL).write_bytes(data)
            os.link(folder / verification.CASE, inner / verification.CASE)
        except exporters.ExportError as problem:
            failed[form] = str(problem)
    print(json.dumps(failed))


KEPT = ("logits", "torch_logits", "gradient", "torch_gradient", "parameters")


def attempt(name, forms, selfheal, timeout):
    """One network in all forms, each an exporter and a batch: yields a form and what its record says of it."""
    with tempfile.TemporaryDirectory(prefix="selfheal-sweep-") as folder:
        names = [",".join(form) for form in forms]
        try:
            failed = json.loads(verification.run([sys.executable, __file__, "--worker", name, "--selfheal", selfheal,
                                                  "--folder", folder, "--forms", *names], timeout).splitlines()[-1])
        except verification.Failed as problem:
            failed = dict.fromkeys(names, str(problem))
        for form, inner in zip(forms, names):
            if inner in failed:
                yield form, {"failed": f"export: {failed[inner]}"}
                continue
            try:
                found = verification.check_case(pathlib.Path(folder, inner), selfheal, sys.executable, timeout)
                yield form, {"nodes": sum(entry["count"] for entry in found["operators"]),
                             **{key: found[key] for key in KEPT}}
            except verification.Failed as problem:
                yield form, {"failed": str(problem).removeprefix(f"selfheal: model {verification.MODEL}: ")}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--selfheal", required=True, help="the built program")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these networks, of any size")
    parser.add_argument("--exporter", choices=tuple(OPSETS), help="one exporter (default: all there are)")
    parser.add_argument("--results", metavar="FILE", default=RESULTS, type=pathlib.Path, help="(default %(default)s)")
    parser.add_argument("--document", metavar="FILE", help="also bring the table in this file up to date")
    parser.add_argument("--timeout", type=int, default=1800, help="seconds for each step (default %(default)s)")
    for hidden in ("--worker", "--folder"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--forms", nargs="+", help=argparse.SUPPRESS)
    return parser.parse_args()


def key(record):
    return record["network"], record["exporter"], record["opset"], record["batch"]


def read(path):
    """The records of a file of results by their keys, of each key the last."""
    records = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        record = json.loads(line)
        records[key(record)] = record
    return records


def failure(record):
    """What is wrong with a record, or None."""
    if "failed" in record:
        return record["failed"]
    if not verification.as_exact_as_torch(record):
        return f"errors: logits {record['logits']:.1e}, gradient {record['gradient']:.1e}"
    return None


HEADER = ["network", "side", "exporter", "opset", "batch", "nodes", "parameters", "logits", "gradient"]
LONGEST = 300  # characters of a message in the table


def row(record):
    """The record's line of the table."""
    head = [record["network"], side(record["network"]), record["exporter"], record["opset"], record["batch"]]
    if "failed" in record:
        message = record["failed"]
        return [*head, message if len(message) <= LONGEST else message[:LONGEST] + "…", *[""] * 3]
    errors = [f"{record[kind]:.1e} ({record[f'torch_{kind}']:.1e})" for kind in ("logits", "gradient")]
    if failure(record):
        errors = [f"**{error}**" for error in errors]
    return [*head, record["nodes"], models_table.quantity(record["parameters"]), *errors]


def text(records):
    """The table of all records, the smallest network first."""
    ordered = sorted(records.values(), key=lambda record: (parameters(record["network"]), key(record)))
    versions = dict.fromkeys(f"PyTorch {record['torch']}, torchvision {record['torchvision']}" for record in ordered)
    return f"{'; '.join(versions)}.\n\n{documents.table(HEADER, map(row, ordered))}"


def sweep(names, chosen, arguments):
    """Try every network in every form that has no good record yet; returns all records and the keys that were asked for."""
    records, asked = read(arguments.results), []
    for name in names:
        forms, start = [], time.time()
        for form in ((exporter, batch) for exporter in chosen for batch in BATCHES):
            asked.append((name, form[0], OPSETS[form[0]], form[1]))
            if asked[-1] not in records or failure(records[asked[-1]]):
                forms.append(form)
        for (exporter, batch), found in attempt(name, forms, arguments.selfheal, arguments.timeout) if forms else ():
            record = {"network": name, "exporter": exporter, "opset": OPSETS[exporter], "batch": batch,
                      "torch": torch.__version__, "torchvision": torchvision.__version__, **found}
            records[key(record)] = record
            with open(arguments.results, "a") as file:
                file.write(json.dumps(record) + "\n")
            print(*row(record), f"({time.time() - start:.0f} s)", sep="  ", flush=True)
            start = time.time()
        if forms and arguments.document:
            documents.replace_block(arguments.document, "torchvision", text(records))
    return records, asked


def main():
    arguments = parse()
    if arguments.worker:
        worker(arguments.worker, arguments.forms, pathlib.Path(arguments.folder))
        return 0
    names = arguments.only or [name for name in sorted(torchvision.models.list_models(module=torchvision.models), key=parameters)
                               if parameters(name) <= LARGEST]
    chosen = [arguments.exporter] if arguments.exporter else exporters.available()
    records, asked = sweep(names, chosen, arguments)
    failures = [f"{' '.join(map(str, one))}: {failure(records[one])}" for one in asked if failure(records[one])]
    if arguments.document:
        documents.replace_block(arguments.document, "torchvision", text(records))
    print(f"{len(asked) - len(failures)} of {len(asked)} work.", *failures, sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
