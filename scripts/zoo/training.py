"""Training of the zoo: its classifiers, the embedding functions that serve them all, and what they achieve."""

import copy
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from zoo import attacks, networks, shapes10


class Pool:
    """A set of shapes10 images kept as bytes, handed out in shuffled, flipped batches."""

    def __init__(self, seed, count):
        images, labels = shapes10.generate(seed, count)
        self.images = torch.from_numpy(images)
        self.labels = torch.from_numpy(labels.astype(np.int64))

    def all(self):
        return self.images.float() / 255.0, self.labels

    def batches(self, size, epochs, generator):
        """Yield (progress in [0, 1), images, labels). Every shape keeps its class when mirrored."""
        per_epoch = len(self.images) // size
        for epoch in range(epochs):
            order = torch.randperm(len(self.images), generator=generator)
            for index in range(per_epoch):
                chosen = order[index * size:(index + 1) * size]
                images = self.images[chosen].float() / 255.0
                mirrored = [axis for axis in (2, 3) if torch.rand(1, generator=generator) < 0.5]
                yield (epoch + index / per_epoch) / epochs, images.flip(mirrored), self.labels[chosen]


class Reporter:
    """Prints running means of named losses about every `seconds`."""

    def __init__(self, name, seconds=20.0):
        self.name, self.seconds = name, seconds
        self.start = self.last = time.time()
        self.sums, self.steps = {}, 0

    def add(self, progress, **losses):
        self.steps += 1
        for key, value in losses.items():
            self.sums[key] = self.sums.get(key, 0.0) + value.item()
        if time.time() - self.last > self.seconds:
            means = " ".join(f"{key} {value / self.steps:.3f}" for key, value in self.sums.items())
            print(f"{self.name} {100 * progress:3.0f}% {time.time() - self.start:5.0f}s {means}", flush=True)
            self.sums, self.steps, self.last = {}, 0, time.time()


def accuracy(classifier, images, labels):
    """Share of the images that the function `classifier` labels correctly."""
    with torch.no_grad():
        logits = torch.cat([classifier(batch) for batch in images.split(256)])
    return (logits.argmax(dim=1) == labels).float().mean().item()


def freeze(network):
    network.eval()
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    return network


def thawed(network):
    """A copy that trains again."""
    return copy.deepcopy(network).requires_grad_(True)


