"""The zoo's networks: a narrow pre-activation ResNet and two auto-encoders that serve as embeddings.

Images lie in [0, 1]; no network normalises its input. All are small on purpose: a forward pass of the
classifier costs about three million multiplications an image.
"""

import torch
from torch import nn
from torch.nn import functional


class PreActivationBlock(nn.Module):
    """BN-ReLU-Conv-BN-ReLU-Conv plus a shortcut that is projected where the shape changes."""

    def __init__(self, channels_in, channels_out, stride):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels_in)
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, 1, 1, bias=False)
        self.project = None
        if stride != 1 or channels_in != channels_out:
            self.project = nn.Conv2d(channels_in, channels_out, 1, stride, bias=False)

    def forward(self, state):
        active = functional.relu(self.norm1(state))
        shortcut = state if self.project is None else self.project(active)
        hidden = functional.relu(self.norm2(self.conv1(active)))
        return self.conv2(hidden) + shortcut


class PreActivationResNet(nn.Module):
    """Stem of stride 2, three stages of one block (16, 32, 64 channels), mean pooling, one Linear."""

    feature_count = 64

    def __init__(self, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 2, 1, bias=False)
        self.blocks = nn.Sequential(
            PreActivationBlock(16, 16, 1), PreActivationBlock(16, 32, 2), PreActivationBlock(32, 64, 2)
        )
        self.norm = nn.BatchNorm2d(64)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(self.feature_count, classes)

    def features(self, images):
        """The state that enters the last Linear layer, [N, 64]."""
        hidden = functional.relu(self.norm(self.blocks(self.stem(images))))
        return torch.flatten(self.pool(hidden), 1)

    def forward(self, images):
        return self.head(self.features(images))


def conv_norm_relu(channels_in, channels_out, kernel, stride):
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(),
    )


class InputAutoEncoder(nn.Module):
    """Fully convolutional auto-encoder of an image: down to 8x8, a narrow code, and up again."""

    def __init__(self, width=24, code=16):
        super().__init__()
        self.encoder = nn.Sequential(
            conv_norm_relu(3, width, 5, 2),
            conv_norm_relu(width, 2 * width, 3, 2),
            conv_norm_relu(2 * width, 2 * width, 3, 1),
            nn.Conv2d(2 * width, code, 1),
        )
        self.decoder = nn.Sequential(
            conv_norm_relu(code, 2 * width, 3, 1),
            nn.Upsample(scale_factor=2, mode="nearest"),
            conv_norm_relu(2 * width, width, 3, 1),
            nn.Upsample(scale_factor=2, mode="nearest"),
            nn.Conv2d(width, 3, 3, 1, 1),
            nn.Sigmoid(),
        )

    def forward(self, state):
        return self.decoder(self.encoder(state))


class HiddenAutoEncoder(nn.Module):
    """Two-layer auto-encoder of the pooled features: Linear-BN-ELU-Linear through a narrow code."""

    def __init__(self, features=PreActivationResNet.feature_count, code=24):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(features, code), nn.BatchNorm1d(code), nn.ELU(), nn.Linear(code, features)
        )

    def forward(self, state):
        return self.layers(state)
