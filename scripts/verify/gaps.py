#!/usr/bin/env python3
"""Builds seven defences that hide their gradients, and attacks each by hand: what an adaptive attack must find.

    python3 scripts/verify/gaps.py make --network resnet20.onnx --data data/cifar-10-batches-bin --out gaps
    python3 scripts/verify/gaps.py attack --network resnet20.onnx --data data/cifar-10-batches-bin --out gaps bits3 …

`make` writes NAME.onnx, and trains the networks of `kwta` and `thermometer` first (a small ResNet, minutes). The others
stand around `--network`, a CIFAR-10 classifier on pixels in [0,1] after (x − mean) / std. `attack` runs PGD of 500 steps
and 10 restarts in ℓ∞ or ℓ2 through PyTorch, with a slope where the defence has none, the mean gradient where it draws at random
or jumps, and the loss that suits it. Half of the restarts ascend the cross-entropy, half the margin. It writes
NAME-NORM-EPSILON.npz (ℓ∞: in 255ths) with `verdicts` (1 = stands) and `adversarial`.

| defence | what it does | by hand |
|---|---|---|
| `bits3` | pixels of 3 bits | rounding has the slope 1 |
| `jpeg` | 8×8 DCT of Y, Cb, Cr, rounded to multiples of JPEG's tables | likewise |
| `times1e4` | probabilities × 10 of logits × 10⁴ | the margin of the logits before |
| `dropout` | dropout left on behind every ReLU of the last stage | the mean gradient of 20 draws |
| `meansparse` | what lies near a channel's mean becomes the mean, before every ReLU (Amini et al. 2024) | slope 1 |
| `thermometer` | 16 thermometers for each value (Buckman et al. 2018) | each level has the slope of a ramp |
| `kwta` | the k largest activations of each layer (Xiao et al. 2020) | the mean gradient of 20 points nearby |
"""

import argparse
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from zoo import datasets, onnx_network

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
LUMINANCE = [
    [16, 11, 10, 16, 24, 40, 51, 61], [12, 12, 14, 19, 26, 58, 60, 55], [14, 13, 16, 24, 40, 57, 69, 56],
    [14, 17, 22, 29, 51, 87, 80, 62], [18, 22, 37, 56, 68, 109, 103, 77], [24, 35, 55, 64, 81, 104, 113, 92],
    [49, 64, 78, 87, 103, 121, 120, 101], [72, 92, 95, 98, 112, 100, 103, 99]]
CHROMINANCE = [
    [17, 18, 24, 47, 99, 99, 99, 99], [18, 21, 26, 66, 99, 99, 99, 99], [24, 26, 56, 99, 99, 99, 99, 99],
    [47, 66, 99, 99, 99, 99, 99, 99], *[[99] * 8] * 4]


class Slope:
    """Whether operators without a derivative get a slope: off while a defence is exported."""

    on = False


def sloped(exact, soft):
    return soft + (exact - soft).detach() if Slope.on else exact


class Bits(nn.Module):
    def forward(self, x):
        return sloped(torch.round(x * 7) / 7, x)


