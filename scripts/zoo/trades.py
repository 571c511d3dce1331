"""TRADES (Zhang et al. 2019, "Theoretically Principled Trade-off between Robustness and Accuracy").

The loss is CE(f(x), y) + beta * KL(f(x) || f(x')), where x' maximises the divergence inside the ball around x.
"""

import torch
from torch.nn import functional

from zoo import attacks

START_DEVIATION = 1e-3  # of the normal noise the inner attack starts from; at x itself the gradient is nought


def divergence(logits, probabilities):
    """KL(probabilities || softmax(logits)) of each image, [N]."""
    return functional.kl_div(logits.log_softmax(dim=1), probabilities, reduction="none").sum(dim=1)


def perturbed(network, images, norm, epsilon, steps, step_size, generator):
    """Images in [0, 1] within epsilon of `images` whose outputs diverge from theirs, by projected gradient ascent.

    Steps follow the gradient's sign (linf) or the normalised gradient (l2). The network is judged as it is
    set: put it in evaluation mode, or its running statistics see the attack's images.
    """
    with torch.no_grad():
        natural = network(images).softmax(dim=1)
    noise = torch.randn(images.shape, generator=generator).to(images.device)
    delta = attacks.project(START_DEVIATION * noise, norm, epsilon)
    for _ in range(steps):
        gradient = attacks.input_gradient(network, divergence, (images + delta).clamp(0.0, 1.0), natural)
        delta = attacks.project(delta + step_size * attacks.steepest_direction(gradient, norm), norm, epsilon)
        delta = (images + delta).clamp(0.0, 1.0) - images
    return (images + delta).detach()


def loss(network, images, labels, norm, epsilon, steps, step_size, beta, generator):
    """The batch's TRADES loss; leaves the network in training mode."""
    network.eval()
    adversarial = perturbed(network, images, norm, epsilon, steps, step_size, generator)
    network.train()
    natural = network(images)
    robust = divergence(network(adversarial), natural.softmax(dim=1)).mean()
    return functional.cross_entropy(natural, labels) + beta * robust
