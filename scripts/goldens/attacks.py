#!/usr/bin/env python3
"""Writes what torchattacks, Foolbox, adv_lib or a few lines of PyTorch make of real networks: attacks/testdata/KIND.json.

    python3 scripts/goldens/attacks.py KIND --config ../shared/real/config.yaml [--images 100]

A test of the Go program runs the attack KIND on the same networks and images and compares. The suites `real` and
`standard` of the config name networks and images. For each image a golden has the norm of its perturbation, where the
attack looks for the smallest one, or whether any iterate is misclassified ("0") or none ("1"). The ResNet-20 beside
that config is a third network.
"""

import argparse
import json
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

import torch
import yaml

from zoo import datasets
from zoo.onnx_network import OnnxNetwork

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUITES = ("real", "standard")
RESNET20 = {"path": "resnet20.onnx", "preprocess": {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}}
NORMS = {"linf": float("inf"), "l2": 2, "l1": 1, "l0": 0}


def lengths(images, norm):
    return torch.linalg.vector_norm(images.flatten(1), ord=NORMS[norm], dim=1)


def right(network, images, labels):
    """Which images the network classifies as labelled, bool [N]."""
    with torch.no_grad():
        return torch.cat([network(part) for part in images.split(50)]).argmax(1) == labels


def in_parts(attack, images, labels, size=50):
    return torch.cat([attack(x, y) for x, y in zip(images.split(size), labels.split(size))])


def verdicts(network, iterates, labels):
    standing = torch.ones(len(labels), dtype=torch.bool)
    for images in iterates:
        standing &= right(network, images, labels)
    return "".join("01"[flag] for flag in standing.tolist())


# A golden: what the Go program is told, and `answer(network, images, labels)`, which gives "flags" or "norms".

def golden(library, norm, epsilon, answer, **parameters):
    return {"library": library, "norm": norm, "epsilon": epsilon, "parameters": parameters, "answer": answer}


def fgsm(epsilon):
    import torchattacks

    def answer(network, images, labels):
        attack = torchattacks.FGSM(network, eps=epsilon)
        return {"flags": verdicts(network, [images, in_parts(attack, images, labels)], labels)}
    return golden(f"torchattacks {torchattacks.__version__}", "linf", epsilon, answer)


def mi_fgsm_linf(epsilon, steps=10, decay=1.0):
    """Every iterate: what the same attack gives after 1, 2, ... steps."""
    import torchattacks

    def answer(network, images, labels):
        attacks = [torchattacks.MIFGSM(network, eps=epsilon, alpha=epsilon / steps, steps=k, decay=decay)
                   for k in range(1, steps + 1)]
        return {"flags": verdicts(network, [images, *(in_parts(a, images, labels) for a in attacks)], labels)}
    return golden(f"torchattacks {torchattacks.__version__}", "linf", epsilon, answer, steps=steps, decay=decay,
                  step_size=epsilon / steps)


def mi_fgsm_direct(norm, epsilon, steps=10, decay=1.0):
    """Dong et al. 2018, Eq. 6 and 7, in l2; in l1 a step along the signs of the largest 1 % of the momentum."""

    def climb(network, x, y):
        point, momentum = x.clone(), torch.zeros_like(x)
        for _ in range(steps):
            point.requires_grad_(True)
            loss = torch.nn.functional.cross_entropy(network(point), y, reduction="sum")
            gradient, = torch.autograd.grad(loss, point)
            momentum = decay * momentum + gradient / lengths(gradient, "l1")[:, None, None, None]
            point = project(x, point.detach() + epsilon / steps * direction(momentum, norm), norm, epsilon)
            yield point

    def answer(network, images, labels):
        parts = [list(climb(network, x, y)) for x, y in zip(images.split(50), labels.split(50))]
        return {"flags": verdicts(network, [images, *map(torch.cat, zip(*parts))], labels)}
    return golden("PyTorch", norm, epsilon, answer, steps=steps, decay=decay, step_size=epsilon / steps)


def direction(momentum, norm):
    flat = momentum.flatten(1)
    if norm == "l2":
        flat = flat / flat.norm(dim=1, keepdim=True)
    else:
        least = flat.abs().sort(dim=1).values[:, int((1 - 0.01) * flat.shape[1])][:, None]
        kept = (flat.abs() >= least) * flat.sign()
        flat = kept / kept.abs().sum(dim=1, keepdim=True)
    return flat.view_as(momentum)


def project(x, point, norm, epsilon):
    """The nearest point of the ball and of [0, 1]: in l1 by bisection of the shrinkage, in l2 radially, then clipped."""
    delta = (point - x).flatten(1)
    if norm == "l2":
        delta = delta * (epsilon / delta.norm(dim=1, keepdim=True)).clamp(max=1)
    else:
        over = torch.maximum((point - 1).clamp(min=0), (-point).clamp(min=0)).flatten(1).double()
        size = delta.abs().double()
        low, high = torch.zeros(len(x), 1, dtype=torch.double), size.max(dim=1, keepdim=True).values
        for _ in range(60):
            middle = (low + high) / 2
            outside = (size - middle.clamp(over, size)).sum(dim=1, keepdim=True) > epsilon
            low, high = torch.where(outside, middle, low), torch.where(outside, high, middle)
        delta = delta.sign() * (size - high.clamp(over, size)).float()
    return (x + delta.view_as(x)).clamp(0, 1)


def deepfool(norm):
    import foolbox

    def answer(network, images, labels):
        attack = {"linf": foolbox.attacks.LinfDeepFoolAttack, "l2": foolbox.attacks.L2DeepFoolAttack}[norm]()
        model = foolbox.PyTorchModel(network, bounds=(0, 1))
        found = in_parts(lambda x, y: attack.run(model, x, y), images, labels)
        broken = ~right(network, found, labels)
        return {"norms": [float(f"{d:.6g}") if b else None for d, b in zip(lengths(found - images, norm).tolist(), broken)]}
    return golden(f"Foolbox {foolbox.__version__}", norm, {"linf": 8 / 255, "l2": 0.5}[norm], answer,
                  steps=50, overshoot=0.02)


