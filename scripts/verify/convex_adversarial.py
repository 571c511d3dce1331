#!/usr/bin/env python3
"""Repeats the certified error of a cascade of github.com/locuslab/convex_adversarial (Wong et al. 2018).

    python3 scripts/verify/convex_adversarial.py make --checkpoint models_scaled/cifar_small_8px.pth \\
        --data data/cifar-10-batches-bin --out cascade
    selfheal run --config cascade/config.yaml --out cascade/results
    python3 scripts/verify/convex_adversarial.py count --out cascade

A cascade asks its networks one after the other and takes the answer of the first that certifies its own. So `make`
writes each network as stage-K.onnx, and CIFAR-10's test images with the network's answers as labels as stage-K.npz.
`count` prints the fraction of images on which no network certifies an answer, or the first that does is wrong, beside
the error that the checkpoint holds. The authors' ball is not cut off at [0,1]; selfheal's is, and proves a little more.
"""

import argparse
import json
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

import numpy as np
import torch
from torch import nn

from zoo import datasets, exporters

MEAN, STD = (0.485, 0.456, 0.406), (0.225, 0.225, 0.225)


def network(state):
    """The authors' `cifar_model`, on pixels in [0,1] after (x − mean) / std."""
    layers = nn.Sequential(nn.Conv2d(3, 16, 4, stride=2, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 4, stride=2, padding=1),
                           nn.ReLU(), nn.Flatten(), nn.Linear(2048, 100), nn.ReLU(), nn.Linear(100, 10))
    layers.load_state_dict(state)
    return layers.eval()


def make(arguments):
    out = pathlib.Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    images = datasets.load("cifar10", pathlib.Path(arguments.data), False)
    stages = torch.load(arguments.checkpoint, map_location="cpu", weights_only=True)["state_dict"]
    mean, std = (torch.tensor(v).reshape(3, 1, 1) for v in (MEAN, STD))
    models, sets, suites = [], [], []
    for k, state in enumerate(stages):
        net = network(state)
        (out / f"stage-{k}.onnx").write_bytes(exporters.export(net, torch.zeros(2, 3, 32, 32), "torchscript", 17, "x", "z"))
        with torch.no_grad():
            answers = torch.cat([net((x.float() / 255 - mean) / std).argmax(dim=1) for x in images.images.split(1000)])
        np.savez(out / f"stage-{k}.npz", x=images.images.numpy(), y=answers.numpy())
        models.append(f"  stage-{k}: {{path: stage-{k}.onnx, preprocess: {{mean: {list(MEAN)}, std: {list(STD)}}}}}\n")
        sets.append(f"  answers-{k}: {{format: npz, path: stage-{k}.npz}}\n")
        suites.append(f"  stage-{k}: {{dataset: answers-{k}, models: [stage-{k}], attacks: [bounds]}}\n")
    (out / "config.yaml").write_text(
        "version: 1\nmodels:\n" + "".join(models) + "datasets:\n" + "".join(sets)
        + f"attacks: {{bounds: {{kind: bounds, method: {arguments.method}, norm: linf, epsilon: {arguments.epsilon}}}}}\n"
        + "suites:\n" + "".join(suites))
    np.save(out / "labels.npy", images.labels.numpy())


def count(arguments):
    out = pathlib.Path(arguments.out)
    labels = np.load(out / "labels.npy")
    results = json.loads((out / "results" / "results.json").read_text())
    decided, right, alone = np.zeros(len(labels), bool), np.zeros(len(labels), bool), []
    for k in range(len(results["models"])):
        answers = np.load(out / f"stage-{k}.npz")["y"]
        cell = next(c for c in results["cells"] if c["model"] == f"stage-{k}" and c["attack"] == "bounds")
        certified = np.array([v == "1" for v in cell["verdicts"]])
        alone.append(1 - (certified & (answers == labels)).mean())
        right |= certified & ~decided & (answers == labels)
        decided |= certified
    print(f"certified error {100 * (1 - right.mean()):.2f} % of {len(labels)} images; "
          f"each network alone {', '.join(f'{100 * e:.2f}' for e in alone)} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=("make", "count"))
    parser.add_argument("--checkpoint", help="of make: a .pth of `cifar_model`s")
    parser.add_argument("--data", help="of make: CIFAR-10's binary files")
    parser.add_argument("--out", required=True)
    parser.add_argument("--epsilon", default="8/255", help="of make (default %(default)s)")
    parser.add_argument("--method", default="crown", help="of make: the bounds (default %(default)s)")
    arguments = parser.parse_args()
    {"make": make, "count": count}[arguments.do](arguments)


if __name__ == "__main__":
    main()