class Jpeg(nn.Module):
    """JPEG's losses at a quality, without chroma subsampling."""

    def __init__(self, quality=50):
        super().__init__()
        k = torch.arange(8.0)
        dct = torch.cos((2 * k[None] + 1) * k[:, None] * torch.pi / 16) / 2
        dct[0] /= 2 ** 0.5
        basis = torch.einsum("ui,vj->uvij", dct, dct).reshape(64, 1, 8, 8)
        self.register_buffer("basis", basis.repeat(3, 1, 1, 1))
        scale = 5000 / quality if quality < 50 else 200 - 2 * quality
        tables = torch.tensor([LUMINANCE, CHROMINANCE, CHROMINANCE]).float()
        self.register_buffer("steps", ((tables * scale + 50) // 100).clamp(1, 255).reshape(1, 192, 1, 1))
        colours = torch.tensor([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]])
        self.register_buffer("forth", colours.reshape(3, 3, 1, 1))
        self.register_buffer("back", torch.linalg.inv(colours).reshape(3, 3, 1, 1))

    def forward(self, x):
        y = functional.conv2d(255 * x, self.forth) - torch.tensor([128.0, 0, 0]).reshape(1, 3, 1, 1)
        y = functional.conv2d(y, self.basis, stride=8, groups=3) / self.steps
        y = sloped(torch.round(y), y) * self.steps
        y = functional.conv_transpose2d(y, self.basis, stride=8, groups=3)
        y = functional.conv2d(y + torch.tensor([128.0, 0, 0]).reshape(1, 3, 1, 1), self.back) / 255
        return sloped(y.clamp(0, 1), y)


class Around(nn.Module):
    """A network behind a module of images, and perhaps with functions in front of or behind its ReLUs."""

    def __init__(self, path, front=None, before=None, behind=None):
        super().__init__()
        self.front, self.network = front or nn.Identity(), onnx_network.OnnxNetwork(path, MEAN, STD).eval()
        relus = [node for node in self.network.nodes if node.operator == "Relu"]
        for i, node in enumerate(relus):
            def run(values, node=node, i=i):
                x = values[node.inputs[0]]
                x = functional.relu(before(i, x) if before else x)
                return behind(i, x, len(relus)) if behind else x
            node.run = run

    def forward(self, x):
        return self.network(self.front(x))


class Times(nn.Module):
    def __init__(self, network, factor=1e4):
        super().__init__()
        self.network, self.factor = network, factor

    def forward(self, x):
        z = self.network(x)
        return z if Slope.on else 10 * torch.softmax(self.factor * z, 1)


class MeanSparse:
    """Values within `alpha` deviations of their channel's mean become the mean."""

    def __init__(self, path, images, alpha):
        self.alpha, self.moments = alpha, {}
        def look(i, x):
            self.moments[i] = (x.mean((0, 2, 3), keepdim=True), x.std((0, 2, 3), keepdim=True))
            return x
        with torch.no_grad():
            Around(path, before=look)(images)

    def __call__(self, i, x):
        mean, deviation = self.moments[i]
        return sloped(torch.where((x - mean).abs() < self.alpha * deviation, mean.expand_as(x), x), x)


class Thermometer(nn.Module):
    levels = 16

    def forward(self, x):
        at = torch.arange(self.levels).float().reshape(1, 1, -1, 1, 1) / self.levels
        x = x[:, :, None]
        codes = sloped((x > at).float(), ((x - at) * self.levels).clamp(0, 1))
        return codes.flatten(1, 2)


class KWTA(nn.Module):
    """The share of the largest activations of an image stays, the rest becomes 0."""

    def __init__(self, share=0.1):
        super().__init__()
        self.share = share

    def forward(self, x):
        rows = x.flatten(1)
        least = rows.topk(max(1, int(self.share * rows.shape[1])), dim=1).values[:, -1:]
        return torch.where(rows >= least, rows, torch.zeros_like(rows)).reshape(x.shape)


class Block(nn.Module):
    def __init__(self, into, out, stride, activation):
        super().__init__()
        self.body = nn.Sequential(nn.BatchNorm2d(into), activation(), nn.Conv2d(into, out, 3, stride, 1, bias=False),
                                  nn.BatchNorm2d(out), activation(), nn.Conv2d(out, out, 3, 1, 1, bias=False))
        self.beside = nn.Identity() if into == out and stride == 1 else nn.Conv2d(into, out, 1, stride, bias=False)

    def forward(self, x):
        return self.body(x) + self.beside(x)


def small(inputs, activation=nn.ReLU, width=24):
    """A pre-activation ResNet of four blocks."""
    return nn.Sequential(nn.Conv2d(inputs, width, 3, 1, 1, bias=False), Block(width, width, 1, activation),
                         Block(width, 2 * width, 2, activation), Block(2 * width, 4 * width, 2, activation),
                         Block(4 * width, 4 * width, 1, activation), nn.BatchNorm2d(4 * width), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, 10))


