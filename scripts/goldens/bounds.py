"""Writes the goldens of bounds: small networks and what auto_LiRPA proves of them, and of a real network.

Every case is a network with drawn weights, inputs, a radius for each norm and, by method, the lower bounds of the margins
of a label against every other class. The real network's cases hold bounds alone: the network stays where it is.

    python3 scripts/goldens/bounds.py --lirpa CHECKOUT [--real FOLDER] --out models/bounds/testdata

Used: PyTorch 2.15, onnx 1.23 and auto_LiRPA at a050a3d (its packages appdirs, sortedcontainers and graphviz installed).
"""

import argparse
import json
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from zoo import datasets, exporters
from zoo.onnx_network import OnnxNetwork

NORMS = {"linf": np.inf, "l2": 2, "l1": 1}
METHODS = {"ibp": "IBP", "crown": "CROWN", "alpha-crown": "CROWN-Optimized"}
MEAN, STD = torch.tensor([0.4914, 0.4822, 0.4465])[:, None, None], torch.tensor([0.2471, 0.2435, 0.2616])[:, None, None]


class Residual(nn.Module):
    """Convolutions, batch normalisation, a residual and average pooling, after LeakyReLU."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.first, self.second = nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.Conv2d(8, 8, 3, padding=1)
        self.short = nn.Conv2d(8, 8, 1)
        self.fc = nn.Linear(8 * 4 * 4, 5)

    def forward(self, x):
        x = functional.leaky_relu(self.norm(self.stem(x)), 0.1)
        x = self.second(functional.leaky_relu(self.first(x), 0.1)) + self.short(x)
        return self.fc(torch.flatten(functional.avg_pool2d(functional.leaky_relu(x, 0.1), 2), 1))


class Pooled(nn.Module):
    """MaxPool between convolutions, one of them strided."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.fc = nn.Conv2d(3, 6, 3), nn.Conv2d(6, 8, 3, stride=2, padding=1), nn.Linear(8 * 2 * 2, 5)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.first(x)), 2)
        return self.fc(torch.flatten(functional.relu(self.second(x)), 1))


class Smooth(nn.Module):
    """Sigmoid between layers."""

    def __init__(self, activation=torch.sigmoid):
        super().__init__()
        self.first, self.second, self.fc = nn.Linear(192, 20), nn.Linear(20, 16), nn.Linear(16, 5)
        self.activation = activation

    def forward(self, x):
        x = torch.flatten(x, 1)
        return self.fc(self.activation(self.second(self.activation(self.first(x)))))


