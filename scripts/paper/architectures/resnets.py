"""Residual networks for small images.

ResNet-20 and -32 are those of He et al. 2016, "Deep Residual Learning", section 4.2, for 32x32 images: three stages of
(depth - 2) / 6 blocks with 16, 32 and 64 channels, shortcuts without parameters. The others activate before they convolve.

ResNet-18, -34 and -50 follow He et al. 2016, "Identity Mappings in Deep Residual Networks", with the widths
of the ImageNet networks and a stem for 32x32 images: one 3x3 convolution of stride 1, no pooling. The wide
ones follow Zagoruyko and Komodakis 2016, "Wide Residual Networks": WRN-depth-factor has three stages of
(depth - 4) / 6 basic blocks with 16, 32 and 64 channels times the factor.
"""

from torch import nn
from torch.nn import functional


class BasicBlock(nn.Module):
    """BN-ReLU-Conv3x3-BN-ReLU-Conv3x3 plus the shortcut."""

    expansion = 1

    def __init__(self, channels_in, width, stride):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels_in)
        self.conv1 = nn.Conv2d(channels_in, width, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.relu = nn.ReLU()
        self.shortcut = projection(channels_in, width, stride)

    def forward(self, state):
        active = self.relu(self.norm1(state))
        # The projection sees the activated state, the identity the raw one (He et al. 2016, section 4.2).
        carried = state if self.shortcut is None else self.shortcut(active)
        return self.conv2(self.relu(self.norm2(self.conv1(active)))) + carried


class BottleneckBlock(nn.Module):
    """BN-ReLU-Conv1x1, BN-ReLU-Conv3x3, BN-ReLU-Conv1x1 plus the shortcut; the last widens fourfold."""

    expansion = 4

    def __init__(self, channels_in, width, stride):
        super().__init__()
        channels_out = self.expansion * width
        self.norm1 = nn.BatchNorm2d(channels_in)
        self.conv1 = nn.Conv2d(channels_in, width, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, channels_out, 1, bias=False)
        self.relu = nn.ReLU()
        self.shortcut = projection(channels_in, channels_out, stride)

    def forward(self, state):
        active = self.relu(self.norm1(state))
        carried = state if self.shortcut is None else self.shortcut(active)
        hidden = self.conv2(self.relu(self.norm2(self.conv1(active))))
        return self.conv3(self.relu(self.norm3(hidden))) + carried


def projection(channels_in, channels_out, stride):
    """A 1x1 convolution where a block changes the state's shape, None where it does not."""
    if stride == 1 and channels_in == channels_out:
        return None
    return nn.Conv2d(channels_in, channels_out, 1, stride, bias=False)


class PreActivationResNet(nn.Module):
    """Stem, stages of blocks, BN-ReLU, mean over the plane, Linear. Images [N, 3, H, W] to logits [N, classes].

    `stages` lists (blocks, width, stride of the first block); `stem` is the stem's channel count.
    """

    def __init__(self, block, stem, stages, classes):
        super().__init__()
        self.stem = nn.Conv2d(3, stem, 3, 1, 1, bias=False)
        channels, blocks = stem, []
        for count, width, stride in stages:
            for index in range(count):
                blocks.append(block(channels, width, stride if index == 0 else 1))
                channels = block.expansion * width
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.head = nn.Linear(channels, classes)

    def forward(self, images):
        hidden = self.relu(self.norm(self.blocks(self.stem(images))))
        return self.head(self.flatten(self.pool(hidden)))


class OriginalBlock(nn.Module):
    """Conv3x3-BN-ReLU-Conv3x3-BN plus the shortcut, ReLU. A shortcut that changes the shape takes every second row and
    column, with zeros in the new channels."""

    def __init__(self, channels_in, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, width, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.stride, self.added = stride, width - channels_in

    def forward(self, state):
        carried = state
        if self.added:
            carried = functional.pad(state[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, 0, self.added))
        hidden = self.relu(self.norm1(self.conv1(state)))
        return self.relu(self.norm2(self.conv2(hidden)) + carried)


class ResNet(nn.Module):
    """Conv3x3-BN-ReLU, stages of blocks, mean over the plane, Linear. Images [N, 3, H, W] to logits [N, classes]."""

    def __init__(self, blocks, classes, width):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        channels, layers = width, []
        for stage in range(3):
            for index in range(blocks):
                layers.append(OriginalBlock(channels, width << stage, 2 if stage and not index else 1))
                channels = width << stage
        self.blocks = nn.Sequential(*layers)
        self.pool, self.flatten = nn.AdaptiveAvgPool2d(1), nn.Flatten()
        self.head = nn.Linear(channels, classes)

    def forward(self, images):
        return self.head(self.flatten(self.pool(self.blocks(self.stem(images)))))


def resnet(depth, classes=10, width=16):
    """ResNet-depth; the stages have width, 2 and 4 times width channels."""
    blocks, rest = divmod(depth - 2, 6)
    if rest or blocks < 1:
        raise ValueError(f"such a ResNet's depth is 2 plus a multiple of 6, not {depth}")
    return ResNet(blocks, classes, width)


STAGES = {18: (BasicBlock, (2, 2, 2, 2)), 34: (BasicBlock, (3, 4, 6, 3)), 50: (BottleneckBlock, (3, 4, 6, 3))}


def preactivation_resnet(depth, classes=10, width=64):
    """ResNet-18, -34 or -50; the stages have width, 2, 4 and 8 times width channels (four times that for 50)."""
    block, counts = STAGES[depth]
    stages = [(count, width << index, 1 if index == 0 else 2) for index, count in enumerate(counts)]
    return PreActivationResNet(block, width, stages, classes)


def wide_resnet(depth, factor, classes=10, width=16):
    """WRN-depth-factor; the stem has `width` channels, the stages 1, 2 and 4 times width times factor."""
    count, rest = divmod(depth - 4, 6)
    if rest or count < 1:
        raise ValueError(f"a wide ResNet's depth is 4 plus a multiple of 6, not {depth}")
    stages = [(count, (width * factor) << index, 1 if index == 0 else 2) for index in range(3)]
    return PreActivationResNet(BasicBlock, width, stages, classes)
