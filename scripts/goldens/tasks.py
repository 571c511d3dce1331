#!/usr/bin/env python3
"""Writes models/heads/testdata/tasks.json: the margins of heads, and their gradients by PyTorch's autograd.

    python3 scripts/goldens/tasks.py

Each case has a task as a config has it, answers and truths, and for each answer by how much the score of right exceeds that
of wrong (of zero-shot: the first class's the second's), with its gradient by the answer. A case has its task's measures over the
answers, too.
"""

import json
import math
import pathlib

import numpy as np
import torch

FILE = pathlib.Path(__file__).resolve().parents[2] / "models" / "heads" / "testdata" / "tasks.json"


def regression(tolerance, period=None):
    def margin(y, t):
        d = y - t
        if period is not None:
            turns = torch.tensor([p if p > 0 else torch.inf for p in period], dtype=torch.float64)
            d = torch.where(torch.isinf(turns), d, torch.remainder(d + turns / 2, turns) - turns / 2)
        return 1 - (d.abs() / torch.tensor(tolerance, dtype=torch.float64)).max()
    return margin


def multilabel(threshold, labels=None):
    def margin(y, t):
        asked = [j for j in range(len(y)) if t[j] >= 0 and (labels is None or j in labels)]
        return min((y[j] - threshold) * (1 if t[j] == 1 else -1) for j in asked)
    return margin


def zero_shot(texts, scale):
    def margin(y, _):
        cosines = torch.nn.functional.cosine_similarity(y[None], torch.tensor(texts, dtype=torch.float64))
        return scale * (cosines[0] - cosines[1])
    return margin


def segmentation(bar, ignore, threshold=0):
    """Four times by how much the share of right pixels exceeds the bar, half a pixel apart from it; the gradient is that
    of the pixels' weighted cross-entropy."""
    def margin(y, t):
        counts = t != ignore
        known = counts & (t < max(len(y), 2))
        own = torch.where(known, t, torch.zeros_like(t)).long()
        z = y if len(y) > 1 else torch.cat([torch.zeros_like(y), y - threshold])
        loss = torch.nn.functional.cross_entropy(z.flatten(1)[None], own.flatten()[None], reduction="none")[0]
        right = (z.argmax(0) == own) & known
        n = int(counts.sum())
        value = 4 * (int(right.sum()) + 0.5 - math.ceil(bar * n - 1e-3)) / n
        soft = (loss * (right.double() + known.double()).flatten() / 8).sum() / n
        return -soft + (soft.detach() + value)
    return margin


def landmarks(tolerance, bar):
    def margin(y, t):
        far = (y - t).reshape(-1, 2).square().sum(1).sqrt().sort().values
        return 1 - far[math.ceil(bar * len(far) - 1e-6) - 1] / tolerance
    return margin


def depth(tolerance, bar):
    def margin(y, t):
        counts = t > 0
        off = (y[counts] / t[counts]).clamp(min=1e-6).log().abs()
        n = int(counts.sum())
        value = 4 * (int((off < math.log1p(tolerance)).sum()) + 0.5 - math.ceil(bar * n - 1e-3)) / n
        return -off.mean() + (off.mean().detach() + value)
    return margin


def count(tolerance):
    return lambda y, t: 1 - (y.sum() - t).abs()[0] / tolerance


def verification(metric, threshold):
    def margin(y, t):
        cosine = torch.nn.functional.cosine_similarity(y[None], t[None, :-1])[0]
        above = threshold - torch.dist(y, t[:-1]) if metric == "l2" else cosine - threshold
        return above * (2 * t[-1] - 1)
    return margin


