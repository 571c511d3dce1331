"""Embedding functions: auto-encoders that map a state to one of the same shape.

The self-healing paper embeds the input by a fully convolutional network (Long et al. 2015) or by SegNet
(Badrinarayanan et al. 2017), a hidden state by an auto-encoder, and in the white-box setting
uses a denoising auto-encoder. The segmentation networks end here in three colour channels instead of class
scores; where the papers start from ImageNet's VGG-16 for large images, the stages are kept and the widths
are parameters.
"""

from torch import nn


def conv_relu(channels_in, channels_out):
    return [nn.Conv2d(channels_in, channels_out, 3, 1, 1), nn.ReLU()]


def up_stage(channels_in, channels_out):
    """Doubles the plane by a transposed convolution."""
    return nn.Sequential(nn.ConvTranspose2d(channels_in, channels_out, 3, 2, 1, output_padding=1), nn.ReLU(),
                         nn.BatchNorm2d(channels_out))


def conv_norm_relu(channels_in, channels_out, bias=True):
    return [nn.Conv2d(channels_in, channels_out, 3, 1, 1, bias=bias), nn.BatchNorm2d(channels_out), nn.ReLU()]


class EncoderDecoder(nn.Module):
    """An embedding of an image in [0, 1], [N, 3, H, W] to the same; H and W multiples of 2^stages.

    To what a stage of the decoder gives, the encoder's pooled state of that size is added, but not on the whole
    plane; `refine` convolutions follow, each normalised. A 1x1 convolution with a sigmoid ends it. With `coarse` there is no
    sigmoid: the convolution gives next to nothing at first, and is added to the means of squares of so many pixels a side.
    """

    def __init__(self, encoder, channels, last, refine=0, coarse=0):
        super().__init__()
        self.encoder = nn.ModuleList(encoder)
        ups = [*channels[-2::-1], last]
        self.decoder = nn.ModuleList(up_stage(before, after) for before, after in zip(channels[::-1], ups))
        self.refinement = nn.ModuleList(
            nn.Sequential(*(layer for _ in range(refine) for layer in conv_norm_relu(after, after, bias=False))) for after in ups)
        self.coarse, self.output = coarse, nn.Sequential(nn.Conv2d(last, 3, 1), nn.Sigmoid())
        if coarse:
            self.output = self.output[:1]
            nn.init.normal_(self.output[0].weight, std=1e-3)
            nn.init.zeros_(self.output[0].bias)

    def forward(self, images):
        state, states = images, []
        for stage in self.encoder:
            state = stage(state)
            states.append(state)
        for stage, refinement, skip in zip(self.decoder, self.refinement, [*states[-2::-1], None]):
            state = refinement(stage(state) if skip is None else stage(state) + skip)
        if not self.coarse:
            return self.output(state)
        means = nn.functional.avg_pool2d(images, self.coarse)
        return nn.functional.interpolate(means, scale_factor=self.coarse) + self.output(state)


VGG16 = (2, 2, 3, 3, 3)  # convolutions of its stages


class FCN(EncoderDecoder):
    """Fully convolutional embedding as the paper's authors have it: VGG-16's thirteen convolutions down."""

    def __init__(self, width=64):
        channels = [min(width << stage, 8 * width) for stage in range(len(VGG16))]
        encoder = []
        for before, after, count in zip([3, *channels], channels, VGG16):
            layers = [layer for k in range(count) for layer in conv_relu(after if k else before, after)]
            encoder.append(nn.Sequential(*layers, nn.MaxPool2d(2)))
        super().__init__(encoder, channels, width // 2)


class UNet(EncoderDecoder):
    """Stages of two convolutions, each normalised, and a pooling."""

    def __init__(self, width=16, stages=3, refine=0, coarse=0):
        channels = [width << stage for stage in range(stages)]
        encoder = [nn.Sequential(*conv_norm_relu(before, after, bias=False), *conv_norm_relu(after, after, bias=False),
                                 nn.MaxPool2d(2)) for before, after in zip([3, *channels], channels)]
        super().__init__(encoder, channels, width, refine, coarse)


class SegNet(nn.Module):
    """SegNet as an embedding, [N, 3, H, W] to the same; H and W multiples of 32.

    VGG-16's thirteen convolutions, each with BatchNormalization and ReLU, mirrored in the decoder. The
    decoder puts every value back where the encoder's MaxPool found its maximum (MaxUnpool); its last
    convolution has neither normalisation nor activation.
    """

    def __init__(self, width=64):
        super().__init__()
        channels = [min(width << stage, 8 * width) for stage in range(len(VGG16))]
        encoder, decoder = [], []
        for before, after, count in zip([3, *channels], channels, VGG16):
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
    """Auto-encoder of a feature vector, [N, features] to the same: Linear-BN-ELU-Linear, or with `sizes` from the
    features' to the code's as many layers, ELU between them and those of the encoder normalised."""

    def __init__(self, features=512, code=128, sizes=None):
        super().__init__()
        sizes = sizes or (features, code)
        encoder = [layer for before, after in zip(sizes, sizes[1:])
                   for layer in (nn.Linear(before, after), nn.BatchNorm1d(after), nn.ELU())]
        decoder = [layer for before, after in zip(sizes[::-1], sizes[-2::-1])
                   for layer in (nn.Linear(before, after), nn.ELU())]
        self.encoder, self.decoder = nn.Sequential(*encoder), nn.Sequential(*decoder[:-1])

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