def descend(network, optimiser, schedule, batches, objective, name):
    """Train `network`, and freeze it. Batches are (progress, states, labels), of which objective(progress, states, labels)
    gives the loss and what is reported of it by name."""
    report = Reporter(name)
    network.train()
    for progress, states, labels in batches:
        loss, parts = objective(progress, states, labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if schedule:
            schedule.step()
        report.add(progress, **parts)
    return freeze(network)


def train_linear(pool, epochs=6):
    """A linear classifier on the pixels: the evidence that the classes are not linearly separable."""
    torch.manual_seed(11)
    generator = torch.Generator().manual_seed(11)
    linear = nn.Sequential(nn.Flatten(), nn.Linear(3 * shapes10.SIZE**2, len(shapes10.CLASSES)))
    optimiser = torch.optim.Adam(linear.parameters(), lr=3e-4, weight_decay=1e-4)

    def objective(_, images, labels):
        loss = functional.cross_entropy(linear(images - 0.5), labels)
        return loss, {"ce": loss}

    return descend(linear, optimiser, None, pool.batches(128, epochs, generator), objective, "linear classifier")


def adversarial_batch(network, images, labels, progress, ramp, steps, generator):
    """PGD images at l-infinity; the radius grows linearly to 8/255 over the first `ramp` of training."""
    epsilon = attacks.EPSILONS["linf"] * min(1.0, progress / ramp + 0.02)
    step_size = 1.35 * epsilon / steps
    loss = attacks.cross_entropy_loss
    return attacks.pgd(network, images, labels, "linf", epsilon, steps, step_size, loss, generator)


def train_classifier(build, name, pool, seed, epochs, peak_rate, batch=128, attack_steps=0, ramp=0.4):
    """Momentum SGD with a one-cycle rate on the network that build() gives; adversarial (PGD) where attack_steps > 0."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    network = build()
    optimiser = torch.optim.SGD(network.parameters(), lr=peak_rate, momentum=0.9, weight_decay=5e-4, nesterov=True)
    steps = epochs * (len(pool.images) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, peak_rate, steps, cycle_momentum=False)

    def objective(progress, images, labels):
        if attack_steps:
            images = adversarial_batch(network, images, labels, progress, ramp, attack_steps, generator)
        loss = functional.cross_entropy(network(images), labels)
        return loss, {"ce": loss}

    return descend(network, optimiser, schedule, pool.batches(batch, epochs, generator), objective, name)


def squared_distance(embedding, state):
    """The mean over the batch of ||E(x) - x||^2, the data term of the paper's Eq. 4."""
    return (embedding - state).flatten(1).pow(2).sum(dim=1).mean()


def fit_embedding(embedding, objective, batches, steps, peak_rate, weight, name):
    """Adam with a one-cycle rate on cross-entropy + weight * reconstruction, the pair objective(states, labels)."""
    optimiser = torch.optim.Adam(embedding.parameters(), lr=peak_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, peak_rate, steps)

    def weighed(_, states, labels):
        cross_entropy, reconstruction = objective(states, labels)
        return cross_entropy + weight * reconstruction, {"ce": cross_entropy, "reconstruction": reconstruction}

    return descend(embedding, optimiser, schedule, batches, weighed, name)


def train_input_embedding(build, pool, classifiers, seed, epochs, weight, peak_rate=6e-3, batch=100):
    """Eq. 4 at the input: CE through the frozen classifiers plus weight * ||E(x) - x||^2, clean images only."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    embedding = build()

    def objective(images, labels):
        healed = embedding(images)
        losses = [functional.cross_entropy(classifier(healed), labels) for classifier in classifiers]
        return sum(losses) / len(losses), squared_distance(healed, images)

    steps = epochs * (len(pool.images) // batch)
    batches = pool.batches(batch, epochs, generator)
    return fit_embedding(embedding, objective, batches, steps, peak_rate, weight, "input embedding")


def hidden_states(pool, classifiers, input_embedding):
    """Pooled features of every classifier on clean images, without and with the input's control.

    Returns the states [image, source, feature] and the classifier of each source.
    """
    states = []
    with torch.no_grad():
        for chunk in pool.images.split(250):
            images = chunk.float() / 255.0
            pair = (images, input_embedding(images))
            states.append(torch.stack([c.features(x) for c in classifiers for x in pair], dim=1))
    return torch.cat(states), [classifier for classifier in classifiers for _ in range(2)]


def train_hidden_embedding(pool, classifiers, input_embedding, seed, epochs, weight, peak_rate=1e-2, batch=250):
    """Eq. 4 at the pooled features: one embedding for the states of all classifiers, clean images only."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    embedding = networks.HiddenAutoEncoder()
    states, sources = hidden_states(pool, classifiers, input_embedding)

    def batches():
        for epoch in range(epochs):
            for chosen in torch.randperm(len(states), generator=generator).split(batch):
                yield epoch / epochs, states[chosen], pool.labels[chosen]

    def objective(state, labels):
        embedded = embedding(state.flatten(0, 1)).view_as(state)
        losses = [functional.cross_entropy(c.head(embedded[:, i]), labels) for i, c in enumerate(sources)]
        return sum(losses) / len(losses), squared_distance(embedded.flatten(0, 1), state.flatten(0, 1))

    steps = epochs * -(-len(states) // batch)
    return fit_embedding(embedding, objective, batches(), steps, peak_rate, weight, "hidden embedding")


def greedy_control(classifier, input_embedding, hidden_embedding=None):
    """The classifier under greedy control u_t = E_t(x_t) - x_t at the input and at the pooled features."""
    def controlled(images):
        features = classifier.features(input_embedding(images))
        if hidden_embedding is not None:
            features = hidden_embedding(features)
        return classifier.head(features)
    return controlled


def evaluate(classifier, input_embedding, hidden_embedding, images, labels, seed, steps=100, restarts=1):
    """Accuracy per attack: undefended, with input control, with input and hidden control.

    The adversarial images are crafted against the undefended classifier (the paper's oblivious setting).
    """
    variants = {
        "undefended": classifier,
        "input_control": greedy_control(classifier, input_embedding),
        "input_and_hidden_control": greedy_control(classifier, input_embedding, hidden_embedding),
    }
    attacked = {"none": images}
    for norm in attacks.EPSILONS:
        attacked[norm] = attacks.oblivious_attack(classifier, images, labels, norm, steps, seed, restarts)
    return {name: {attack: round(accuracy(variant, found, labels), 4) for attack, found in attacked.items()}
            for name, variant in variants.items()}
