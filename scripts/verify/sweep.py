#!/usr/bin/env python3
"""Tries the Go program on a library's classifiers at random weights and writes the library's table of docs/measured/models.md.

    go build -o /tmp/selfheal . && python3 scripts/verify/sweep.py torchvision --selfheal /tmp/selfheal
    python3 scripts/verify/sweep.py torchvision --selfheal /tmp/selfheal --only swin_t vit_b_16 --exporter dynamo
    python3 scripts/verify/sweep.py timm --selfheal /tmp/selfheal --batch open

The networks are all of torchvision's, and of timm's the smallest of each family, which is a module of timm.models, and
a few more whose graphs differ. Those of at most 100 million parameters, the smallest first, are exported by every
exporter with a batch of 1 and with an open one, opened by `selfheal inspect`, differentiated by `selfheal grad` and, with onnxruntime, compared
with PyTorch in double precision over five images (see verification.py): so an export of batch 1 shows that its images
stay apart. In brackets behind the errors: PyTorch's own in float32; logits may be three times as inexact.

Each result is a line of LIBRARY.jsonl beside this script, and what stands there is not tried again unless it failed: a run that was stopped
is continued. One network at a time lies in a temporary folder. Exit code 1 where one does not work.
"""

import argparse
import functools
import importlib
import json
import os
import pathlib
import sys
import tempfile
import time

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

import torch

from paper.architectures import SCALE, random_weights
from verify import documents, models_table, verification
from zoo import exporters

HERE = pathlib.Path(__file__).resolve().parent
# Smallest sensible sides: 64 but where the network's own pooling or windows are made for its usual size.
SIDE = 64
# Ranges of the scales of BatchNormalization where the usual ones make so deep a network chaotic: PyTorch's own gradient
# in float32 is then off by as much as it is long.
SCALES = {f"efficientnet_b{n}": (0.2, 0.6) for n in range(4, 8)}
IMAGES = 5
OPSETS = {"torchscript": 17, "dynamo": 20}  # dynamo's as PyTorch 2.15 writes it unasked
LARGEST = 100e6  # parameters
BATCHES = ("1", "open")
CALIBRATION_BATCH = 16


class Torchvision:
    SIDES = {"alexnet": 224, "efficientnet_v2": 128, "vgg": 224, "vit": 224, "swin": 224, "maxvit": 224, "inception": 128,
             "squeezenet": 96}

    def __init__(self):
        self.library = importlib.import_module("torchvision")
        self.names = self.library.models.list_models(module=self.library.models)

    def side(self, name):
        return next((size for prefix, size in self.SIDES.items() if name.startswith(prefix)), SIDE)

    def parameters(self, name):
        """How many parameters the network has with its thousand classes; nothing is downloaded."""
        return self.library.models.get_model_weights(name).DEFAULT.meta["num_params"]

    def build(self, name):
        quick = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}  # theirs takes minutes
        return self.library.models.get_model(name, weights=None, num_classes=10, **quick)


class Timm:
    # Besides the smallest of each family: padding as TensorFlow has it, weights that are standardised.
    MORE = ("tf_efficientnet_b0", "tf_efficientnetv2_b0", "tf_mobilenetv3_small_minimal_100", "tf_mixnet_s", "nfnet_f0",
            "nf_regnet_b0", "resnetv2_50x1_bit", "vit_tiny_patch16_224", "convnext_atto", "repvgg_a0", "eca_resnet33ts")

    def __init__(self):
        self.library = importlib.import_module("timm")

    @functools.cached_property
    def names(self):
        smallest = [min(self.library.list_models(module=module), key=self.parameters)
                    for module in self.library.list_modules()]
        return [*smallest, *self.MORE]

    @functools.cache
    def parameters(self, name):
        with torch.device("meta"):
            try:
                return sum(parameter.numel() for parameter in self.library.create_model(name, num_classes=10).parameters())
            except (NotImplementedError, RuntimeError, TypeError):  # what cannot be built without data
                return float("inf")

    @functools.cache
    def side(self, name):
        """The first of two small sides and its usual one at which the network runs."""
        usual = self.library.get_pretrained_cfg(name).input_size[-1]
        for side in (SIDE, 2 * SIDE):
            try:
                with torch.no_grad():
                    self.build(name, side)(torch.rand(2, 3, side, side))
                return side
            except (AssertionError, RuntimeError, TypeError, ValueError, IndexError, ZeroDivisionError):
                continue
        return usual

    def build(self, name, side=None):
        side = side or self.side(name)
        try:
            network = self.library.create_model(name, num_classes=10, img_size=side)
        except TypeError:  # a network for every size
            network = self.library.create_model(name, num_classes=10)
        return network.eval()


LIBRARIES = {"torchvision": Torchvision, "timm": Timm}


def build(library, name):
    """The network `name` with ten classes and random weights."""
    shape = (3, library.side(name), library.side(name))
    return random_weights(library.build(name), shape, 1, CALIBRATION_BATCH, SCALES.get(name, SCALE)), shape


