#!/usr/bin/env python3
"""Repeats the errors of networks of github.com/locuslab/convex_adversarial (Wong & Kolter 2018, Wong et al. 2018).

    python3 scripts/verify/convex_adversarial.py make --checkpoint models_scaled/cifar_small_8px.pth --epsilon 8/255 \\
        --data data/cifar-10-batches-bin --out cascade      # or models/mnist.pth, --epsilon 0.1, MNIST's idx files
    selfheal run --config cascade/config.yaml --out cascade/results
    python3 scripts/verify/convex_adversarial.py count --out cascade

A checkpoint of several networks is a cascade: it asks them one after the other and takes the answer of the first that
certifies its own. So `make` writes each network as stage-K.onnx, and the test images with the network's answers as
labels as stage-K.npz. `count` prints the fraction of images on which no network certifies an answer, or the first that
does is wrong. The authors' ball is not cut off at [0,1]; selfheal's is, and proves a little more.
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

MEAN, STD = [0.485, 0.456, 0.406], [0.225, 0.225, 0.225]  # of CIFAR-10; MNIST's networks take pixels


def network(state):
    """The authors' `cifar_model` or `mnist_model`."""
    channels, width = state["0.weight"].shape[1], state["5.weight"].shape[1]
    layers = nn.Sequential(nn.Conv2d(channels, 16, 4, stride=2, padding=1), nn.ReLU(),
                           nn.Conv2d(16, 32, 4, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(width, 100), nn.ReLU(),
                           nn.Linear(100, 10))
    layers.load_state_dict(state)
    return layers.eval()


def test_images(folder, channels):
    """Bytes [N, C, H, W] and labels."""
    if channels == 3:
        data = datasets.load("cifar10", folder, False)
        return data.images, data.labels
    images = np.fromfile(folder / "t10k-images-idx3-ubyte", np.uint8)[16:].reshape(-1, 1, 28, 28)
    labels = np.fromfile(folder / "t10k-labels-idx1-ubyte", np.uint8)[8:]
    return torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64))


def make(arguments):
    out = pathlib.Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    stages = torch.load(arguments.checkpoint, map_location="cpu", weights_only=True)
    stages = stages.get("state_dict", [stages])
    channels = stages[0]["0.weight"].shape[1]
    images, labels = test_images(pathlib.Path(arguments.data), channels)
    mean, std = (torch.tensor(v).reshape(-1, 1, 1) for v in ((MEAN, STD) if channels == 3 else ([0.0], [1.0])))
    models, sets, suites = [], ["  test: {format: npz, path: test.npz}\n"], []
    np.savez(out / "test.npz", x=images.numpy(), y=labels.numpy())
    for k, state in enumerate(stages):
        net = network(state)
        example = torch.zeros(2, *images.shape[1:])
        (out / f"stage-{k}.onnx").write_bytes(exporters.export(net, example, "torchscript", 17, "x", "z"))
        with torch.no_grad():
            answers = torch.cat([net((x.float() / 255 - mean) / std).argmax(dim=1) for x in images.split(1000)])
        np.savez(out / f"stage-{k}.npz", x=images.numpy(), y=answers.numpy())
        models.append(f"  stage-{k}: {{path: stage-{k}.onnx, preprocess: "
                      f"{{mean: {mean.flatten().tolist()}, std: {std.flatten().tolist()}}}}}\n")
        sets.append(f"  answers-{k}: {{format: npz, path: stage-{k}.npz}}\n")
        suites.append(f"  stage-{k}: {{dataset: answers-{k}, models: [stage-{k}], attacks: [bounds]}}\n")
    names = ", ".join(f"stage-{k}" for k in range(len(stages)))
    (out / "config.yaml").write_text(
        "version: 1\nmodels:\n" + "".join(models) + "datasets:\n" + "".join(sets) + f"""attacks:
  bounds: {{kind: bounds, method: {arguments.method}, norm: linf, epsilon: {arguments.epsilon}}}
  fgsm: {{kind: fgsm, norm: linf, epsilon: {arguments.epsilon}}}
  pgd: {{kind: pgd, norm: linf, epsilon: {arguments.epsilon}, steps: 100}}
  quick: {{kind: autoattack, version: quick, norm: linf, epsilon: {arguments.epsilon}}}
suites:
  attacked: {{dataset: test, models: [{names}], attacks: [fgsm, pgd, quick]}}
""" + "".join(suites))


def count(arguments):
    out = pathlib.Path(arguments.out)
    labels = np.load(out / "test.npz")["y"]
    results = json.loads((out / "results" / "results.json").read_text())
    decided, right, alone = np.zeros(len(labels), bool), np.zeros(len(labels), bool), []
    for k in range(len(list(out.glob("stage-*.onnx")))):
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
