#!/usr/bin/env python3
"""Writes the goldens of `selfheal fit`: PyTorch trains the same embedding on the same images in the same order.

    python3 scripts/goldens/fit.py

control/train/testdata gets conv_ae.onnx, a convolutional auto-encoder with PyTorch's initial weights, and training.json:
the order of the images, the losses of every step by Adam and by SGD (cross-entropy through the bundled
preact_standard + WEIGHT * ||E(x) - x||^2, means over the batch, measured before the step), and what both optimisers do
to a few numbers in 20 steps of given gradients.

    python3 scripts/goldens/fit.py recipes

writes recipes.json and the embeddings that it begins with, unet.onnx, fcn.onnx, mlp_ae.onnx, refined.onnx and coarse.onnx: the losses of a hundred
steps with the keys that the recipe of the paper's authors and `unet` need, through two networks where `draw` is epoch.

    python3 scripts/goldens/fit.py gaussian

writes gaussian.json: the losses of every step under noise, for both losses of objective gaussian, from the weights of
conv_ae.onnx and in the order of training.json.

    python3 scripts/goldens/fit.py adversarial

writes adversarial.json: the losses of every step of objective adversarial in each norm, from the weights of conv_ae.onnx and
in the order of training.json, with a weight that falls, a rate that warms up, clipped gradients and averaged weights. In the
last run features.onnx, which it writes too, trains along.

    python3 scripts/goldens/fit.py normalised

writes normalised.onnx, three convolutions with BatchNormalizations between them, and normalised.json: the losses of
every step in training mode, and the running statistics after the last one.

    python3 scripts/goldens/fit.py shared

writes shared.onnx, an encoder-decoder with ten BatchNormalizations as the exporter leaves it, which stores equal constants
once: all scales and variances of a width are one initializer. And shared.json: the losses of a hundred steps in training
mode, and the running statistics after the last one.

Used: Python 3.11, PyTorch 1.13 (gaussian, normalised, recipes: 2.15), onnx 1.12, numpy 1.24.
"""

import argparse
import copy
import json
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

import numpy as np
import onnx
import torch
from torch import nn
from torch.nn import functional

from paper.architectures import embeddings
from zoo import datasets, export, onnx_network

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "control" / "train" / "testdata"
IMAGES, BATCH, EPOCHS, WEIGHT, WIDTH = 160, 16, 10, 0.1, 8
# Rates at which a hundred steps can be compared: at 0.001 Adam itself ends 4 % away when its start is moved by 1e-7.
RUNS = (
    {"optimizer": "adam", "lr": 0.0003, "momentum": 0.0, "weight_decay": 0.0},
    {"optimizer": "sgd", "lr": 0.0005, "momentum": 0.9, "weight_decay": 0.01},
)


class ConvolutionalAutoEncoder(nn.Module):
    """Six convolutions, width to 2 width channels, two of stride 2, up again by doubling."""

    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, width, 3, 1, 1), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, 2, 1), nn.ReLU(),
            nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(2 * width, 2 * width, 3, 1, 1), nn.ReLU(),
            nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(2 * width, width, 3, 1, 1), nn.ReLU(),
            nn.Conv2d(width, 3, 3, 1, 1), nn.Sigmoid(),
        )

    def forward(self, images):
        return self.layers(images)


class Normalised(nn.Module):
    """Three convolutions, two normalisations, one behind the other."""

    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 1, 1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(2 * width, 3, 3, 1, 1), nn.Sigmoid(),
        )

    def forward(self, images):
        return self.layers(images)


class EncoderDecoder(nn.Module):
    """Two stages down and two up, each of two convolutions that are normalised, and one more at the widest place."""

    def __init__(self, width):
        super().__init__()

        def block(inputs, outputs, stride=1):
            return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())

        def up(inputs, outputs):
            return nn.Sequential(nn.Upsample(scale_factor=2, mode="nearest"), block(inputs, outputs), block(outputs, outputs))

        self.layers = nn.Sequential(
            block(3, width), block(width, width, 2), block(width, width), block(width, width, 2), block(width, width),
            block(width, width), up(width, width), up(width, width), nn.Conv2d(width, 3, 1), nn.Sigmoid())

    def forward(self, images):
        return self.layers(images)