def measured(task, shape, answers):
    """The task's measures over all the answers, by NumPy."""
    y = np.array([a["answer"] for a in answers])
    t = np.array([a["truth"] for a in answers], dtype=float)
    kind, out = task["Kind"], {}
    if kind == "regression":
        d = np.abs(y - t)
        for k, p in enumerate(task.get("Period", [])):
            if p > 0:
                d[:, k] = np.minimum(d[:, k] % p, p - d[:, k] % p)
        out = {f"mean error of {k}": d[:, k].mean() for k in range(4)}
    if kind == "count":
        out = {"mean error": np.abs(y.sum(1) - t[:, 0]).mean()}
    if kind == "depth":
        known = t > 0
        off = np.abs(np.log(np.maximum(y[known] / t[known], 1e-6)))
        out = {"mean relative error": (np.abs(y[known] - t[known]) / t[known]).mean(),
               "within the tolerance": (off < np.log1p(task["Tolerance"][0])).mean()}
    if kind == "landmarks":
        far = np.hypot(*np.moveaxis((y - t).reshape(len(y), -1, 2), 2, 0))
        out = {f"mean distance of {k}": far[:, k].mean() for k in range(far.shape[1])}
    if kind == "multilabel":
        for k in range(4):
            known = t[:, k] >= 0
            out[f"right on label {k}"] = ((y[known, k] > task.get("Threshold", 0)) == (t[known, k] == 1)).mean()
    if kind == "verification":
        other, same = t[:, :-1], t[:, -1] == 1
        cosine = (y * other).sum(1) / np.linalg.norm(y, axis=1) / np.linalg.norm(other, axis=1)
        l2 = task["Metric"] == "l2"
        accepted = np.linalg.norm(y - other, axis=1) < task["Threshold"] if l2 else cosine > task["Threshold"]
        out = {"falsely accepted": accepted[~same].mean(), "falsely rejected": (~accepted)[same].mean()}
    if kind == "segmentation":
        y = y.reshape(len(y), *shape)
        top = (y.argmax(1) if shape[0] > 1 else y[:, 0] > task.get("Threshold", 0)).reshape(len(y), -1)
        counts = t != task["ignore"]
        classes = [(top[counts] == c, t[counts] == c) for c in range(max(shape[0], 2))]
        ious = {f"IoU of {c}": (a & b).sum() / (a | b).sum() for c, (a, b) in enumerate(classes)}
        out = {"right pixels": (top == t)[counts].mean(), "mean IoU": np.mean(list(ious.values())), **ious}
    return {name: float(value) for name, value in out.items()}


def main():
    generator, cases = torch.Generator().manual_seed(11), []
    normal = lambda *shape: torch.randn(*shape, generator=generator)
    texts = normal(3, 4).tolist()
    masks = lambda: torch.randint(0, 5, (2, 3), generator=generator).float()
    two = lambda: torch.randint(0, 2, (2, 3), generator=generator).float()
    numbers, labels = lambda: 2 * normal(4), lambda: torch.randint(-1, 2, (4,), generator=generator).float()
    twin = lambda: torch.cat([normal(4), torch.randint(0, 2, (1,), generator=generator)])
    distances = lambda: torch.cat([normal(3).exp(), torch.zeros(1)])[torch.randperm(4, generator=generator)]
    for task, margin, truth in [
        ({"Kind": "regression", "Tolerance": [0.5]}, regression([0.5]), numbers),
        ({"Kind": "regression", "Tolerance": [0.5, 1, 0.3, 4], "Period": [0, 3, 0.7, 0]},
         regression([0.5, 1, 0.3, 4], [0, 3, 0.7, 0]), numbers),
        ({"Kind": "multilabel", "Threshold": 0.25}, multilabel(0.25), labels),
        ({"Kind": "multilabel", "Labels": [1, 3]}, multilabel(0, [1, 3]), labels),
        ({"Kind": "zero-shot", "Texts": texts, "logit_scale": 30}, zero_shot(texts, 30), lambda: None),
        ({"Kind": "segmentation", "Bar": 0.5, "ignore": 3}, segmentation(0.5, 3), masks),
        ({"Kind": "segmentation", "Bar": 0.75, "ignore": 255}, segmentation(0.75, 255), two),
        ({"Kind": "segmentation", "Bar": 0.6, "ignore": 255, "Threshold": 0.5}, segmentation(0.6, 255, 0.5), two),
        ({"Kind": "verification", "Metric": "cosine", "Threshold": 0.3}, verification("cosine", 0.3), twin),
        ({"Kind": "verification", "Metric": "l2", "Threshold": 2}, verification("l2", 2), twin),
        ({"Kind": "landmarks", "Tolerance": [1.5], "Bar": 0.5}, landmarks(1.5, 0.5), numbers),
        ({"Kind": "depth", "Tolerance": [1], "Bar": 0.5}, depth(1, 0.5), distances),
        ({"Kind": "count", "Tolerance": [2.5]}, count(2.5), lambda: normal(1)),
    ]:
        answers = []
        shape = {masks: (3, 2, 3), two: (1, 2, 3)}.get(truth, (4,))
        while len(answers) < 20:
            y, t = (2 * normal(*shape)).double().requires_grad_(), truth()
            if t is not None and task["Kind"] == "multilabel" and all(t[j] < 0 for j in task.get("Labels", range(4))):
                continue # no label counts
            value = margin(y, t if t is None else t.double())
            answers.append({"answer": y.flatten().tolist(), "truth": [] if t is None else t.flatten().tolist(),
                            "margin": value.item(), "gradient": torch.autograd.grad(value, y)[0].flatten().tolist()})
        cases.append({"task": task, "shape": shape, "answers": answers,
                      "measures": measured(task, shape, answers)})
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps({"torch": torch.__version__, "cases": cases}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