class Joined(nn.Module):
    """Concatenation, subtraction and the mean of all positions."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(3, 4, 1)
        self.join, self.fc = nn.Conv2d(8, 6, 3), nn.Linear(6, 5)

    def forward(self, x):
        a, b = functional.relu(self.left(x)), functional.relu(self.right(x))
        x = torch.cat([a - 0.5 * b, functional.relu(b - a)], 1)
        x = functional.relu(self.join(x))
        return self.fc(x.mean((2, 3)))


class Mixed(nn.Module):
    """Rows mixed by a matrix, as in an MLP-Mixer: MatMul, Transpose, Reshape."""

    def __init__(self):
        super().__init__()
        self.rows, self.columns, self.fc = nn.Linear(12, 12), nn.Linear(16, 10), nn.Linear(120, 5)

    def forward(self, x):
        x = x.reshape(-1, 12, 16)
        x = functional.relu(self.rows(x.transpose(1, 2))).transpose(1, 2)
        return self.fc(torch.flatten(functional.relu(self.columns(x)), 1))


class Gated(nn.Module):
    """Squeeze and excitation: channels multiplied by what follows from their means."""

    def __init__(self):
        super().__init__()
        self.first, self.squeeze, self.excite = nn.Conv2d(3, 6, 3, padding=1), nn.Linear(6, 3), nn.Linear(3, 6)
        self.second, self.fc = nn.Conv2d(6, 6, 3, stride=2, padding=1), nn.Linear(6 * 4 * 4, 5)

    def forward(self, x):
        x = functional.relu(self.first(x))
        gate = torch.sigmoid(self.excite(functional.relu(self.squeeze(x.mean((2, 3))))))
        return self.fc(torch.flatten(functional.relu(self.second(x * gate[:, :, None, None])), 1))


# The networks, with the radius in l-inf; the others' are so many times larger.
NETWORKS = {
    "residual": (Residual, 0.01), "pooled": (Pooled, 0.01), "sigmoid": (Smooth, 0.05),
    "tanh": (lambda: Smooth(torch.tanh), 0.02), "joined": (Joined, 0.02), "mixed": (Mixed, 0.01),
    "gated": (Gated, 0.01),
}
LARGER = {"linf": 1, "l2": 6, "l1": 20}


def bounds(network, x, label, norm, radius, method, box=None):
    """auto_LiRPA's lower bounds of the label's margins."""
    from auto_LiRPA import BoundedModule, BoundedTensor, PerturbationLpNorm
    # Dense intermediate bounds, by CROWN alone: a sparse choice of them, by intervals, gives the same up to rounding, but
    # not for every network. It is what makes the optimisation bearable for the real one.
    options = {"sparse_intermediate_bounds": False, "conv_mode": "matrix"}
    if method == "alpha-crown" and box is not None:
        options = {}
    bounded = BoundedModule(network, x, bound_opts=options)
    if not list(bounded.parameters()):
        bounded.register_parameter("unused", nn.Parameter(torch.zeros(1)))  # whose element type is asked for
    bounded.check_IBP_first_linear = lambda node: False  # whose intervals are loose at a padded border, in l2 and l1
    for node in bounded.nodes():
        if hasattr(node, "step_pre"):  # of the table of tangents, as fine as to tell no difference
            node.step_pre = 5e-4
            node.precompute_relaxation(node.act_func, node.d_act_func, x_limit=20)
    with torch.no_grad():
        logits = network(x)
    classes = logits.shape[1]
    rows = torch.zeros(1, classes - 1, classes)
    for k, other in enumerate(j for j in range(classes) if j != label):
        rows[0, k, label], rows[0, k, other] = 1, -1
    ends = {} if box is None else {"x_L": box[0], "x_U": box[1]}
    region = BoundedTensor(x, PerturbationLpNorm(norm=NORMS[norm], eps=radius, **ends))
    lower, _ = bounded.compute_bounds(x=(region,), C=rows, method=METHODS[method], bound_upper=False)
    return [round(float(v), 6) for v in lower[0]]


def drawn(name):
    """A network with weights drawn so that activations bend."""
    torch.manual_seed(sum(map(ord, name)))
    network = NETWORKS[name][0]()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            for value in (module.weight, module.running_var):
                nn.init.uniform_(value, 0.5, 1.5)
            for value in (module.bias, module.running_mean):
                nn.init.normal_(value, 0, 0.2)
    return network.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lirpa", required=True, help="checkout of Verified-Intelligence/auto_LiRPA")
    parser.add_argument("--real", type=pathlib.Path, help="folder with resnet_2b.onnx and CIFAR-10 images")
    parser.add_argument("--out", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    sys.path.append(arguments.lirpa)
    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, (_, radius) in NETWORKS.items():
        network = drawn(name)
        (arguments.out / f"{name}.onnx").write_bytes(
            exporters.export(network, torch.zeros(2, 3, 8, 8), "torchscript", 17))
        inputs, cases = [], []
        for i in range(3):
            x = torch.rand(1, 3, 8, 8)
            inputs.append([round(float(v), 7) for v in x.flatten()])
            label = int(network(x).argmax())
            for norm in NORMS:
                for method in METHODS:
                    found = bounds(network, x, label, norm, radius * LARGER[norm], method)
                    cases.append({"input": i, "label": label, "norm": norm, "epsilon": radius * LARGER[norm],
                                  "method": method, "margins": found})
        (arguments.out / f"{name}.json").write_text(json.dumps({"inputs": inputs, "cases": cases}))
        print(name, [c["margins"][0] for c in cases[:3]], flush=True)
    if arguments.real:
        real(arguments.real, arguments.out)


def real(folder, out):
    """Bounds of ResNet-2B: in l-inf cut to [0, 1]; in l2 and l1 of normalised images."""
    network = OnnxNetwork(str(folder / "resnet_2b.onnx"), None, None).eval()
    images, labels = datasets.read_records(folder / "cifar10-test-1000.bin", count=3)
    cases = []
    for i in range(3):
        pixels = torch.from_numpy(images[i:i + 1]).float() / 255
        label, x = int(labels[i]), (pixels - MEAN) / STD
        for norm in NORMS:
            for epsilon in (1 / 255, 2 / 255):
                radius, box = epsilon * LARGER[norm] / 0.25, None
                if norm == "linf":
                    box = [(v - MEAN) / STD for v in ((pixels - epsilon).clamp(min=0), (pixels + epsilon).clamp(max=1))]
                for method in METHODS if norm == "linf" else ("ibp", "crown"):
                    found = bounds(network, x, label, norm, radius, method, box)
                    cases.append({"input": i, "label": label, "norm": norm, "epsilon": epsilon if box else radius,
                                  "method": method, "margins": found})
        print("resnet_2b", i, flush=True)
    (out / "resnet_2b.json").write_text(json.dumps({"cases": cases}))


if __name__ == "__main__":
    main()
