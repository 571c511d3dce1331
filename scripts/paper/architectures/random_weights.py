"""Random weights for test graphs.

PyTorch's defaults make poor test graphs: BatchNormalization starts as the identity and equal tensors are
written once by some exporters. Here every tensor is drawn from a seed and no two are equal.
"""

import math
from unittest import mock

import torch
from torch import nn
from torch.nn import functional

SCALE = (0.5, 1.5)  # range of BatchNormalization's scale
SHIFT = 0.3  # deviation of BatchNormalization's bias and of other biases
MEAN_ERROR = 0.2  # running means are off the true ones by this, in standard deviations
VARIANCE_ERROR = (0.6, 1.6)  # and running variances by a factor of this range
LEAST_VARIANCE = 0.1  # share of the layer's mean variance below which no channel's falls
CALIBRATION_BATCH = 64  # fewer, and EfficientNet's last layers (2x2 planes) would be normalised by chance
NORMALISATIONS = (nn.BatchNorm1d, nn.BatchNorm2d)
KINKS = {"relu": (0,), "hardtanh": (0, 6), "hardswish": (-3, 3), "hardsigmoid": (-3, 3)}  # hardtanh as ReLU6 calls it
NUDGE = 0.1  # furthest that keep_off_kinks moves a bias, in standard deviations of its channel


def random_weights(network, input_shape, seed, calibration_batch=CALIBRATION_BATCH, scale=SCALE):
    """Draw all parameters and running statistics of `network`, in place; returns it in evaluation mode.

    Weights have variance 2 / inputs of a unit (He et al. 2015). Running statistics cannot be drawn blindly, or
    activations would grow or fade with depth: each layer's are measured on `calibration_batch` random images in
    [0, 1] of `input_shape` (without the batch) that passed the layers before it, and then put out of true, as
    no network's are true on another batch.
    """
    generator = torch.Generator().manual_seed(seed)
    network.eval()
    with torch.no_grad():
        for module in network.modules():
            draw(module, generator, scale)
        hooks = [module.register_forward_pre_hook(lambda norm, inputs: set_statistics(norm, inputs[0], generator))
                 for module in network.modules() if isinstance(module, NORMALISATIONS) and module.track_running_stats]
        network(torch.rand(calibration_batch, *input_shape, generator=generator))
        for hook in hooks:
            hook.remove()
    return network


def normal(tensor, deviation, generator):
    tensor.copy_(torch.randn(tensor.shape, generator=generator) * deviation)


def uniform(tensor, bounds, generator):
    low, high = bounds
    tensor.copy_(low + (high - low) * torch.rand(tensor.shape, generator=generator))


def draw(module, generator, scale):
    """Draw the parameters that `module` itself holds."""
    if isinstance(module, NORMALISATIONS + (nn.LayerNorm, nn.GroupNorm)) and module.weight is not None:
        uniform(module.weight, scale, generator)
        if module.bias is not None:
            normal(module.bias, SHIFT, generator)
        return
    for parameter in module.parameters(recurse=False):
        if parameter.dim() > 1:
            normal(parameter, math.sqrt(2.0 / inputs_of_unit(module, parameter)), generator)
        else:
            normal(parameter, SHIFT, generator)


def inputs_of_unit(module, weight):
    """How many inputs one output of the layer `module` sums over by its parameter `weight`."""
    if isinstance(module, nn.ConvTranspose2d):
        taps = math.prod(module.kernel_size) / math.prod(module.stride)  # each output meets one tap in stride^2
        return max(1.0, module.in_channels / module.groups * taps)
    return math.prod(weight.shape[1:])


def set_statistics(norm, state, generator):
    """Set the running statistics to those of `state`, moved off them, and no variance near nought."""
    variance, mean = torch.var_mean(state.transpose(0, 1).flatten(1), dim=1)
    variance.clamp_(min=LEAST_VARIANCE * float(variance.mean()))
    norm.running_mean.copy_(mean + MEAN_ERROR * variance.sqrt() * torch.randn(mean.shape, generator=generator))
    uniform(norm.running_var, VARIANCE_ERROR, generator)
    norm.running_var.mul_(variance)


def keep_off_kinks(network, images):
    """Move biases, in place, so that no activation behind one has an input near its kinks on `images`.

    A network of a million ReLUs has some whose input is nought but for rounding, and there no gradient is exact:
    two precisions differentiate two linear pieces. Each channel of a layer whose output an activation of KINKS reads
    directly, or behind the sum that ends a residual block, is therefore moved, by NUDGE at most, until the kinks lie in
    the widest gap between its values. Returns `network`.
    """
    written = {}  # the last output of every layer with a bias, or the sum it is part of, by the tensor's identity
    add = torch.Tensor.__add__

    def added(state, other):
        total = add(state, other)
        layer, _ = written.get(id(other), written.get(id(state), (None, None)))
        if layer is not None:
            written[id(total)] = layer, total
        return total

    running = []  # layers with a bias, the innermost last

    def remember(layer, inputs, output):
        running.pop()
        written[id(output)] = layer, output

    def normalised(*arguments, **named):  # timm's layers hold a normalisation and the activation behind it
        output = batch_norm(*arguments, **named)
        if running:
            written[id(output)] = running[-1], output
        return output

    def nudged(activation, kinks):
        def activate(state, *arguments, inplace=False, **named):
            layer, _ = written.pop(id(state), (None, None))
            if layer is not None:
                channels = state.dim() - 1 if isinstance(layer, nn.Linear) else 1
                shift = to_widest_gap(state.transpose(0, channels).flatten(1), kinks)
                layer.bias += shift
                state = (state.transpose(channels, -1) + shift).transpose(channels, -1)
            return activation(state, *arguments, **named)
        return activate

    biased = [module for module in network.eval().modules() if isinstance(getattr(module, "bias", None), nn.Parameter)]
    hooks = [hook for module in biased
             for hook in (module.register_forward_pre_hook(lambda layer, inputs: running.append(layer)),
                          module.register_forward_hook(remember))]
    # The modules nn.ReLU, nn.ReLU6, ... call these functions too.
    functions = {name: nudged(getattr(functional, name), kinks) for name, kinks in KINKS.items()}
    batch_norm, functions["batch_norm"] = functional.batch_norm, normalised
    with torch.no_grad(), mock.patch.multiple(functional, **functions), mock.patch.object(torch.Tensor, "__add__", added):
        network(images)
    for hook in hooks:
        hook.remove()
    return network


def to_widest_gap(values, kinks):
    """For each row of `values` the shift, NUDGE at most, after which they are furthest from the nearest kink."""
    reach = NUDGE * values.std(dim=1, keepdim=True)
    distances = torch.cat([values - kink for kink in kinks], dim=1)
    within = torch.cat([-reach, distances, reach], dim=1).maximum(-reach).minimum(reach).sort(dim=1).values
    widest = within.diff(dim=1).argmax(dim=1, keepdim=True)
    return -(within.gather(1, widest) + within.gather(1, widest + 1)).squeeze(1) / 2
