"""The paper's networks, written from the papers that introduced them, under the names the scripts use.

`ARCHITECTURES[name].build(classes=10)` gives the network with PyTorch's default weights; `random_weights`
replaces them by seeded ones under which every layer's output is of order one.
"""

import dataclasses
import functools
from typing import Callable

from .efficientnets import efficientnet
from .embeddings import FCN, AutoEncoder, DenoisingAutoEncoder, SegNet, UNet
from .random_weights import SCALE, keep_off_kinks, random_weights
from .resnets import preactivation_resnet, resnet, wide_resnet


@dataclasses.dataclass(frozen=True)
class Architecture:
    """How to build a network and what it takes.

    `options` are the keyword arguments of `build` with the paper's values; `image_size` is the side of the
    square images of the paper's experiment, None where the state is a vector of options["features"] numbers.
    """

    description: str
    constructor: Callable
    options: dict
    image_size: int | None

    @property
    def classifies(self):
        return "classes" in self.options

    @property
    def input_name(self):
        return "input" if self.classifies else "state"

    @property
    def output_name(self):
        return "logits" if self.classifies else "embedding"

    def build(self, **options):
        """The network; an option that this architecture has not is a ValueError."""
        for name in options:
            if name not in self.options:
                raise ValueError(f"the architecture has no option {name}, only {', '.join(self.options)}")
        return self.constructor(**{**self.options, **options})

    def input_shape(self, image_size=None, **options):
        """Shape of one input without the batch."""
        if self.image_size is None:
            return (options.get("features", self.options["features"]),)
        size = image_size or self.image_size
        return (3, size, size)


def _table():
    table = {}
    for depth in (18, 34, 50):
        table[f"rn-{depth}"] = Architecture(f"pre-activation ResNet-{depth}", functools.partial(preactivation_resnet, depth),
                                            {"classes": 10, "width": 64}, 32)
    for depth in (20, 32):
        table[f"resnet-{depth}"] = Architecture(f"ResNet-{depth}", functools.partial(resnet, depth),
                                                {"classes": 10, "width": 16}, 32)
    for depth, factor, classes in ((28, 8, 10), (34, 8, 10), (28, 10, 100), (34, 10, 100), (76, 10, 100)):
        table[f"wrn-{depth}-{factor}"] = Architecture(
            f"wide ResNet-{depth}-{factor}", functools.partial(wide_resnet, depth, factor),
            {"classes": classes, "width": 16}, 32)
    for variant in ("b0", "b1", "b2"):
        table[f"efficientnet-{variant}"] = Architecture(
            f"EfficientNet-{variant.upper()}", functools.partial(efficientnet, variant), {"classes": 200}, 64)
    table["fcn"] = Architecture("fully convolutional embedding of the input", FCN, {"width": 64}, 32)
    table["unet"] = Architecture("normalised encoder-decoder of the input", UNet, {"width": 16, "stages": 3}, 32)
    table["segnet"] = Architecture("SegNet as embedding of the input", SegNet, {"width": 64}, 64)
    table["autoencoder"] = Architecture("two-layer auto-encoder of a hidden state", AutoEncoder,
                                        {"features": 512, "code": 128}, None)
    table["denoising-autoencoder"] = Architecture("convolutional denoising auto-encoder of the input",
                                                  DenoisingAutoEncoder, {"width": 32}, 32)
    return table


ARCHITECTURES = _table()

__all__ = ["ARCHITECTURES", "SCALE", "Architecture", "keep_off_kinks", "random_weights"]
