#!/usr/bin/env python3
"""Writes the closed-loop network that Croce et al. (2022, "Evaluating the adversarial robustness of adaptive test-time
defenses") evaluate as chen_2021, with its control, as one ONNX file; and the network alone.

    python3 scripts/verify/closed_loop.py --checkpoint resnet20_model.ckpt --data data/cifar-10-batches-bin --out loop
    selfheal attack loop/controlled.onnx --data data/cifar-10-batches-bin --epsilon 2/255 --attack aa-adaptive

The checkpoint is chen_2021/…/models_cifar10/resnet20_model.ckpt of github.com/fra31/evaluating-adaptive-test-time-defenses.
The control is as that repository runs it: linear embeddings of the image and the states after the first layer and each
group of blocks, from 5,000 training images that the network is right on (99 % of the sum of singular values), and five
steps of Adam (rate 0.005) on all controls at once, of which the best is kept. Its program centres the states by the mean
of the batch, so that an answer depends on the other images in it; a file that answers each image alone takes the mean of
the 5,000 images. The gradient by the controls is written out, so that the file needs no training operators.
"""

import argparse
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

import torch
from torch import nn
from torch.nn import functional

from zoo import datasets, exporters

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
IMAGES, ENERGY, STEPS, RATE = 5000, 0.99, 5, 0.005
BATCH = 16  # of the repository's evaluation; its loss is a mean over the batch
LEAK = 0.1
SHAPES = [(3, 32, 32), (16, 32, 32), (16, 32, 32), (32, 16, 16), (64, 8, 8)]


def folded(state, conv, norm):
    """A convolution and the normalisation behind it, as weight and bias."""
    scale = state[f"{norm}.weight"] / torch.sqrt(state[f"{norm}.running_var"] + 1e-5)
    bias = state[f"{norm}.bias"] - scale * state[f"{norm}.running_mean"]
    return nn.Parameter(scale.reshape(-1, 1, 1, 1) * state[f"{conv}.weight"]), nn.Parameter(bias)


class Block(nn.Module):
    """A residual block, and its derivative's transpose. An activation's slope below 0 is LEAK."""

    def __init__(self, state, name):
        super().__init__()
        self.weight1, self.bias1 = folded(state, f"{name}.conv1", f"{name}.bn1")
        self.weight2, self.bias2 = folded(state, f"{name}.conv2", f"{name}.bn2")
        self.shrinks = self.weight1.shape[0] != self.weight1.shape[1]
        self.added = (self.weight1.shape[0] - self.weight1.shape[1]) // 2  # channels on either side

    def forward(self, x):
        """The block's output, and the slopes of its two activations."""
        inner = functional.conv2d(x, self.weight1, self.bias1, stride=2 if self.shrinks else 1, padding=1)
        beside = functional.pad(functional.avg_pool2d(x, 2), (0, 0, 0, 0, self.added, self.added)) if self.shrinks else x
        outer = functional.conv2d(functional.leaky_relu(inner, LEAK), self.weight2, self.bias2, padding=1) + beside
        return functional.leaky_relu(outer, LEAK), (slope(inner), slope(outer))

    def back(self, g, slopes):
        g = g * slopes[1]
        inner = functional.conv_transpose2d(g, self.weight2, padding=1) * slopes[0]
        if not self.shrinks:
            return g + functional.conv_transpose2d(inner, self.weight1, padding=1)
        beside = functional.interpolate(g[:, self.added:g.shape[1] - self.added], scale_factor=2.0, mode="nearest") / 4
        return beside + functional.conv_transpose2d(inner, self.weight1, stride=2, padding=1, output_padding=1)


class First(nn.Module):
    """The first layer. The controlled network has a ReLU where the network alone has a leaky one."""

    def __init__(self, state, leak):
        super().__init__()
        self.weight, self.bias = folded(state, "conv1", "bn1")
        self.leak = leak

    def forward(self, x):
        y = functional.conv2d(x, self.weight, self.bias, padding=1)
        return functional.leaky_relu(y, self.leak), slope(y, self.leak)

    def back(self, g, slopes):
        return functional.conv_transpose2d(g * slopes, self.weight, padding=1)


def slope(x, leak=LEAK):
    return torch.where(x > 0, 1.0, leak)


class Network(nn.Module):
    """The network in four segments, and its classifier."""

    def __init__(self, state, leak):
        super().__init__()
        groups = [[Block(state, f"layer{g}.{k}") for k in range(3)] for g in (1, 2, 3)]
        self.segments = nn.ModuleList(nn.ModuleList(s) for s in [[First(state, leak)], *groups])
        self.weight, self.bias = nn.Parameter(state["linear.weight"]), nn.Parameter(state["linear.bias"])

    def segment(self, t, x):
        slopes = []
        for part in self.segments[t]:
            x, s = part(x)
            slopes.append(s)
        return x, slopes

    def back(self, t, g, slopes):
        for part, s in zip(reversed(self.segments[t]), reversed(slopes)):
            g = part.back(g, s)
        return g

    def classify(self, x):
        return functional.linear(x.mean(dim=(2, 3)), self.weight, self.bias)

    def forward(self, x):
        for t in range(len(self.segments)):
            x, _ = self.segment(t, x)
        return self.classify(x)