def minimum(attack, norm, epsilon, settings=None, **parameters):
    """An attack of Rony's Adversarial Library (github.com/jeromerony/adversarial-library), as many steps as ours.
    `settings` are its names of `parameters`, where they differ."""
    from adv_lib import attacks as library

    options = {**parameters, **(settings or {})}
    if attack != "ddn" and attack != "sigma_zero":
        options["norm"] = NORMS[norm]
    if attack in ("pdpgd", "sigma_zero"):
        options["num_steps"] = options.pop("steps")

    def answer(network, images, labels):
        found = in_parts(lambda x, y: getattr(library, attack)(network, x, y, **options), images, labels)
        broken = ~right(network, found, labels)
        return {"norms": [float(f"{d:.6g}") if b else None for d, b in zip(lengths(found - images, norm).tolist(), broken)]}
    return golden("adv_lib 0.2.3", norm, epsilon, answer, **parameters)


def spatial(rotation, translation):
    """The grid, moved by torchvision."""
    import torchvision

    def answer(network, images, labels):
        standing = right(network, images, labels)
        for pose in poses(rotation, translation):
            if standing.any():
                standing[standing.clone()] = right(network, moved(images[standing], *pose), labels[standing])
        return {"flags": "".join("01"[flag] for flag in standing.tolist())}
    return golden(f"torchvision {torchvision.__version__}", "linf", 1, answer, rotation=rotation,
                  translation=translation)


def moved(images, rotation, x, y):
    from torchvision.transforms import functional

    # functional.affine takes shifts as whole pixels from some versions on, its grid does not.
    matrix = functional._get_inverse_affine_matrix([0.0, 0.0], rotation, [x, y], 1.0, [0.0, 0.0])
    return functional.F_t.affine(images, matrix, interpolation="bilinear")


def poses(rotation, translation):
    def places(most, count):
        return torch.linspace(-most, most, count).tolist() if most else [0.0]
    shifts = places(translation, 7)
    return [(r, x, y) for r in places(rotation, 31) for x in shifts for y in shifts]


def write_poses():
    """attacks/testdata/poses.json: an image that is not square, moved."""
    torch.manual_seed(3)
    image = torch.rand(1, 2, 5, 7)
    cases = [(0, 0, 0), (30, 0, 0), (-30, 0, 0), (45, 1, 0), (90, 0, 0), (180, 0, 0), (0, 1.5, 0), (0, 0, -2.25), (7, -3, 3),
             (-12.5, 0.3, 0.7), (170, 2, -1), (3, 20, 0)]
    file = {"shape": image.shape[1:], "image": image.flatten().tolist(),
            "poses": [{"rotation": r, "x": x, "y": y, "out": moved(image, r, x, y).flatten().tolist()} for r, x, y in cases]}
    (ROOT / "attacks" / "testdata" / "poses.json").write_text(json.dumps(file) + "\n", encoding="utf-8")


GOLDENS = {
    "spatial": lambda: [spatial(30, 0), spatial(0, 3)],
    "ddn": lambda: [minimum("ddn", "l2", 2, {"levels": None}, steps=200)],
    "fmn": lambda: [minimum("fmn", n, e, steps=200) for n, e in (("linf", 16 / 255), ("l2", 2), ("l1", 40), ("l0", 200))],
    "pdpgd": lambda: [minimum("pdpgd", n, e, steps=200) for n, e in (("linf", 16 / 255), ("l2", 2), ("l1", 40))],
    "sigma-zero": lambda: [minimum("sigma_zero", "l0", 200, steps=200)],
    "fgsm": lambda: [fgsm(2 / 255), fgsm(8 / 255)],
    "mi-fgsm": lambda: [mi_fgsm_linf(2 / 255), mi_fgsm_linf(8 / 255), mi_fgsm_direct("l2", 0.25), mi_fgsm_direct("l1", 4)],
    "deepfool": lambda: [deepfool("linf"), deepfool("l2")],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=GOLDENS)
    parser.add_argument("--config", type=pathlib.Path, required=True)
    parser.add_argument("--images", type=int, default=100, help="the first N (default %(default)s)")
    arguments = parser.parse_args()
    config = yaml.safe_load(arguments.config.read_text(encoding="utf-8"))
    cases = []
    if arguments.kind == "spatial":
        write_poses()
    suites = [config["suites"][name] for name in SUITES]
    config["models"]["resnet20"] = RESNET20
    suites.append({"dataset": suites[0]["dataset"], "models": ["resnet20"]})
    for suite in suites:
        dataset = dict(config["datasets"][suite["dataset"]])
        dataset["path"] = arguments.config.parent / dataset["path"]
        _, images, labels = map(torch.from_numpy, datasets.of_config(dataset, arguments.images))
        for name in suite["models"]:
            model = config["models"][name]
            prepare = model.get("preprocess") or {}
            network = OnnxNetwork(arguments.config.parent / model["path"], prepare.get("mean"), prepare.get("std")).eval()
            for case in GOLDENS[arguments.kind]():
                answer = case.pop("answer")(network, images, labels)
                cases.append({"model": name, "n": len(labels), **case, **answer})
                print(f"{name}, {case['norm']} {case['epsilon']:.4g}: {str(*answer.values())[:60]}", flush=True)
    file = {"torch": torch.__version__, "cases": cases}
    (ROOT / "attacks" / "testdata" / f"{arguments.kind}.json").write_text(json.dumps(file, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