def worker(library, name, forms, folder):
    """Write the case of one network and its exports, in a process of its own; prints the exports that failed."""
    network, shape = build(library, name)
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
    print(json.dumps({"side": shape[-1], "failed": failed}))


KEPT = ("logits", "torch_logits", "gradient", "torch_gradient", "parameters")


def attempt(name, forms, arguments):
    """One network in all forms, each an exporter and a batch: yields a form and what its record says of it."""
    with tempfile.TemporaryDirectory(prefix="selfheal-sweep-") as folder:
        names, side = [",".join(form) for form in forms], None
        try:
            made = json.loads(verification.run([sys.executable, __file__, arguments.library, "--worker", name, "--selfheal",
                                                arguments.selfheal, "--folder", folder, "--forms", *names],
                                               arguments.timeout).splitlines()[-1])
            failed, side = made["failed"], made["side"]
        except verification.Failed as problem:
            failed = dict.fromkeys(names, str(problem))
        for form, inner in zip(forms, names):
            if inner in failed:
                yield form, {"side": side, "failed": f"export: {failed[inner]}"}
                continue
            try:
                found = verification.check_case(pathlib.Path(folder, inner), arguments.selfheal, sys.executable,
                                                arguments.timeout)
                yield form, {"side": side, "nodes": sum(entry["count"] for entry in found["operators"]),
                             **{key: found[key] for key in KEPT}}
            except verification.Failed as problem:
                yield form, {"side": side,
                             "failed": str(problem).removeprefix(f"selfheal: model {verification.MODEL}: ")}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=tuple(LIBRARIES))
    parser.add_argument("--selfheal", required=True, help="the built program")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these networks, of any size")
    parser.add_argument("--exporter", choices=tuple(OPSETS), help="one exporter (default: all there are)")
    parser.add_argument("--batch", choices=BATCHES, help="one batch (default: both)")
    parser.add_argument("--results", metavar="FILE", type=pathlib.Path, help="(default LIBRARY.jsonl beside this script)")
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
    head = [record["network"], record["side"] or "–", record["exporter"], record["opset"], record["batch"]]
    if "failed" in record:
        message = record["failed"]
        return [*head, message if len(message) <= LONGEST else message[:LONGEST] + "…", *[""] * 3]
    errors = [f"{record[kind]:.1e} ({record[f'torch_{kind}']:.1e})" for kind in ("logits", "gradient")]
    if failure(record):
        errors = [f"**{error}**" for error in errors]
    return [*head, record["nodes"], models_table.quantity(record["parameters"]), *errors]


def text(records, library):
    """The table of all records, the smallest network first."""
    sizes = {record["network"]: record["parameters"] for record in records.values() if "parameters" in record}
    ordered = sorted(records.values(), key=lambda record: (sizes.get(record["network"], LARGEST), key(record)))
    name = library.library.__name__
    versions = dict.fromkeys(f"PyTorch {record['torch']}, {name} {record[name]}" for record in ordered)
    return f"{'; '.join(versions)}.\n\n{documents.table(HEADER, map(row, ordered))}"


def sweep(library, names, chosen, arguments):
    """Try every network in every form that has no good record yet; returns all records and the keys that were asked for."""
    records, asked = read(arguments.results), []
    for name in names:
        forms, start = [], time.time()
        for form in ((exporter, batch) for exporter in chosen for batch in BATCHES):
            if arguments.batch in (None, form[1]):
                asked.append((name, form[0], OPSETS[form[0]], form[1]))
                if asked[-1] not in records or failure(records[asked[-1]]):
                    forms.append(form)
        for (exporter, batch), found in attempt(name, forms, arguments) if forms else ():
            record = {"network": name, "exporter": exporter, "opset": OPSETS[exporter], "batch": batch,
                      "torch": torch.__version__, arguments.library: library.library.__version__, **found}
            records[key(record)] = record
            with open(arguments.results, "a") as file:
                file.write(json.dumps(record) + "\n")
            print(*row(record), f"({time.time() - start:.0f} s)", sep="  ", flush=True)
            start = time.time()
        if forms and arguments.document:
            documents.replace_block(arguments.document, arguments.library, text(records, library))
    return records, asked


def main():
    arguments = parse()
    library = LIBRARIES[arguments.library]()
    arguments.results = arguments.results or HERE / f"{arguments.library}.jsonl"
    if arguments.worker:
        worker(library, arguments.worker, arguments.forms, pathlib.Path(arguments.folder))
        return 0
    names = arguments.only or sorted((name for name in library.names if library.parameters(name) <= LARGEST),
                                     key=library.parameters)
    chosen = [arguments.exporter] if arguments.exporter else exporters.available()
    records, asked = sweep(library, names, chosen, arguments)
    failures = [f"{' '.join(map(str, one))}: {failure(records[one])}" for one in asked if failure(records[one])]
    if arguments.document:
        documents.replace_block(arguments.document, arguments.library, text(records, library))
    print(f"{len(asked) - len(failures)} of {len(asked)} work.", *failures, sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
