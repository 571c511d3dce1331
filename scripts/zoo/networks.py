"""The zoo's networks: small classifiers of four kinds and two auto-encoders that serve as embeddings.

Images lie in [0, 1]; no network normalises its input. All are small on purpose: a forward pass of a classifier
costs two to seven million multiplications an image. Every classifier ends in FEATURES pooled features and one
Linear, so that one auto-encoder serves the features of all.
"""

import torch
from torch import nn
from torch.nn import functional

from paper.architectures import efficientnets, embeddings

FEATURES = 64
CLASSES = 10


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


class Classifier(nn.Module):
    """A body that ends in a plane of FEATURES channels, its mean (`pool`), and one Linear (`head`)."""

    def features(self, images):
        """The state that enters the last Linear layer, [N, FEATURES]."""
        return torch.flatten(self.pool(self.body(images)), 1)

    def forward(self, images):
        return self.head(self.features(images))


class PreActivationResNet(Classifier):
    """Stem of stride 2, then a stage of one block for each of `widths`, the plane halved between stages."""

    def __init__(self, stem=16, widths=(16, 32, FEATURES)):
        super().__init__()
        self.stem = nn.Conv2d(3, stem, 3, 2, 1, bias=False)
        self.blocks = nn.Sequential(*(
            PreActivationBlock(before, width, 1 if index == 0 else 2)
            for index, (before, width) in enumerate(zip((stem, *widths), widths))))
        self.norm = nn.BatchNorm2d(FEATURES)
        self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(FEATURES, CLASSES)

    def body(self, images):
        return functional.relu(self.norm(self.blocks(self.stem(images))))


def wider_resnet():
    """The ResNet with half as many channels again in its first stage, a quarter in its second."""
    return PreActivationResNet(24, (24, 40, FEATURES))


def wide_resnet():
    """A wide ResNet (Zagoruyko and Komodakis 2016): one stage fewer, each twice as wide as the ResNet's."""
    return PreActivationResNet(16, (32, FEATURES))


class EfficientNet(Classifier):
    """Stem of stride 2, MBConv blocks with squeeze-and-excitation and SiLU, a 1x1 convolution (Tan and Le 2019)."""

    # Expansion, kernel, stride, channels in and channels out of each block.
    plan = ((3, 5, 2, 16, 24), (4, 3, 1, 24, 24), (4, 3, 1, 24, 24), (4, 3, 2, 24, 40), (4, 3, 1, 40, 40))

    def __init__(self):
        super().__init__()
        first, last = self.plan[0][3], self.plan[-1][4]
        self.stem = nn.Sequential(*efficientnets.conv_norm(3, first, 3, 2), nn.SiLU())
        self.blocks = nn.Sequential(*(efficientnets.MBConv(*block, drop=0.0) for block in self.plan))
        self.top = nn.Sequential(*efficientnets.conv_norm(last, FEATURES, 1), nn.SiLU())
        self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(FEATURES, CLASSES)

    def body(self, images):
        return self.top(self.blocks(self.stem(images)))


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


class SegNet(embeddings.SegNet):
    """SegNet of two stages, which unpools where it pooled: another embedding of an image."""

    stage_convolutions = (2, 2)

    def __init__(self, width=12):
        super().__init__(width)


class HiddenAutoEncoder(nn.Module):
    """Two-layer auto-encoder of the pooled features: Linear-BN-ELU-Linear through a narrow code."""

    def __init__(self, features=FEATURES, code=24):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(features, code), nn.BatchNorm1d(code), nn.ELU(), nn.Linear(code, features)
        )

    def forward(self, state):
        return self.layers(state)
