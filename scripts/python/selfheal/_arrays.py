"""Images and labels, as NumPy arrays or tensors, in the form that the program reads."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _words
from ._errors import UsageError

Images = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
COLOURS = (1, 3, 4)  # channels that images have


def array(values: Any, name: str) -> npt.NDArray[Any]:
    """A NumPy array of an array, a tensor on any device, or nested lists; name is the argument's."""
    try:
        if getattr(values, "is_meta", False):
            raise UsageError(f"{name} is a meta tensor, which has a shape and no values")
        if hasattr(values, "detach"):  # a tensor
            values = values.detach().cpu()
            values = values.float().numpy() if "bfloat16" in str(values.dtype) else values.numpy()
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as problem:
        if isinstance(problem, UsageError):
            raise
        raise UsageError(f"{name} is no array: {_words.first_line(problem)}") from None


def pair(x: Any, y: Any, classes: Sequence[str] | None = None) -> tuple[Images, Labels]:
    """Images float32 [N, C, H, W] in [0, 1], also of uint8 ones, and labels int64 [N]; UsageError otherwise."""
    images = images_of(array(x, "x"), "permute" if hasattr(x, "detach") else "transpose")
    return images, labels_of(array(y, "y"), len(images), classes)


def images_of(images: npt.NDArray[Any], turn: str) -> Images:
    """Images as the program takes them; turn is what the caller's kind of array calls a change of axes."""
    shape = list(images.shape)
    if len(shape) == 3:
        raise UsageError(f"x must be images [N, C, H, W], not one of shape {shape}: pass x[None]")
    if len(shape) != 4:
        raise UsageError(f"x must be images [N, C, H, W], not of shape {shape}")
    if not images.size:
        raise UsageError(f"x is empty, of shape {shape}: there is nothing to attack")
    if shape[3] in COLOURS and shape[1] not in COLOURS and (shape[3] > 1 or shape[1] == shape[2]):
        raise UsageError(f"x has its channels last, shape {shape}: pass x.{turn}(0, 3, 1, 2)")
    if images.dtype == np.uint8:
        return np.ascontiguousarray(images.astype(np.float32) / np.float32(255))
    if np.issubdtype(images.dtype, np.floating):
        images = np.ascontiguousarray(images, dtype=np.float32)
    low, high = images.min(), images.max()
    if np.issubdtype(images.dtype, np.number) and low >= 0 and 2 < high <= 255:
        raise UsageError(f"x has values up to {high:.4g}: pass x / 255, or pixels of uint8")
    if not np.issubdtype(images.dtype, np.floating):
        raise UsageError(f"x must be of floats in [0, 1] or of uint8, not of {images.dtype}")
    finite = np.isfinite(images).all(axis=(1, 2, 3))
    if not finite.all():
        raise UsageError(f"x has values that are NaN or infinite, first in x[{finite.argmin()}]")
    if low < 0 or high > 1:
        raise UsageError(
            f"x must lie in [0, 1], not from {low:.6g} to {high:.6g}; normalisation belongs into the "
            "model, or into mean= and std="
        )
    return images


def labels_of(labels: npt.NDArray[Any], n: int, classes: Sequence[str] | None) -> Labels:
    """Labels, or names among the classes, as class indices."""
    shape, what = list(labels.shape), f"y must be {n} whole numbers, one an image"
    if len(shape) == 2 and shape[0] == n:
        raise UsageError(f"{what}, not of shape {shape}: pass " + ("y[:, 0]" if shape[1] == 1 else "y.argmax(1)"))
    if shape != [n]:
        raise UsageError(f"{what}, not of shape {shape}")
    if labels.dtype.kind in "UO" and classes is not None:
        known = list(classes)
        for label in labels:
            if label not in known:
                raise UsageError(_words.one_of("y", str(label), known))
        labels = np.array([known.index(label) for label in labels])
    if not np.issubdtype(labels.dtype, np.integer):
        help = ", or names with classes=" if labels.dtype.kind in "UO" else ": pass y.astype(int)"
        raise UsageError(f"{what}, not of {labels.dtype}{help}")
    if labels.min() < 0:
        raise UsageError(f"y has the label {labels.min()}; labels are whole numbers from 0 up")
    return np.ascontiguousarray(labels, dtype=np.int64)


def digest(images: Images, labels: Labels) -> str:
    """The sha256 of a data set in results.json: over each image's values and label, little-endian."""
    made = hashlib.sha256()
    for image, label in zip(images, labels, strict=True):
        made.update(image.astype("<f4").tobytes())
        made.update(label.astype("<u8").tobytes())
    return made.hexdigest()


def like(values: npt.NDArray[Any], given: Any) -> Any:
    """Values as the kind that was given: a tensor on its device, or a NumPy array."""
    if not hasattr(given, "detach"):
        return values
    import torch

    return torch.from_numpy(np.ascontiguousarray(values)).to(device=given.device)
