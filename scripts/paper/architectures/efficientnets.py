"""EfficientNet-B0, -B1 and -B2 (Tan and Le 2019).

B0 is the paper's table 1; B1 and B2 scale its widths and depths. Layer for layer the networks equal
torchvision's of the same names, parameter counts included; the names of the parameters are our own.
"""

import math

import torch
from torch import nn

# (expansion, kernel, stride, channels in, channels out, blocks) of B0's seven stages.
STAGES = (
    (1, 3, 1, 32, 16, 1), (6, 3, 2, 16, 24, 2), (6, 5, 2, 24, 40, 2), (6, 3, 2, 40, 80, 3),
    (6, 5, 1, 80, 112, 3), (6, 5, 2, 112, 192, 4), (6, 3, 1, 192, 320, 1),
)
# Width factor, depth factor, dropout before the last layer.
SCALING = {"b0": (1.0, 1.0, 0.2), "b1": (1.0, 1.1, 0.2), "b2": (1.1, 1.2, 0.3)}
SQUEEZE = 4  # a block squeezes to its input channels over this
DROP_PATH = 0.2  # chance with which the last block is skipped in training; grows linearly over the blocks


def conv_norm(channels_in, channels_out, kernel, stride=1, groups=1):
    return [
        nn.Conv2d(channels_in, channels_out, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(channels_out),
    ]


class SqueezeExcite(nn.Module):
    """Scales every channel by a gate in (0, 1) computed from the channels' means."""

    def __init__(self, channels, squeezed):
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, squeezed, 1), nn.SiLU(),
            nn.Conv2d(squeezed, channels, 1), nn.Sigmoid(),
        )

    def forward(self, state):
        return state * self.gate(state)


class MBConv(nn.Module):
    """Inverted bottleneck: expand, depthwise convolution, squeeze-excite, project; skipped where shapes allow."""

    def __init__(self, expansion, kernel, stride, channels_in, channels_out, drop):
        super().__init__()
        expanded = round_channels(channels_in * expansion)
        layers = []
        if expanded != channels_in:
            layers += [*conv_norm(channels_in, expanded, 1), nn.SiLU()]
        layers += [*conv_norm(expanded, expanded, kernel, stride, groups=expanded), nn.SiLU()]
        layers += [SqueezeExcite(expanded, max(1, channels_in // SQUEEZE)), *conv_norm(expanded, channels_out, 1)]
        self.layers = nn.Sequential(*layers)
        self.skip = stride == 1 and channels_in == channels_out
        self.drop = drop

    def forward(self, state):
        change = self.layers(state)
        if not self.skip:
            return change
        if self.training and self.drop > 0:  # stochastic depth, one draw an image
            kept = torch.rand(len(state), 1, 1, 1, device=state.device) >= self.drop
            change = change * kept / (1.0 - self.drop)
        return change + state


def round_channels(channels, divisor=8):
    """The nearest multiple of `divisor`, but never less than 90 % of `channels`."""
    rounded = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return rounded if rounded >= 0.9 * channels else rounded + divisor


class EfficientNet(nn.Module):
    """Images [N, 3, H, W] to logits [N, classes]; the plane shrinks 32-fold."""

    def __init__(self, width_factor, depth_factor, dropout, classes):
        super().__init__()
        plan = []
        for expansion, kernel, stride, channels_in, channels_out, count in STAGES:
            channels_in, channels_out = (round_channels(c * width_factor) for c in (channels_in, channels_out))
            for index in range(math.ceil(count * depth_factor)):
                first = index == 0
                plan.append((expansion, kernel, stride if first else 1, channels_in if first else channels_out,
                             channels_out))
        stem = plan[0][3]
        self.stem = nn.Sequential(*conv_norm(3, stem, 3, 2), nn.SiLU())
        self.blocks = nn.Sequential(*(MBConv(*block, drop=DROP_PATH * index / len(plan))
                                      for index, block in enumerate(plan)))
        last = plan[-1][-1]
        self.top = nn.Sequential(*conv_norm(last, 4 * last, 1), nn.SiLU())
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(4 * last, classes)

    def forward(self, images):
        hidden = self.flatten(self.pool(self.top(self.blocks(self.stem(images)))))
        return self.head(self.dropout(hidden))


def efficientnet(variant, classes=200):
    """EfficientNet "b0", "b1" or "b2"."""
    return EfficientNet(*SCALING[variant], classes)