class OnPixels(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.register_buffer("mean", torch.tensor(MEAN).reshape(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(STD).reshape(1, 3, 1, 1))

    def forward(self, x):
        return self.inner((x - self.mean) / self.std)


class Controlled(nn.Module):
    """The network under its control. bases are [values, rank], with orthonormal columns."""

    def __init__(self, network, bases, means):
        super().__init__()
        self.network = network
        for t, (basis, mean) in enumerate(zip(bases, means)):
            self.register_buffer(f"basis{t}", basis)
            self.register_buffer(f"mean{t}", mean)

    def residual(self, t, z):
        centred = z.flatten(1) - getattr(self, f"mean{t}")
        basis = getattr(self, f"basis{t}")
        return centred - (centred @ basis) @ basis.T

    def pass_through(self, x, controls):
        """The controlled states, the slopes of each segment, each state's residual, and the loss of each image."""
        states, slopes, residuals, loss = [], [], [], 0.0
        for t, u in enumerate(controls):
            z = x + u
            r = self.residual(t, z)
            loss = loss + (r * r).mean(dim=1)
            states.append(z)
            residuals.append(r)
            if t < len(controls) - 1:
                x, s = self.network.segment(t, z)
                slopes.append(s)
        return states, slopes, residuals, loss

    def gradients(self, residuals, slopes):
        found, g = [], 0.0
        for t in reversed(range(len(residuals))):
            r = residuals[t]
            own = (2.0 / BATCH / r.shape[1] * r).reshape(-1, *SHAPES[t])
            g = own + (self.network.back(t, g, slopes[t]) if t < len(slopes) else 0.0)
            found.append(g)
        return found[::-1]

    def forward(self, x):
        controls, state = [], x
        for t in range(len(SHAPES)):
            controls.append(state * 0.0)
            if t < len(SHAPES) - 1:
                state, _ = self.network.segment(t, state)
        first, second = list(controls), list(controls)
        best = out = None
        for step in range(1, STEPS + 1):
            states, slopes, residuals, loss = self.pass_through(x, controls)
            if best is None:
                best, out = loss, states[-1]
            else:
                better = loss < best
                out = torch.where(better.reshape(-1, 1, 1, 1), states[-1], out)
                best = torch.minimum(loss, best)
            if step == STEPS:  # the last step's controls are never looked at
                break
            for t, g in enumerate(self.gradients(residuals, slopes)):
                first[t] = 0.9 * first[t] + 0.1 * g
                second[t] = 0.999 * second[t] + 0.001 * g * g
                # A root of 0 has no derivative; 1e-12 is far below Adam's own 1e-8.
                size = torch.sqrt(second[t] / (1 - 0.999**step) + 1e-24) + 1e-8
                controls[t] = controls[t] - RATE / (1 - 0.9**step) * first[t] / size
        return self.network.classify(out)


def principal(states):
    """A basis of ENERGY of the sum of the singular values, and the mean."""
    mean = states.mean(dim=0)
    centred = (states - mean).double()
    values, vectors = torch.linalg.eigh(centred @ centred.T)
    singular = values.flip(0).clamp(min=0).sqrt()
    rank = int((singular.cumsum(0) / singular.sum() <= ENERGY).sum()) + 1
    basis = centred.T @ vectors.flip(1)[:, :rank] / singular[:rank]
    return basis.float(), mean


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--data", required=True, help="CIFAR-10's binary files")
    parser.add_argument("--images", type=int, default=IMAGES, help="that embeddings are made of (default %(default)s)")
    parser.add_argument("--out", required=True)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    state = torch.load(arguments.checkpoint, map_location="cpu", weights_only=True)
    alone, network = Network(state, LEAK).eval(), Network(state, 0.0).eval()
    data = datasets.load("cifar10", pathlib.Path(arguments.data), True)
    generator = torch.Generator().manual_seed(arguments.seed)
    mean, std = (torch.tensor(v).reshape(1, 3, 1, 1) for v in (MEAN, STD))
    with torch.no_grad():
        kept = []
        for chosen in torch.randperm(len(data.images), generator=generator).split(500):
            x = (datasets.augment(data.images[chosen], 4, 32, generator).float() / 255 - mean) / std
            kept.append(x[alone(x).argmax(dim=1) == data.labels[chosen]])
            if sum(len(k) for k in kept) >= arguments.images:
                break
        x = torch.cat(kept)[:arguments.images]
        bases, means = [], []
        for t in range(len(SHAPES)):
            basis, centre = principal(x.flatten(1))
            print(f"state {t}: rank {basis.shape[1]} of {basis.shape[0]}", flush=True)
            bases.append(basis)
            means.append(centre)
            if t < len(SHAPES) - 1:
                x = torch.cat([network.segment(t, part)[0] for part in x.split(500)])
    controlled = Controlled(network, bases, means)
    check(controlled)
    out = pathlib.Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    for name, net in ("alone", alone), ("controlled", controlled):
        example = torch.rand(2, 3, 32, 32)
        (out / f"{name}.onnx").write_bytes(exporters.export(OnPixels(net).eval(), example, "torchscript", 17, "x", "z"))


def check(controlled):
    """Holds the gradient that is written out against PyTorch's."""
    x = torch.rand(2, 3, 32, 32)
    controls, state = [], x
    for t, shape in enumerate(SHAPES):
        controls.append((0.01 * torch.rand(2, *shape)).requires_grad_())
        if t < len(SHAPES) - 1:
            state, _ = controlled.network.segment(t, state)
    _, slopes, residuals, loss = controlled.pass_through(x, controls)
    want = torch.autograd.grad(loss.sum() / BATCH, controls)
    for g, w in zip(controlled.gradients(residuals, slopes), want):
        worst = ((g - w).abs().max() / w.abs().max()).item()
        assert worst < 1e-3, f"the gradient that is written out is wrong by {worst}"


if __name__ == "__main__":
    main()
