#!/usr/bin/env python3
"""Tries the Go program on torchvision's classifiers at random weights and prints what works.

    go build -o /tmp/selfheal . && python3 scripts/sweep_torchvision.py --selfheal /tmp/selfheal
    python3 scripts/sweep_torchvision.py --selfheal /tmp/selfheal --all --exporter dynamo
    python3 scripts/sweep_torchvision.py --selfheal /tmp/selfheal --only swin_t vit_b_16

Every network is exported, opened by `selfheal inspect`, differentiated by `selfheal grad` and, with onnxruntime,
compared with PyTorch in double precision over five images (see verification.py). In brackets behind the errors:
PyTorch's own in float32; logits may be three times as inexact. Without --all the smallest network of each family.
Exit code 1 where one does not work.
"""

import argparse
import json
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
from architectures import random_weights

FAMILIES = (
    "alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "efficientnet_v2_s", "googlenet", "inception_v3",
    "maxvit_t", "mnasnet0_5", "mobilenet_v2", "mobilenet_v3_small", "regnet_x_400mf", "regnet_y_400mf", "resnet18",
    "resnet50", "resnext50_32x4d", "shufflenet_v2_x0_5", "squeezenet1_1", "swin_t", "swin_v2_t", "vgg11", "vgg11_bn",
    "vit_b_16", "wide_resnet50_2",
)
# Smallest sensible sides: 64 but where the network's own pooling or windows are made for its usual size.
SIDE = 64
SIDES = {"alexnet": 224, "efficientnet_v2": 128, "vgg": 224, "vit": 224, "swin": 224, "maxvit": 224, "inception": 128, "squeezenet": 96}
IMAGES = 5
OPSETS = {"torchscript": 17, "dynamo": exporters.DYNAMO_OPSET}
LARGEST = 400e6  # parameters; beyond that the file passes protobuf's two gigabytes
CALIBRATION_BATCH = 16


def side(name):
    return next((size for prefix, size in SIDES.items() if name.startswith(prefix)), SIDE)


def build(name):
    """The torchvision network `name` with ten classes and random weights."""
    quick = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}  # theirs takes minutes
    network = torchvision.models.get_model(name, weights=None, num_classes=10, **quick)
    shape = (3, side(name), side(name))
    return random_weights(network, shape, 1, CALIBRATION_BATCH), shape


def worker(name, exporter, opset, folder):
    """Write the case of one network, in a process of its own."""
    try:
        network, shape = build(name)
        if sum(parameter.numel() for parameter in network.parameters()) > LARGEST:
            sys.exit("too large: its file passes two gigabytes")
        verification.write_case(network, shape, exporter, opset, folder, 1, batch=IMAGES)
    except exporters.ExportError as problem:
        sys.exit(str(problem))


def attempt(name, exporter, opset, selfheal, timeout):
    """One network through all steps: a dict of errors, or verification.Failed."""
    with tempfile.TemporaryDirectory(prefix="selfheal-sweep-") as folder:
        try:
            verification.run([sys.executable, __file__, "--worker", name, "--exporter", exporter, "--opset", str(opset),
                              "--selfheal", selfheal, "--folder", folder], timeout)
        except verification.Failed as problem:
            raise verification.Failed(f"export: {problem}") from problem
        return verification.check_case(folder, selfheal, sys.executable, timeout)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--selfheal", required=True, help="the built program")
    parser.add_argument("--all", action="store_true", help="every constructor instead of one a family")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these networks")
    parser.add_argument("--exporter", choices=("torchscript", "dynamo"), help="one exporter (default: all there are)")
    parser.add_argument("--opset", type=int, help="opset (default 17 for torchscript, 18 for dynamo)")
    parser.add_argument("--document", metavar="FILE", help="also bring the table in this file up to date")
    parser.add_argument("--timeout", type=int, default=300, help="seconds for each step (default %(default)s)")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    return parser.parse_args()


HEADER = ["network", "side", "exporter", "nodes", "parameters", "logits", "gradient"]
LONGEST = 160  # characters of a message in the table


def sweep(names, chosen, opset, selfheal, timeout):
    """Try every network with every exporter; returns table rows and the whole messages of those that fail."""
    rows, failures = [], []
    for name in names:
        for exporter in chosen:
            start = time.time()
            head = [name, side(name), exporter]
            try:
                found = attempt(name, exporter, opset or OPSETS[exporter], selfheal, timeout)
                errors = [f"{found[kind]:.1e} ({found[f'torch_{kind}']:.1e})" for kind in ("logits", "gradient")]
                if not verification.as_exact_as_torch(found):
                    failures.append(f"{name}, {exporter}: errors {', '.join(errors)}")
                    errors = [f"**{error}**" for error in errors]
                nodes = sum(entry["count"] for entry in found["operators"])
                rows.append([*head, nodes, models_table.quantity(found["parameters"]), *errors])
            except verification.Failed as problem:
                message = str(problem).removeprefix("selfheal: model model.onnx: ")
                failures.append(f"{name}, {exporter}: {message}")
                rows.append([*head, message if len(message) <= LONGEST else message[:LONGEST] + "…", *[""] * 3])
            print(*rows[-1], f"({time.time() - start:.0f} s)", sep="  ", flush=True)
    return rows, failures


def main():
    arguments = parse()
    if arguments.worker:
        worker(arguments.worker, arguments.exporter, arguments.opset, arguments.folder)
        return 0
    names = arguments.only or FAMILIES
    if arguments.all:
        names = torchvision.models.list_models(module=torchvision.models)
    chosen = [arguments.exporter] if arguments.exporter else exporters.available()
    rows, failures = sweep(names, chosen, arguments.opset, arguments.selfheal, arguments.timeout)
    text = f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}.\n\n{documents.table(HEADER, rows)}"
    print(f"\n{text}\n\n{len(rows) - len(failures)} of {len(rows)} work.", *failures, sep="\n")
    if arguments.document:
        documents.replace_block(arguments.document, "torchvision", text)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
