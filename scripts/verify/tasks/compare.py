#!/usr/bin/env python3
"""Attacks the networks of data.py by selfheal and by a PGD in PyTorch, and compares them image by image.

    python3 scripts/verify/tasks/compare.py [--restarts 1] FOLDER SELFHEAL [NAME...]

Both take 40 steps of a quarter of epsilon from each of their random starts. ONNX Runtime judges both: it runs the file
on each step of PyTorch's and, once more, on the images that selfheal has saved. selfheal's vector-Jacobian graph is
compared with PyTorch's gradient in float64 on the first 8 images. Each network gives one line, and FOLDER/NAME/results
has selfheal's report. All networks take an hour on one core.
"""

import argparse
import dataclasses
import functools
import json
import math
import pathlib
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import onnxruntime
import torch
from torch.nn import functional

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2]))  # onnx_torch imports from the room zoo

import onnx_torch

STEPS, CHECKED = 40, 8
LOGIT = math.log(0.3 / 0.7)  # the text detector's threshold in front of its Sigmoid

# ----------------------------- margins: (answers [n, K], truths [n, ...]) -> [n], above 0 where the answer is right


def regression(tolerance):
    return lambda y, t: 1 - ((y - t).abs() / tolerance).amax(1)


def multilabel(threshold):
    def margin(y, t):
        return torch.where(t >= 0, (y - threshold) * (2 * t - 1), math.inf).amin(1)

    return margin


def real_or_spoof(y, t):
    return (2 * t[:, 0] - 1) * (y[:, 0] - y[:, 1])


def cosines(y, texts):
    return 100 * functional.normalize(y.double()) @ functional.normalize(texts).T


def zero_shot(y, t, texts):
    scores, own = cosines(y, texts), t.long()
    return scores.gather(1, own)[:, 0] - scores.scatter(1, own, -math.inf).amax(1)


def cross_entropy(y, t, texts):
    return -functional.cross_entropy(cosines(y, texts), t[:, 0].long(), reduction="none")


def pixel_classes(y, t, classes):
    """Scores [n, classes, P], classes [n, P], which pixels count, and which are right; 255 does not count."""
    y = y.reshape(len(y), classes, -1)
    scores = torch.cat([torch.zeros_like(y), y], 1) if classes == 1 else y
    counts = t != 255
    own = torch.where(counts, t, 0).long()
    chosen = (scores[:, 1] > 0).long() if classes == 1 else scores.argmax(1)
    return scores, own, counts, (chosen == own) & counts


def segmentation(bar, classes):
    def margin(y, t):
        _, _, counts, right = pixel_classes(y, t, classes)
        return 4 * (right.sum(1) + 0.5 - torch.ceil(bar * counts.sum(1) - 1e-3)) / counts.sum(1)

    return margin


def weighted_pixels(classes):
    """The pixels' cross-entropy, in which right pixels weigh twice as much, negated."""

    def descended(y, t):
        scores, own, counts, right = pixel_classes(y, t, classes)
        losses = functional.cross_entropy(scores, own, reduction="none")
        return -(losses * (counts.double() + right.double())).sum(1) / counts.sum(1)

    return descended


