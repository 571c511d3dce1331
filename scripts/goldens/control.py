#!/usr/bin/env python3
"""Writes the golden gradients through the closed loop: PyTorch differentiates the unrolled solver in float64.

    go build -o /tmp/selfheal . && python3 scripts/goldens/control.py --selfheal /tmp/selfheal

A bundled network is cut by `selfheal split`; its segments and embeddings run as PyTorch modules (onnx_network.py).
The solver is written here once more, after the paper's Algorithm 1, and every gradient in it keeps its graph, so that
autograd goes through sweeps, adjoints and inner steps. The result, control/testdata/through.json, holds for every
solver and image the logits, the cross-entropy and its gradients by the image, with the controls held and through
them, as base64 of little-endian float32.

Used: Python 3.11, PyTorch 1.13, onnx 1.12, numpy 1.24.
"""

import argparse
import base64
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

import numpy as np
import torch
from torch.nn import functional

from zoo import onnx_network

ROOT = pathlib.Path(__file__).resolve().parents[2]
ZOO = ROOT / "models" / "zoo"
IMAGES = (3, 11)  # of shapes10/test.bin
GREY = 0.2  # share of grey mixed into an image, so that no answer is so sure that its loss is flat
SOLVERS = (
    {"name": "greedy", "outer": 0, "inner": 0},
    {"name": "msa", "outer": 3, "inner": 10, "regularization": 0.001, "learning_rate": 0.003, "momentum": 0.5},
    {"name": "pmp", "outer": 4, "inner": 1, "regularization": 0.1, "learning_rate": 0.01, "momentum": 0.0},
)


def resize(node, x, *sizes):
    """Nearest neighbours, a whole number of copies of each pixel."""
    if node.get("mode") != "nearest" or node.get("coordinate_transformation_mode") != "asymmetric":
        raise onnx_network.Unsupported(f"Resize to {node.output}: only asymmetric nearest neighbours")
    if len(sizes) == 3:  # roi, scales and the sizes themselves
        factor = int(sizes[2][-1]) // x.shape[-1]
    else:
        factor = int(sizes[1][-1])
    return x.repeat_interleave(factor, 2).repeat_interleave(factor, 3)


onnx_network.OPERATORS["Resize"] = resize


def module(path):
    """An ONNX file as a function in float64."""
    network = onnx_network.OnnxNetwork(path)
    for name, constant in network.constants.items():
        if constant.is_floating_point() and "roi" not in name:
            network.constants[name] = constant.double()
    return network


def solve(segments, embeddings, solver, image, keep):
    """The controls u_t and the logits; with `keep` both depend on the image for autograd."""
    last, first, stages = max(embeddings), min(embeddings), len(segments)
    x, z, u = [image] + [None] * stages, [None] * stages, {}

    def forward(greedy, end):
        for t in range(end):
            if greedy and t in embeddings:
                u[t] = embeddings[t](x[t]) - x[t]
            z[t] = x[t] + u[t] if t in u else x[t]
            x[t + 1] = segments[t](z[t])
        if end == last:
            if greedy:
                u[last] = embeddings[last](x[last]) - x[last]
            z[last] = x[last] + u[last]

    def ascent(t, state, p):
        """The gradient of p.F_t(z) - |E_t(z) - z|^2 / 2 by z, p held: z's copy is none of p's ancestors."""
        state = state.clone()
        hamiltonian = 0.0
        if p is not None:
            hamiltonian = hamiltonian + (p * segments[t](state)).sum()
        if t in embeddings:
            hamiltonian = hamiltonian - (embeddings[t](state) - state).square().sum() / 2
        return torch.autograd.grad(hamiltonian, state, create_graph=keep)[0]

    forward(True, last if solver["outer"] else stages)
    for sweep in range(solver["outer"]):
        if sweep:
            forward(False, last)
        p = None
        for t in range(last, first - 1, -1):
            if t in embeddings:
                v = 0.0
                for _ in range(solver["inner"]):
                    v = solver["momentum"] * v + ascent(t, z[t], p) - solver["regularization"] * u[t]
                    u[t] = u[t] + solver["learning_rate"] * v
                    z[t] = x[t] + u[t]
            if t > first:
                p = ascent(t, z[t], p)
    if solver["outer"]:
        forward(False, stages)
    return u, x[stages]


def gradients(segments, embeddings, solver, image, label):
    """Logits, loss, and the loss's gradients by the image: through the controls, and with the controls held."""
    image = image.clone().requires_grad_(True)
    u, logits = solve(segments, embeddings, solver, image, keep=True)
    loss = functional.cross_entropy(logits, label)
    (through,) = torch.autograd.grad(loss, image)
    state = image
    for t, segment in enumerate(segments):
        state = segment(state + u[t].detach() if t in u else state)
    (detached,) = torch.autograd.grad(functional.cross_entropy(state, label), image)
    return logits.detach(), float(loss), through, detached


def packed(tensor):
    return base64.b64encode(tensor.numpy().astype("<f4").tobytes()).decode()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--selfheal", required=True, help="the built program")
    parser.add_argument("--out", default=str(ROOT / "control" / "testdata" / "through.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    records = np.fromfile(ZOO / "shapes10" / "test.bin", np.uint8).reshape(-1, 3073)
    with tempfile.TemporaryDirectory(prefix="selfheal-goldens-") as folder:
        subprocess.run([arguments.selfheal, "split", str(ZOO / "preact_standard.onnx"), "--out", folder], check=True, capture_output=True)
        segments = [module(path) for path in sorted(pathlib.Path(folder).glob("F*.onnx"))]
    embeddings = {0: module(ZOO / "input_ae.onnx"), len(segments) - 1: module(ZOO / "hidden_ae.onnx")}
    cases = []
    for solver in SOLVERS:
        for index in IMAGES:
            pixels = torch.from_numpy(records[index, 1:].astype(np.float32) / np.float32(255)).reshape(1, 3, 32, 32)
            image = ((1 - GREY) * pixels + GREY / 2).float().double()
            label = torch.tensor([int(records[index, 0])])
            logits, loss, through, detached = gradients(segments, embeddings, solver, image, label)
            cases.append({"solver": solver, "image": packed(image), "label": int(label), "logits": logits[0].tolist(), "loss": loss,
                          "through": packed(through), "detached": packed(detached)})
            print(f"{solver['name']}, image {index}: loss {loss:.6f}, |through| {float(through.norm()):.4f}, |detached| {float(detached.norm()):.4f}")
    pathlib.Path(arguments.out).parent.mkdir(exist_ok=True)
    pathlib.Path(arguments.out).write_text(json.dumps({"torch": torch.__version__, "cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
