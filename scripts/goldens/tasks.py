#!/usr/bin/env python3
"""Writes models/heads/testdata/tasks.json: the margins of heads, and their gradients by PyTorch's autograd.

    python3 scripts/goldens/tasks.py

Each case has a task as a config has it, answers and truths, and for each answer by how much the score of right exceeds that
of wrong (of zero-shot: the first class's the second's), with its gradient by the answer.
"""

import json
import pathlib

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


def main():
    generator, cases = torch.Generator().manual_seed(11), []
    normal = lambda *shape: torch.randn(*shape, generator=generator)
    texts = normal(3, 4).tolist()
    numbers, labels = lambda: 2 * normal(4), lambda: torch.randint(-1, 2, (4,), generator=generator).float()
    for task, margin, truth in [
        ({"Kind": "regression", "Tolerance": [0.5]}, regression([0.5]), numbers),
        ({"Kind": "regression", "Tolerance": [0.5, 1, 2, 4], "Period": [0, 3, 0.7, 0]},
         regression([0.5, 1, 2, 4], [0, 3, 0.7, 0]), numbers),
        ({"Kind": "multilabel", "Threshold": 0.25}, multilabel(0.25), labels),
        ({"Kind": "multilabel", "Labels": [1, 3]}, multilabel(0, [1, 3]), labels),
        ({"Kind": "zero-shot", "Texts": texts, "Scale": 30}, zero_shot(texts, 30), lambda: None),
    ]:
        answers = []
        while len(answers) < 20:
            y, t = (2 * normal(4)).double().requires_grad_(), truth()
            if t is not None and task["Kind"] == "multilabel" and all(t[j] < 0 for j in task.get("Labels", range(4))):
                continue # no label counts
            value = margin(y, t if t is None else t.double())
            answers.append({"answer": y.tolist(), "truth": [] if t is None else t.tolist(), "margin": value.item(),
                            "gradient": torch.autograd.grad(value, y)[0].tolist()})
        cases.append({"task": task, "answers": answers})
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps({"torch": torch.__version__, "cases": cases}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
