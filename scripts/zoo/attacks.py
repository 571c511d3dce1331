"""Projected gradient attacks for adversarial training and for judging the zoo's networks, and the loss of TRADES.

Strong enough to tell a broken network from a robust one; the zoo's users attack with AutoAttack.
"""

import torch
from torch.nn import functional

EPSILONS = {"linf": 8.0 / 255.0, "l2": 0.5, "l1": 12.0}
FIRST_STEP = {"linf": 0.25, "l2": 0.25, "l1": 0.5}  # of oblivious_attack, as a share of epsilon
SPARSE_SHARE = 0.02  # of the coordinates that one l1 step moves
START_DEVIATION = 1e-3  # of the normal noise that TRADES' attack starts from; at the image its gradient is nought


def norm_of(delta):
    """Euclidean norm of each image's perturbation, shaped for broadcasting."""
    return delta.flatten(1).norm(dim=1).clamp_min(1e-12)[:, None, None, None]


def steepest_direction(gradient, norm):
    """The ascent direction of unit size in `norm`; for l1 spread over the largest coordinates."""
    if norm == "linf":
        return gradient.sign()
    if norm == "l2":
        return gradient / norm_of(gradient)
    magnitude = gradient.abs().flatten(1)
    kept = max(1, int(SPARSE_SHARE * magnitude.shape[1]))
    threshold = magnitude.topk(kept, dim=1).values[:, -1][:, None, None, None]
    return gradient.sign() * (gradient.abs() >= threshold) / kept


def project(delta, norm, epsilon):
    """The nearest perturbation inside the ball (Euclidean projection)."""
    if norm == "linf":
        return delta.clamp(-epsilon, epsilon)
    if norm == "l2":
        return delta * (epsilon / norm_of(delta)).clamp_max(1.0)
    return project_l1(delta.flatten(1), epsilon).view_as(delta)


def project_l1(delta, epsilon):
    """Projection onto the l1 ball by sorting, row by row."""
    magnitude = delta.abs()
    descending, _ = magnitude.sort(dim=1, descending=True)
    rank = torch.arange(1, delta.shape[1] + 1, dtype=delta.dtype, device=delta.device)
    excess = (descending.cumsum(dim=1) - epsilon) / rank
    last = (descending > excess).sum(dim=1, keepdim=True) - 1
    shrink = excess.gather(1, last.clamp_min(0)).clamp_min(0.0)
    return delta.sign() * (magnitude - shrink).clamp_min(0.0)


def cross_entropy_loss(logits, labels):
    """Cross-entropy of each image."""
    return functional.cross_entropy(logits, labels, reduction="none")


def margin_loss(logits, labels):
    """Largest wrong logit minus the label's: positive where the image is misclassified."""
    label_logit = logits.gather(1, labels[:, None])[:, 0]
    others = logits.scatter(1, labels[:, None], float("-inf"))
    return others.max(dim=1).values - label_logit


LOSSES = {"ce": cross_entropy_loss, "margin": margin_loss}


def divergence(logits, probabilities):
    """KL(probabilities || softmax(logits)) of each image, [N]."""
    return functional.kl_div(logits.log_softmax(dim=1), probabilities, reduction="none").sum(dim=1)


def random_start(images, norm, epsilon, generator):
    """A random perturbation inside the ball: uniform for linf, projected Gaussian otherwise."""
    noise = torch.randn(images.shape, generator=generator).to(images.device)
    if norm == "linf":
        return epsilon * (2.0 * torch.rand(images.shape, generator=generator).to(images.device) - 1.0)
    return project(noise * epsilon, norm, epsilon)


def near_start(images, norm, epsilon, generator):
    """A little normal noise, inside the ball."""
    noise = torch.randn(images.shape, generator=generator).to(images.device)
    return project(START_DEVIATION * noise, norm, epsilon)


def input_gradient(network, loss, images, labels):
    """Gradient of the summed loss by the images."""
    images = images.detach().requires_grad_(True)
    (gradient,) = torch.autograd.grad(loss(network(images), labels).sum(), images)
    return gradient


def pgd(network, images, labels, norm, epsilon, steps, step_size, loss, generator, decay=0.0, start=random_start):
    """Projected gradient ascent on loss(network(x), labels) from a random start; returns the last iterate.

    The network is judged as it is set. The step size falls linearly to the share 1 - decay of its first value.
    """
    delta = start(images, norm, epsilon, generator)
    for step in range(steps):
        gradient = input_gradient(network, loss, (images + delta).clamp(0.0, 1.0), labels)
        size = step_size * (1.0 - decay * step / steps)
        delta = project(delta + size * steepest_direction(gradient, norm), norm, epsilon)
        delta = (images + delta).clamp(0.0, 1.0) - images
    return (images + delta).detach()


def oblivious_attack(network, images, labels, norm, steps, seed, restarts=1):
    """Adversarial images against the undefended network: the union over two losses and restarts.

    An image is taken over only while it is not yet misclassified, as an ensemble of attacks does.
    """
    generator = torch.Generator().manual_seed(seed)
    epsilon = EPSILONS[norm]
    adversarial = images.clone()
    with torch.no_grad():
        standing = network(images).argmax(dim=1) == labels
    for loss in list(LOSSES.values()) * restarts:
        chosen = standing.nonzero()[:, 0]
        if len(chosen) == 0:
            break
        found = pgd(network, images[chosen], labels[chosen], norm, epsilon, steps, FIRST_STEP[norm] * epsilon,
                    loss, generator, decay=0.9)
        with torch.no_grad():
            fooled = network(found).argmax(dim=1) != labels[chosen]
        adversarial[chosen] = found
        standing[chosen[fooled]] = False
    return adversarial


def trades_attack(network, images, norm, epsilon, steps, step_size, generator):
    """Images within epsilon of `images` whose outputs diverge from theirs."""
    with torch.no_grad():
        natural = network(images).softmax(dim=1)
    return pgd(network, images, natural, norm, epsilon, steps, step_size, divergence, generator, start=near_start)


def trades_loss(network, images, labels, norm, epsilon, steps, step_size, beta, generator):
    """The batch's CE(f(x), y) + beta * KL(f(x) || f(x')), where x' maximises the divergence inside the ball around x
    (Zhang et al. 2019, "Theoretically Principled Trade-off between Robustness and Accuracy").

    The attack sees the network in evaluation mode, so that running statistics do not see its images; it is left in
    training mode.
    """
    network.eval()
    adversarial = trades_attack(network, images, norm, epsilon, steps, step_size, generator)
    network.train()
    natural = network(images)
    robust = divergence(network(adversarial), natural.softmax(dim=1)).mean()
    return functional.cross_entropy(natural, labels) + beta * robust