TRAINED = {"kwta": lambda: small(3, KWTA), "thermometer": lambda: nn.Sequential(Thermometer(), small(48))}


def train(network, images, labels, epochs, batch=128, rate=0.1):
    steps = epochs * (len(images) // batch)
    optimizer = torch.optim.SGD(network.parameters(), rate, 0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, steps)
    network.train()
    for epoch in range(epochs):
        right = 0
        order = torch.randperm(len(images))
        for k in range(len(images) // batch):
            at = order[k * batch:(k + 1) * batch]
            x, y = images[at], labels[at]
            if torch.rand(1) < 0.5:
                x = x.flip(3)
            dx, dy = torch.randint(0, 9, (2,))
            x = functional.pad(x, (4, 4, 4, 4))[:, :, dy:dy + 32, dx:dx + 32]
            z = network(x)
            optimizer.zero_grad()
            functional.cross_entropy(z, y).backward()
            optimizer.step()
            schedule.step()
            right += (z.argmax(1) == y).sum().item()
        print(f"epoch {epoch + 1}: {100 * right / (k + 1) / batch:.1f} %", flush=True)
    return network.eval()


def build(name, arguments, images):
    """The defence as a module."""
    path = arguments.network
    if name in TRAINED:
        network = TRAINED[name]()
        network.load_state_dict(torch.load(arguments.out / f"{name}.pt"))
        return network.eval()
    return {"bits3": lambda: Around(path, Bits()), "jpeg": lambda: Around(path, Jpeg()),
            "times1e4": lambda: Times(Around(path)),
            "dropout": lambda: Around(path, behind=lambda i, x, n: functional.dropout(x, arguments.dropout, i >= n - 6)),
            "meansparse": lambda: Around(path, before=MeanSparse(path, images[:1000], arguments.alpha)),
            }[name]()


def answers(network, x, votes):
    """Logits, or the votes of several passes."""
    with torch.no_grad():
        return sum(functional.one_hot(network(x).argmax(1), 10) for _ in range(votes)) if votes > 1 else network(x)


def gradient(network, name, x, y, margin, epsilon):
    """The gradient, and the mean of several where the defence draws or jumps."""
    total = torch.zeros_like(x)
    for _ in range({"dropout": 20, "kwta": 20}.get(name, 1)):
        beside = x + epsilon / 2 * (2 * torch.rand_like(x) - 1) if name == "kwta" else x
        at = beside.clamp(0, 1).detach().requires_grad_()
        z = network(at)
        if margin:
            other = z - 1e9 * functional.one_hot(y, z.shape[1])
            loss = (other.max(1).values - z.gather(1, y[:, None])[:, 0]).sum()
        else:
            loss = functional.cross_entropy(z, y, reduction="sum")
        total += torch.autograd.grad(loss, at)[0]
    return total


def lengths(d):
    return d.flatten(1).norm(dim=1).clamp(min=1e-12)[:, None, None, None]


class Ball:
    """A ball of ℓ∞ or ℓ2 around images, cut to [0, 1]."""

    def __init__(self, norm, epsilon):
        self.l2, self.epsilon = norm == "l2", epsilon

    def start(self, clean):
        if self.l2:
            d = torch.randn_like(clean)
            return (clean + self.epsilon * d / lengths(d)).clamp(0, 1)
        return (clean + self.epsilon * (2 * torch.rand_like(clean) - 1)).clamp(0, 1)

    def unit(self, g):
        """The direction of a step of length 1."""
        return g / lengths(g) if self.l2 else g.sign()

    def project(self, x, clean):
        d = x - clean
        d = d * (self.epsilon / lengths(d)).clamp(max=1) if self.l2 else d.clamp(-self.epsilon, self.epsilon)
        return (clean + d).clamp(0, 1)


def attack(network, name, images, labels, ball, steps=500, restarts=10, votes=1):
    """Verdicts and adversarial images of PGD by hand; a success is judged by the defence as it is."""
    epsilon = ball.epsilon
    noise = epsilon / images[0].numel() ** 0.5 if ball.l2 else epsilon  # of a pixel
    adversarial = images.clone()
    standing = answers(network, images, votes).argmax(1) == labels
    for restart in range(restarts):
        at = standing.nonzero()[:, 0]
        if not len(at):
            break
        clean, y = images[at], labels[at]
        x = ball.start(clean)
        moved = torch.zeros_like(x)
        for k in range(steps):
            Slope.on = True
            g = gradient(network, name, x, y, restart % 2 == 1, noise)
            Slope.on = False
            size = epsilon * max(0.02, 0.5 * (1 - k / steps))
            new = ball.project(x + size * ball.unit(g) + 0.5 * moved, clean)
            moved, x = (new - x), new
            if k % 5 == 4 or k == steps - 1:
                broken = answers(network, x, votes).argmax(1) != y
                adversarial[at[broken]] = x[broken]
                standing[at[broken]] = False
                at, clean, y, x, moved = (v[~broken] for v in (at, clean, y, x, moved))
                if not len(at):
                    break
        print(f"{name}, restart {restart + 1}: {standing.sum().item()} of {len(images)} stand", flush=True)
    return standing.numpy().astype(np.uint8), adversarial.numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "attack"])
    parser.add_argument("names", nargs="*", help="defences (default: all)")
    parser.add_argument("--network", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="CIFAR-10's folder")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--epochs", type=int, default=8, help="of the networks that are trained")
    parser.add_argument("--alpha", type=float, default=0.3, help="of MeanSparse")
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--norm", choices=["linf", "l2"], default="linf")
    parser.add_argument("--epsilon", type=float, default=8 / 255)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--restarts", type=int, default=10)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    arguments.out.mkdir(parents=True, exist_ok=True)
    files = [arguments.data / f"data_batch_{i}.bin" for i in range(1, 6)]
    trained, marks = datasets.read_records(*files)
    test, labels = datasets.read_records(arguments.data / "test_batch.bin", count=arguments.images)
    trained, test = (torch.from_numpy(v.astype(np.float32) / 255) for v in (trained, test))
    marks, labels = torch.from_numpy(marks), torch.from_numpy(labels)
    for name in arguments.names or ["bits3", "jpeg", "times1e4", "dropout", "meansparse", "thermometer", "kwta"]:
        if arguments.what == "make" and name in TRAINED:
            torch.save(train(TRAINED[name](), trained, marks, arguments.epochs).state_dict(), arguments.out / f"{name}.pt")
        network, votes = build(name, arguments, trained), 20 if name == "dropout" else 1
        if arguments.what == "make":
            right = (answers(network, test, votes).argmax(1) == labels).float().mean()
            print(f"{name}: {100 * right:.1f} % of {len(test)} test images", flush=True)
            torch.onnx.export(network, (test[:2],), str(arguments.out / f"{name}.onnx"), opset_version=17, dynamo=False,
                              input_names=["input"], output_names=["logits"], training=torch.onnx.TrainingMode.PRESERVE,
                              dynamic_axes={"input": {0: "batch"}, "logits": {0: "batch"}}, do_constant_folding=False)
            continue
        verdicts, adversarial = attack(network, name, test, labels, Ball(arguments.norm, arguments.epsilon),
                                       arguments.steps, arguments.restarts, votes)
        at = f"{255 * arguments.epsilon:g}" if arguments.norm == "linf" else f"{arguments.epsilon:g}"
        print(f"{name}: {100 * verdicts.mean():.1f} % of {len(test)} stand at {arguments.norm} {at}", flush=True)
        np.savez_compressed(arguments.out / f"{name}-{arguments.norm}-{at}.npz", verdicts=verdicts, adversarial=adversarial)


if __name__ == "__main__":
    main()
