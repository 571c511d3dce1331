"""Images and labels, as NumPy arrays or tensors, in the form that the program reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ._errors import UsageError

Images = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


def array(values: Any) -> npt.NDArray[Any]:
    """A NumPy array of an array, a tensor on any device, or nested lists."""
    if hasattr(values, "detach"):  # a tensor
        values = values.detach().cpu().numpy()
    return np.asarray(values)


def pair(x: Any, y: Any) -> tuple[Images, Labels]:
    """Images float32 [N, C, H, W] in [0, 1], also of uint8 ones, and labels int64 [N]; UsageError otherwise."""
    images, labels = array(x), array(y)
    if images.ndim != 4 or not len(images):
        raise UsageError(f"x must be images [N, C, H, W], not of shape {list(images.shape)}")
    if images.dtype == np.uint8:
        images = images.astype(np.float32) / np.float32(255)
    elif not np.issubdtype(images.dtype, np.floating):
        raise UsageError(f"x must be of floats in [0, 1] or of uint8, not of {images.dtype}")
    images = np.ascontiguousarray(images, dtype=np.float32)
    low, high = float(images.min()), float(images.max())
    if not (low >= 0 and high <= 1):  # also where a value is no number
        raise UsageError(
            f"x must lie in [0, 1], not from {low:.4g} to {high:.4g}; normalisation belongs into the "
            "model, or into mean and std"
        )
    if labels.shape != (len(images),) or not np.issubdtype(labels.dtype, np.integer):
        raise UsageError(
            f"y must be {len(images)} whole numbers, one an image, not {labels.dtype} of shape {list(labels.shape)}"
        )
    return images, np.ascontiguousarray(labels, dtype=np.int64)


def like(values: npt.NDArray[Any], given: Any) -> Any:
    """Values as the kind that was given: a tensor on its device, or a NumPy array."""
    if not hasattr(given, "detach"):
        return values
    import torch

    return torch.from_numpy(np.ascontiguousarray(values)).to(device=given.device)
