#!/usr/bin/env python3
"""Writes attacks/testdata/malt.json: the order of targets of MALT (Melamed et al. 2024) by PyTorch's autograd.

    python3 scripts/goldens/malt.py

The script reads the network from attacks/testdata/reference.json and draws 20 images. For each norm it sorts the wrong
classes t by (z_y − z_t) / ‖∇(z_y − z_t)‖ in the dual norm, the least first.
"""

import json
import pathlib

import torch

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "attacks" / "testdata"
DUAL = {"linf": 1, "l2": 2, "l1": float("inf")}


def main():
    file = json.loads((FOLDER / "reference.json").read_text(encoding="utf-8"))
    inputs, hidden = torch.Size(file["shape"]).numel(), file["hidden"]
    w = torch.tensor(file["w"], dtype=torch.float64).reshape(hidden, inputs)
    b, v = torch.tensor(file["b"], dtype=torch.float64), torch.tensor(file["v"], dtype=torch.float64).reshape(-1, hidden)
    generator, cases = torch.Generator().manual_seed(7), []
    for _ in range(20):
        image = torch.rand(inputs, generator=generator)
        x = image.double().requires_grad_()
        z = v @ torch.tanh(w @ x + b)
        label = int(z.argmax())
        others = [t for t in range(len(z)) if t != label]
        slopes = {t: torch.autograd.grad(z[label] - z[t], x, retain_graph=True)[0] for t in others}
        orders = {norm: sorted(others, key=lambda t, p=p: ((z[label] - z[t]) / torch.linalg.vector_norm(slopes[t], ord=p)).item())
                       for norm, p in DUAL.items()}
        cases.append({"image": image.tolist(), "label": label, "orders": orders})
    (FOLDER / "malt.json").write_text(json.dumps({"torch": torch.__version__, "cases": cases}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