def optimizer(run, parameters):
    if run["optimizer"] == "adam":
        return torch.optim.Adam(parameters, lr=run["lr"], weight_decay=run.get("weight_decay", 0))
    return torch.optim.SGD(parameters, lr=run["lr"], momentum=run["momentum"], weight_decay=run["weight_decay"])


def images():
    pixels, labels = map(torch.from_numpy, datasets.read_records(datasets.SHAPES10 / "train.bin", count=IMAGES))
    return pixels.float() / 255.0, labels


def descend(embedding, order, run, objective, share=lambda progress: 1, after=lambda step: None):
    """Train by `run`'s optimiser; the losses of every step.

    objective(number of the epoch, chosen images) gives what is minimised, the cross-entropy and ||E(x) - x||^2.
    share(progress) is the factor of the rate when that fraction of all steps is done. after(n) is called after step n.
    """
    follow, step = optimizer(run, embedding.parameters()), 0
    found = {"cross_entropy": [], "reconstruction": []}
    for number, epoch in enumerate(order):
        for chosen in np.split(np.array(epoch), IMAGES // BATCH):
            for group in follow.param_groups:
                group["lr"] = run["lr"] * share(step / (EPOCHS * IMAGES // BATCH))
            loss, cross_entropy, reconstruction = objective(number, chosen)
            follow.zero_grad()
            loss.backward()
            if "clip" in run:
                nn.utils.clip_grad_norm_(embedding.parameters(), run["clip"])
            follow.step()
            after(step + 1)
            found["cross_entropy"].append(round(cross_entropy.item(), 6))
            found["reconstruction"].append(round(reconstruction.item(), 5))
            step += 1
    return found


def squares(e, x):
    return (e - x).flatten(1).pow(2)


def train(embedding, classifier, order, run):
    """The losses of every step of Eq. 4."""
    pixels, labels = images()

    def objective(_, chosen):
        x = pixels[chosen]
        e = embedding(x)
        cross_entropy = functional.cross_entropy(classifier(e), labels[chosen])
        reconstruction = squares(e, x).sum(dim=1).mean()
        return cross_entropy + WEIGHT * reconstruction, cross_entropy, reconstruction

    return descend(embedding, order, run, objective)


def export_trained(embedding, name, example=None, mode=torch.onnx.TrainingMode.PRESERVE):
    """Write an embedding as it is trained: its normalisations are not folded."""
    torch.onnx.export(
        embedding, torch.zeros(2, 3, 32, 32) if example is None else example, OUT / f"{name}.onnx", opset_version=13,
        dynamo=False, training=mode, do_constant_folding=False, input_names=["state"], output_names=["embedding"],
        dynamic_axes={"state": {0: "N"}, "embedding": {0: "N"}})


def begun():
    """The order of training.json, the embedding with the weights of conv_ae.onnx, and the classifier."""
    embedding = ConvolutionalAutoEncoder(WIDTH).eval()
    weights = {i.name: onnx.numpy_helper.to_array(i) for i in onnx.load(OUT / "conv_ae.onnx").graph.initializer}
    embedding.load_state_dict({name: torch.from_numpy(weights[name].copy()) for name in embedding.state_dict()})
    classifier = onnx_network.OnnxNetwork(ROOT / "models/zoo/preact_standard.onnx")
    return json.loads((OUT / "training.json").read_text())["order"], embedding, classifier


def noise(epoch, image, sigma):
    """Numbers of mean 0 and variance sigma^2 that the test makes too."""
    places = np.arange(3072, dtype=np.float64)
    wave = np.cos(12.9898 * places + 78.233 * image + 37.719 * epoch)
    return torch.from_numpy((sigma * np.sqrt(2) * wave).astype(np.float32).reshape(3, 32, 32))


def gaussian(loss, sigma=0.25):
    """The losses of every step of objective gaussian, by Adam."""
    order, embedding, classifier = begun()
    pixels, labels = images()

    def objective(number, chosen):
        x = pixels[chosen]
        e = embedding(x + torch.stack([noise(number, int(i), sigma) for i in chosen]))
        with torch.no_grad():
            own = classifier(x).argmax(dim=1)
        cross_entropy = functional.cross_entropy(classifier(e), own if loss == "stability" else labels[chosen])
        reconstruction = squares(e, x).sum(dim=1).mean()
        return WEIGHT * reconstruction + (cross_entropy if loss == "stability" else 0), cross_entropy, reconstruction

    return {**RUNS[0], "loss": loss, "sigma": sigma, **descend(embedding, order, RUNS[0], objective)}


# Settings of adversarial trainings as train.Settings has them.
ADVERSARIAL = (
    {"norm": "linf", "epsilon": 0.03, "steps": 1, "step_size": 0.0375, "weight_start": 1, "lr_warmup": 0.2, "clip": 1,
     "average": 0.95, "warmup": 0.3, "ramp": 1.5, "weight_end": 0.01},
    {"norm": "l2", "epsilon": 0.5, "steps": 3, "step_size": 0.25, "loss": "trades", "beta": 6},
    {"norm": "l1", "epsilon": 8, "steps": 2, "step_size": 4, "schedule": "cosine", "lr_warmup": 0.1},
    {"norm": "linf", "epsilon": 0.03, "steps": 1, "step_size": 0.0375, "joint": True, "joint_weight": 0.02},
)
LENGTH = {"linf": lambda v: v.abs().amax(1, True), "l2": lambda v: v.norm(dim=1, keepdim=True),
          "l1": lambda v: v.abs().sum(1, True)}


def nearest_l1(x, d, epsilon):
    """The nearest point to x + d of the ball around x and [0, 1], as a perturbation, by halving."""
    x, d = x.double(), d.double()
    low, high = torch.zeros(len(x), 1, dtype=torch.double), d.abs().amax(1, True)

    def at(cut):
        return (x + d.sign() * (d.abs() - cut).clamp(min=0)).clamp(0, 1) - x

    for _ in range(60):
        middle = (low + high) / 2
        far = at(middle).abs().sum(1, True) > epsilon
        low, high = torch.where(far, middle, low), torch.where(far, high, middle)
    inside = at(torch.zeros(1)).abs().sum(1, True) <= epsilon
    return torch.where(inside, at(torch.zeros(1)), at(high)).float()


def stepped(x, d, gradient, norm, length, epsilon):
    """A perturbation after PGD's step, back in the ball and in [0, 1]."""
    if norm == "linf":
        return (x + (d + length * gradient.sign()).clamp(-epsilon, epsilon)).clamp(0, 1) - x
    if norm == "l2":
        d = d + length * gradient / (LENGTH["l2"](gradient) + 1e-12)
        return (x + d * torch.clamp(epsilon / (LENGTH["l2"](d) + 1e-12), max=1)).clamp(0, 1) - x
    least = gradient.abs().sort(1).values[:, [int(0.99 * gradient.shape[1])]]
    largest = (gradient.abs() >= least).float()
    return nearest_l1(x, d + length * gradient.sign() * largest / largest.sum(1, True), epsilon)


def adversarial(settings):
    """The losses of every step of objective adversarial, by Adam, and the average of the last bias after half of them."""
    order, embedding, classifier = begun()
    pixels, labels = images()
    run, every = {**RUNS[0], "weight": WEIGHT, **settings}, IMAGES // BATCH
    average, steps, half = copy.deepcopy(embedding), 0, []
    learning, behind = embedding, nn.Identity()
    if run.get("joint"):
        behind = nn.Sequential(nn.Linear(64, 16), nn.ELU(), nn.Linear(16, 64))
        export_trained(behind, "features", torch.zeros(2, 64))
        learning = nn.ModuleList([embedding, behind])

    def answers(x):
        return classifier.head(behind(classifier.features(embedding(x.reshape(-1, 3, 32, 32)))))

    def objective(number, chosen):
        x, y = pixels[chosen].flatten(1), labels[chosen]
        ramp = 1.0
        if "ramp" in run:
            ramp = min(max(steps / every - run["warmup"], 0) / run["ramp"], 1)
        d = torch.stack([noise(number, int(i), 1).flatten() for i in chosen])
        epsilon = ramp * run["epsilon"]
        d = (x + d * epsilon / (LENGTH[run["norm"]](d) + 1e-12)).clamp(0, 1) - x
        with torch.no_grad():
            own = functional.softmax(answers(x), 1)
        for _ in range(run["steps"] if ramp > 0 else 0):
            d.requires_grad_(True)
            found = functional.cross_entropy(answers(x + d), own if run.get("loss") == "trades" else y, reduction="sum")
            gradient, = torch.autograd.grad(found, d)
            d = stepped(x, d.detach(), gradient, run["norm"], ramp * run["step_size"], epsilon)
        e = embedding((x + d.detach()).reshape(-1, 3, 32, 32))
        features = classifier.features(e)
        z = classifier.head(behind(features))
        if run.get("loss") == "trades":
            clean = answers(x)
            loss = functional.cross_entropy(clean, y) + run["beta"] * functional.kl_div(
                functional.log_softmax(z, 1), functional.softmax(clean, 1), reduction="batchmean")
        else:
            loss = functional.cross_entropy(z, y)
        reconstruction = squares(e, pixels[chosen]).sum(dim=1).mean()
        weight, past = run["weight"], steps / (0.3 * EPOCHS * every)
        if "weight_start" in run and past < 1:
            weight = run["weight_start"] * (weight / run["weight_start"]) ** past
        if "weight_end" in run:
            weight *= (run["weight_end"] / run["weight"]) ** ramp
        along = squares(behind(features), features).sum(dim=1).mean()
        return loss + weight * reconstruction + run.get("joint_weight", 0) * along, loss, reconstruction

    def share(progress):
        step, all_steps = round(progress * EPOCHS * every), EPOCHS * every
        warm = int(np.ceil(run.get("lr_warmup", 0) * all_steps))
        if step < warm:
            return (step + 1) / warm
        return RATES["cosine"](None, (step - warm) / (all_steps - warm)) if "schedule" in run else 1

    def after(done):
        nonlocal steps
        steps, keep = done, min(run.get("average", 0), done / (done + 10))
        with torch.no_grad():
            for mean, value in zip(average.parameters(), embedding.parameters(), strict=True):
                mean.mul_(keep).add_(value, alpha=1 - keep)
        if done == EPOCHS * every // 2:
            half.extend(average.layers[-2].bias.tolist())

    losses = descend(learning, order, run, objective, share, after)
    return {"settings": run, **losses, "average": half}


def statistics(embedding, result, steps):
    """Running statistics; PyTorch divides by one less than the number of values for the running variance, and keeps
    0.9^steps of its start, 1."""
    sizes, hooks = {}, []
    norms = [layer for layer in embedding.modules() if isinstance(layer, nn.BatchNorm2d)]
    for norm in norms:
        hooks.append(norm.register_forward_hook(lambda n, x, _: sizes.update({n: x[0].numel() // x[0].shape[1]})))
    with torch.no_grad():
        embedding.eval()(torch.zeros(BATCH, 3, 32, 32))
    for hook in hooks:
        hook.remove()
    kept = 0.9 ** steps
    result["mean"] = [norm.running_mean.tolist() for norm in norms]
    result["variance"] = [((norm.running_var - kept) * (sizes[norm] - 1) / sizes[norm] + kept).tolist() for norm in norms]


def shared():
    """The losses of a hundred steps of an embedding whose normalisations share constants in the exported file."""
    golden = json.loads((OUT / "training.json").read_text())
    embedding = EncoderDecoder(WIDTH).eval()
    export_trained(embedding, "shared")
    graph = onnx.load(OUT / "shared.onnx").graph
    norms = [n for n in graph.node if n.op_type == "BatchNormalization"]
    assert len(norms) == 10 and len(graph.initializer) < 20, "nothing is shared"
    classifier = onnx_network.OnnxNetwork(ROOT / "models/zoo/preact_standard.onnx")
    embedding.train()
    # A rate at which a hundred steps can be compared: at 0.0003 PyTorch itself ends 10 % away when its start is moved by 1e-7.
    run = {**RUNS[0], "lr": 0.00001}
    result = {**run, **train(embedding, classifier, golden["order"], run)}
    result["scale"] = [layer.weight.tolist() for layer in embedding.modules() if isinstance(layer, nn.BatchNorm2d)]
    statistics(embedding, result, EPOCHS * IMAGES // BATCH)
    return result


def normalised():
    """The losses of every step of three epochs in training mode, and the statistics after the last one. PyTorch itself
    ends 0.1 % away when its start is moved by 1e-7."""
    golden = json.loads((OUT / "training.json").read_text())
    embedding = Normalised(WIDTH)
    export_trained(embedding, "normalised", mode=torch.onnx.TrainingMode.TRAINING)
    model = onnx.load(OUT / "normalised.onnx")
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":  # as for inference: one output
            del node.output[1:]
            for attribute in [a for a in node.attribute if a.name == "training_mode"]:
                attribute.i = 0
    onnx.save(model, OUT / "normalised.onnx")
    classifier = onnx_network.OnnxNetwork(ROOT / "models/zoo/preact_standard.onnx")
    result = {**RUNS[0], **train(embedding, classifier, golden["order"][:3], RUNS[0])}
    statistics(embedding, result, 3 * IMAGES // BATCH)
    return result


# Settings of trainings as train.Settings has them. Draws are the networks of the epochs.
RECIPES = (
    {"embedding": "unet", "optimizer": "adam", "lr": 0.00001, "weight": 0.1, "reconstruction": "sum", "schedule": "cosine"},
    {"embedding": "fcn", "optimizer": "sgd", "lr": 0.0005, "momentum": 0.9, "weight_decay": 0.0002, "weight": 30,
     "reconstruction": "mean", "schedule": "step", "drops": [0.75, 0.95], "draws": [0, 1, 1, 0, 1, 0, 0, 0, 1, 1]},
    {"embedding": "mlp_ae", "optimizer": "sgd", "lr": 0.002, "momentum": 0.9, "weight_decay": 0.0002, "weight": 10,
     "reconstruction": "mean", "schedule": "step", "drops": [0.75, 0.95]},
    {"embedding": "refined", "optimizer": "sgd", "lr": 0.000002, "momentum": 0.9, "weight_decay": 0.0002, "weight": 0.1,
     "reconstruction": "sum", "schedule": "cosine", "drawn": 3},
    {"embedding": "coarse", "optimizer": "adam", "lr": 0.00001, "weight": 0.1, "reconstruction": "sum", "schedule": "cosine"},
)
# Shares of the rate after a share of all steps.
RATES = {"cosine": lambda recipe, progress: (1 + np.cos(np.pi * progress)) / 2,
         "step": lambda recipe, progress: 0.1 ** sum(progress >= at for at in recipe["drops"])}


def recipe_losses(recipe, embedding, classifiers, order):
    """The losses of every step of a recipe, whose embedding sees the images or, of mlp_ae, the classifier's features."""
    pixels, labels = images()

    def objective(number, chosen):
        body, head = torch.nn.Identity(), classifiers[recipe.get("draws", [0] * len(order))[number]]
        if recipe["embedding"] == "mlp_ae":
            body, head = head.features, head.head
        x = body(pixels[chosen]).detach()
        e = embedding(x)
        cross_entropy = functional.cross_entropy(head(e), labels[chosen])
        found = squares(e, x)
        counted = found.sum(dim=1) if recipe["reconstruction"] == "sum" else found.mean(dim=1)
        return cross_entropy + recipe["weight"] * counted.mean(), cross_entropy, found.sum(dim=1).mean()

    return {"settings": recipe, **descend(embedding.train(), order, recipe, objective,
                                          lambda progress: RATES[recipe["schedule"]](recipe, progress))}


def recipes():
    order = json.loads((OUT / "training.json").read_text())["order"]
    classifiers = [onnx_network.OnnxNetwork(ROOT / f"models/zoo/preact_{name}.onnx") for name in ("standard", "robust")]
    runs = []
    for recipe in RECIPES:
        name = recipe["embedding"]
        features = 64
        if "drawn" in recipe:  # weights with which no ReLU of the first steps is so near 0 that rounding decides
            torch.manual_seed(recipe["drawn"])
        embedding = {"unet": lambda: embeddings.UNet(4), "fcn": lambda: embeddings.FCN(2),
                     "refined": lambda: embeddings.UNet(4, stages=2, refine=2),
                     "coarse": lambda: embeddings.UNet(4, coarse=4),
                     "mlp_ae": lambda: embeddings.AutoEncoder(sizes=(features, 24, 10))}[name]().eval()
        example = torch.zeros(2, features) if name == "mlp_ae" else torch.zeros(2, 3, 32, 32)
        export_trained(embedding, name, example)
        runs.append(recipe_losses(recipe, embedding, classifiers, order))
        print(name, *(f"{key} {runs[-1][key][0]:.4f} -> {runs[-1][key][-1]:.4f}" for key in ("cross_entropy", "reconstruction")))
    return {"runs": runs}


def update(run, rng):
    """Twenty updates of five numbers by given gradients."""
    values = torch.tensor(np.round(rng.normal(size=5), 3).astype(np.float32))
    start = values.tolist()
    parameter = nn.Parameter(values.clone())
    follow = optimizer(run, [parameter])
    gradients, after = [], []
    for _ in range(20):
        gradient = np.round(rng.normal(size=5) * rng.choice([0.01, 1, 30], size=5), 3).astype(np.float32)
        parameter.grad = torch.from_numpy(gradient)
        follow.step()
        gradients.append(gradient.tolist())
        after.append(parameter.detach().tolist())
    return {**run, "start": start, "gradients": gradients, "after": after}


def main():
    others = {"adversarial": lambda: {"runs": [adversarial(settings) for settings in ADVERSARIAL]}, "gaussian": lambda: {"runs": [gaussian(loss) for loss in ("mse", "stability")]}, "recipes": recipes,
              "shared": shared, "normalised": normalised}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("golden", nargs="?", choices=("training", *others), default="training")
    chosen = parser.parse_args().golden
    torch.manual_seed(11)
    torch.set_num_threads(1)
    if chosen in others:
        (OUT / f"{chosen}.json").write_text(json.dumps(others[chosen]()) + "\n")
        return
    OUT.mkdir(parents=True, exist_ok=True)
    embedding = ConvolutionalAutoEncoder(WIDTH).eval()
    export.export_embedding(embedding, (3, 32, 32), OUT / "conv_ae.onnx")
    classifier = onnx_network.OnnxNetwork(ROOT / "models/zoo/preact_standard.onnx")
    rng = np.random.default_rng(12)
    order = [rng.permutation(IMAGES).tolist() for _ in range(EPOCHS)]
    runs = [{**run, **train(copy.deepcopy(embedding), classifier, order, run)} for run in RUNS]
    updates = [update({**run, "lr": 0.05, "weight_decay": decay}, rng) for run in RUNS for decay in (0.0, 0.1)]
    golden = {"images": IMAGES, "batch": BATCH, "weight": WEIGHT, "order": order, "runs": runs, "updates": updates}
    (OUT / "training.json").write_text(json.dumps(golden) + "\n")
    for run in runs:
        print(run["optimizer"], *(f"{key} {run[key][0]:.4f} -> {run[key][-1]:.4f}" for key in ("cross_entropy", "reconstruction")))


if __name__ == "__main__":
    main()
