"""Embedding functions: auto-encoders that map a state to one of the same shape.

The self-healing paper embeds the input by a fully convolutional network (Long et al. 2015) or by SegNet
(Badrinarayanan et al. 2017), a hidden state by an auto-encoder of two layers, and in the white-box setting
uses a denoising auto-encoder. The segmentation networks end here in three colour channels instead of class
scores; where the papers start from ImageNet's VGG-16 for large images, the stages are kept and the widths
are parameters.
"""

from torch import nn


def conv_relu(channels_in, channels_out):
    return [nn.Conv2d(channels_in, channels_out, 3, 1, 1), nn.ReLU()]


class UpStage(nn.Module):
    """Doubles the plane by a transposed convolution, ReLU, adds the encoder's state of that size, normalises."""

    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.up = nn.ConvTranspose2d(channels_in, channels_out, 3, 2, 1, output_padding=1)
        self.relu = nn.ReLU()
        self.norm = nn.BatchNorm2d(channels_out)

    def forward(self, state, skip=None):
        state = self.relu(self.up(state))
        return self.norm(state if skip is None else state + skip)


class FCN(nn.Module):
    """Fully convolutional embedding of an image in [0, 1], [N, 3, H, W] to the same; H and W multiples of 2^stages.

    Encoder stages of two convolutions and a pooling each; the decoder's stages add the encoder's pooled
    states (the skips of FCN-8s, carried on to the first stage) and a 1x1 convolution with a sigmoid ends it.
    """

    def __init__(self, width=64, stages=5):
        super().__init__()
        channels = [min(width << stage, 8 * width) for stage in range(stages)]
        self.encoder = nn.ModuleList(
            nn.Sequential(*conv_relu(before, after), *conv_relu(after, after), nn.MaxPool2d(2))
            for before, after in zip([3, *channels], channels)
        )
        self.decoder = nn.ModuleList(
            UpStage(before, after) for before, after in zip(channels[::-1], [*channels[-2::-1], width // 2]))
        self.output = nn.Sequential(nn.Conv2d(width // 2, 3, 1), nn.Sigmoid())

    def forward(self, images):
        state, states = images, []
        for stage in self.encoder:
            state = stage(state)
            states.append(state)
        skips = [*states[-2::-1], None]
        for stage, skip in zip(self.decoder, skips):
            state = stage(state, skip)
        return self.output(state)


def conv_norm_relu(channels_in, channels_out):
    return [nn.Conv2d(channels_in, channels_out, 3, 1, 1), nn.BatchNorm2d(channels_out), nn.ReLU()]


class SegNet(nn.Module):
    """SegNet as an embedding, [N, 3, H, W] to the same; H and W multiples of 32.

    VGG-16's thirteen convolutions, each with BatchNormalization and ReLU, mirrored in the decoder. The
    decoder puts every value back where the encoder's MaxPool found its maximum (MaxUnpool); its last
    convolution has neither normalisation nor activation.
    """

    stage_convolutions = (2, 2, 3, 3, 3)

    def __init__(self, width=64):
        super().__init__()
        channels = [min(width << stage, 8 * width) for stage in range(len(self.stage_convolutions))]
        encoder, decoder = [], []
        for before, after, count in zip([3, *channels], channels, self.stage_convolutions):
            down, up = conv_norm_relu(before, after), []
            for _ in range(count - 1):
                down += conv_norm_relu(after, after)
                up += conv_norm_relu(after, after)
            up += [nn.Conv2d(after, 3, 3, 1, 1)] if before == 3 else conv_norm_relu(after, before)
            encoder.append(nn.Sequential(*down))
            decoder.insert(0, nn.Sequential(*up))
        self.encoder, self.decoder = nn.ModuleList(encoder), nn.ModuleList(decoder)
        self.pool, self.unpool = nn.MaxPool2d(2, 2, return_indices=True), nn.MaxUnpool2d(2, 2)

    def forward(self, images):
        state, places = images, []
        for stage in self.encoder:
            state, place = self.pool(stage(state))
            places.append(place)
        for stage in self.decoder:
            state = stage(self.unpool(state, places.pop()))
        return state


class AutoEncoder(nn.Module):
    """Two-layer auto-encoder of a feature vector, [N, features] to the same: Linear-BN-ELU-Linear."""

    def __init__(self, features=512, code=128):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(features, code), nn.BatchNorm1d(code), nn.ELU())
        self.decoder = nn.Linear(code, features)

    def forward(self, state):
        return self.decoder(self.encoder(state))


class DenoisingAutoEncoder(nn.Module):
    """Convolutional denoising auto-encoder of an image in [0, 1], [N, 3, H, W] to the same; H and W multiples of 4.

    Two convolutions of stride 2 down and two transposed ones up, ELU between them and a sigmoid at the end.
    """

    def __init__(self, width=32):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, width, 3, 1, 1), nn.ELU(),
            nn.Conv2d(width, 2 * width, 4, 2, 1), nn.ELU(),
            nn.Conv2d(2 * width, 4 * width, 4, 2, 1), nn.ELU(),
        )
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1), nn.ELU(),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.ELU(),
            nn.Conv2d(width, 3, 3, 1, 1), nn.Sigmoid(),
        )

    def forward(self, images):
        return self.decoder(self.encoder(images))