def detection(y, t):
    """How surely a box of Yolo-FastestV2's grid shows the object: the best box's worst condition."""
    y, t = y.reshape(len(y), 605, 95), t.to(y.dtype)
    rows = torch.arange(605)
    size = torch.where(rows < 484, 22, 11)
    at = torch.where(rows < 484, rows, rows - 484)
    cell = torch.stack([at % size, at // size], -1)[:, None]
    pixels = torch.where(rows < 484, 16, 32)[:, None, None]
    small, large = (12.64, 19.39, 37.88, 51.48, 55.71, 138.31), (126.91, 78.23, 131.57, 214.55, 279.92, 258.87)
    anchors = torch.where((rows < 484)[:, None], torch.tensor(small), torch.tensor(large)).reshape(605, 3, 2)
    box = y[..., :12].reshape(len(y), 605, 3, 4)
    centre, extent = (2 * box[..., :2] - 0.5 + cell) * pixels, 4 * box[..., 2:] ** 2 * anchors
    first, second = t[:, None, None, :2], t[:, None, None, 2:4]
    cut = (torch.minimum(centre + extent / 2, second) - torch.maximum(centre - extent / 2, first)).clamp(min=0).prod(-1)
    overlap = cut / (extent.prod(-1) + (second - first).prod(-1) - cut)
    classes, c = y[..., 15:], t[:, 4:].argmax(-1)
    own = classes[torch.arange(len(y)), :, c]
    rest = classes.masked_fill(t[:, None, 4:] > 0, -1).amax(-1)
    each = [overlap - 0.5, y[..., 12:15] - 0.3, (own - 0.3)[..., None], (own - rest)[..., None]]
    return functools.reduce(torch.minimum, each).flatten(1).amax(1)


@dataclasses.dataclass
class Case:
    epsilon: str
    task: str  # selfheal's --task; {} is the case's folder
    margin: Callable
    descended: Callable | None = None  # PGD in PyTorch descends it instead of the margin
    mean: float = 0.0
    std: float = 1.0
    gradients: str = ""  # PGD in PyTorch descends this case's network instead


CASES = {
    "rul": Case("0.001", "regression,tolerance=25", regression(25), mean=4 / 14, std=1 / 14),
    "pfld": Case("0.5/255", "regression,tolerance=0.05", regression(0.05)),
    "mobilefacenet": Case("1.5/255", "zero-shot,texts={}/texts.npy", zero_shot, cross_entropy, 0.5, 0.5),
    "antispoof": Case("0.1/255", "head={}/head.onnx", real_or_spoof),
    "antispoof-int8": Case("0.1/255", "head={}/head.onnx", real_or_spoof),
    "ultraface": Case("0.5/255", "multilabel,threshold=0.5", multilabel(0.5), mean=127 / 255, std=128 / 255),
    "yolo": Case("0.5/255", "head={}/head.onnx", detection),
    # Beside the Sigmoid's ends gradients are 0 in float32; the next case's network ends in front of it.
    "ocr": Case("0.5/255", "multilabel,threshold=0.3", multilabel(0.3), multilabel(LOGIT), 0.5, 0.5, "ocr-kernels"),
    "ocr-kernels": Case("1.5/255", "segmentation,bar=0.9", segmentation(0.9, 1), weighted_pixels(1), 0.5, 0.5),
    "carvana": Case("0.026", "segmentation,bar=0.9025", segmentation(0.9025, 2), weighted_pixels(2)),
}


class Compared:
    """One network, its images x [n, ...] and truths, and ONNX Runtime as its judge."""

    def __init__(self, folder, name, restarts):
        self.folder, self.case, self.restarts = folder / name, CASES[name], restarts
        self.network, self.attacked = (folder / n / "network.onnx" for n in (name, self.case.gradients or name))
        self.x = np.load(self.folder / "x.npy")
        self.truths = torch.from_numpy(np.load(self.folder / "truth.npy").reshape(len(self.x), -1).astype(np.float32))
        texts = self.folder / "texts.npy"
        self.texts = [torch.from_numpy(np.load(texts)).double()] if texts.exists() else []
        self.epsilon = np.divide(*map(float, (self.case.epsilon + "/1").split("/")[:2]))
        self.session = self.open(self.network)

    @staticmethod
    def open(path):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def taken(self, x):
        """Pixels in [0, 1] as the network takes them."""
        return (x - self.case.mean) / self.case.std

    def right(self, x, i):
        """Whether the file's answer to x, changed from image i, is right."""
        feed = {self.session.get_inputs()[0].name: self.taken(x[None].astype(np.float32)).astype(np.float32)}
        answer = torch.from_numpy(self.session.run(None, feed)[0].reshape(1, -1))
        return self.case.margin(answer, self.truths[i : i + 1], *self.texts).item() > 0

    def by_pytorch(self, clean):
        """The images that stand against PGD in PyTorch, of those that are right when clean."""
        network, generator, stand = onnx_torch.Network(self.attacked), torch.Generator().manual_seed(0), clean.copy()
        descended = self.case.descended or self.case.margin
        for i in np.repeat(np.flatnonzero(clean), self.restarts):
            start = torch.from_numpy(self.x[i : i + 1])
            low, high = (start - self.epsilon).clamp(0, 1), (start + self.epsilon).clamp(0, 1)
            x = (start + (torch.rand(start.shape, generator=generator) * 2 - 1) * self.epsilon).clamp(0, 1)
            for step in range(STEPS + 1):
                stand[i] = stand[i] and self.right(x[0].numpy(), i)
                if not stand[i]:
                    break
                if step < STEPS:
                    x.requires_grad_(True)
                    answer = network(self.taken(x)).reshape(1, -1)
                    loss = descended(answer, self.truths[i : i + 1], *self.texts).sum()
                    (gradient,) = torch.autograd.grad(loss, x)
                    x = (x - self.epsilon / 4 * gradient.sign()).detach().clamp(low, high)
        return stand

    def by_selfheal(self, program):
        """The images that are right when clean and that stand, by selfheal, and its adversarial images."""
        case, out = self.case, self.folder / "results"
        command = [program, "attack", self.network, "--task", case.task.format(self.folder), "--epsilon", case.epsilon]
        command += ["--mean", case.mean, "--std", case.std] if case.std != 1 else []
        if (labelled := self.folder / "probes.npz").exists():
            command += ["--data", labelled]
        else:
            command += ["--data", self.folder / "x.npy", "--truth", self.folder / "truth.npy"]
        command += ["--attack", "pgd", "--param", f"steps={STEPS}", "--param", f"restarts={self.restarts}"]
        command += ["--workers", "1", "--save-adversarial", "--out", out, "--force"]
        subprocess.run([str(word) for word in command], check=True, capture_output=True)
        cells = {cell["attack"]: cell for cell in json.loads((out / "results.json").read_text())["cells"]}
        clean, stand = (np.array([v == "1" for v in cells[attack]["verdicts"]]) for attack in ("none", "pgd"))
        (array,) = json.loads((out / "adversarial" / "index.json").read_text())["arrays"]
        return clean, stand, np.load(out / "adversarial" / array["file"])

    def gradients(self, program):
        """How far each image's gradient is from PyTorch's, and how far PyTorch's is from its own at pixels 1e-6 beside.

        Both are the largest difference, relative to the largest entry. At a ReLU's kink both are large.
        """
        graph, sides = self.folder / "vjp.onnx", self.session.get_inputs()[0].shape[2:]
        command = [program, "grad", self.network, "--out", graph, "--force"]
        if any(isinstance(side, str) for side in sides):  # the file leaves the size open
            command += ["--size", "x".join(map(str, self.x.shape[2:]))]
        subprocess.run([str(word) for word in command], check=True, capture_output=True)
        network, graph = onnx_torch.Network(self.network, torch.float64), self.open(graph)
        generator, differences, jumps = torch.Generator().manual_seed(0), [], []
        for x in self.x[:CHECKED]:
            x = torch.from_numpy(self.taken(x[None]).astype(np.float32))
            w = torch.randn(network(x.double()).shape, generator=generator)
            batched = w.reshape(1, *w.shape[-len(graph.get_inputs()[1].shape) + 1 :])  # yolo's answer has no batch
            (found,) = graph.run(["dx"], {"x": x.numpy(), "cotangent": batched.numpy()})
            exact, moved = gradient(network, x, w), x.double() + 1e-6 * torch.randn(x.shape, generator=generator)
            differences.append(np.abs(found - exact).max() / np.abs(exact).max())
            jumps.append(np.abs(gradient(network, moved, w) - exact).max() / np.abs(exact).max())
        return np.array(differences), np.array(jumps)


def gradient(network, x, w):
    """Of the sum of w * network(x) by x, in float64."""
    x = x.double().requires_grad_(True)
    return torch.autograd.grad((w * network(x)).sum(), x)[0].numpy()


def compare(folder, name, program, restarts):
    compared = Compared(folder, name, restarts)
    images, (differences, jumps) = range(len(compared.x)), compared.gradients(program)
    near = differences < 1e-4
    clean, stand, adversarial = compared.by_selfheal(program)
    right = np.array([compared.right(compared.x[i], i) for i in images])
    judged = np.array([compared.right(adversarial[i], i) for i in images])
    other = compared.by_pytorch(right)
    far = np.abs(adversarial.astype(np.float64) - compared.x).max()
    only = [np.flatnonzero(one & ~two).tolist() for one, two in ((stand, other), (other, stand))]
    return (
        f"{name}: clean {clean.sum()} of {len(clean)} (ONNX Runtime: {(clean != right).sum()} other verdicts); "
        f"stand {stand.sum()} against selfheal, {other.sum()} against PyTorch, only one of them {only[0]}, {only[1]}; "
        f"saved images: {(judged != stand).sum()} other verdicts, at most {far / compared.epsilon:.4f} epsilon, "
        f"in [{adversarial.min():g}, {adversarial.max():g}]; gradients of {near.sum()} images off by at most "
        f"{differences[near].max(initial=0):.0e}, the others by {differences[~near].max(initial=0):.0e} "
        f"(PyTorch's own jump by {jumps[~near].max(initial=0):.0e} within 1e-6)"
    )


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=pathlib.Path, help="as data.py has filled it")
    arguments.add_argument("selfheal", help="the program")
    arguments.add_argument("names", nargs="*", help="networks: " + ", ".join(CASES))
    arguments.add_argument("--restarts", type=int, default=1)
    arguments = arguments.parse_args()
    torch.set_num_threads(1)
    for name in arguments.names or CASES:
        print(compare(arguments.folder, name, arguments.selfheal, arguments.restarts), flush=True)


if __name__ == "__main__":
    main()
