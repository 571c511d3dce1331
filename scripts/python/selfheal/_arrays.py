"""Images and labels, as NumPy arrays or tensors, in the form that the program reads."""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import math
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _words
from ._errors import UsageError

Images = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Classes = Sequence[str] | int | None  # their names in order, or how many there are
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


def pair(x: Any, y: Any, classes: Classes = None) -> tuple[Images, Labels]:
    """Images float32 [N, C, H, W] in [0, 1], also of uint8 ones, and labels int64 [N]; UsageError otherwise."""
    images = images_of(array(x, "x"), "permute" if hasattr(x, "detach") else "transpose")
    return images, labels_of(array(y, "y"), len(images), names_of(classes))


def names_of(classes: Classes) -> Sequence[str] | None:
    """The classes' names where classes are not only counted."""
    if classes is None or isinstance(classes, (int, np.integer)):
        return None
    if isinstance(classes, str):
        raise UsageError(f"classes must be the classes' names in order, or how many there are, not {classes!r}")
    return [str(name) for name in classes]


def files(x: Any) -> list[pathlib.Path] | None:
    """The files that x lists, None where it is no list of paths."""
    if isinstance(x, (str, os.PathLike)):
        raise UsageError("x is one path: pass a list of images' files, or an array")
    if hasattr(x, "detach") or not hasattr(x, "__len__"):
        return None
    listed = list(x) if getattr(x, "ndim", 1) == 1 else []
    if not listed or not all(isinstance(path, (str, os.PathLike)) for path in listed):
        return None
    paths = [pathlib.Path(path).absolute() for path in listed]
    for i, path in enumerate(paths):
        if not path.is_file():
            raise UsageError(f"x[{i}] is no file: {listed[i]}")
    return paths


def example(paths: Sequence[pathlib.Path], resize: int | None, crop: int | None) -> Images:
    """Noise of the size that files of images have when they are resized and cropped, in colours."""
    if crop is not None:
        sides: tuple[int, ...] = (crop, crop)
    else:
        if importlib.util.find_spec("PIL") is None:
            raise UsageError("the size of the files' images is read by pillow, which is not installed: pass crop=")
        from PIL import Image

        try:
            with Image.open(paths[0]) as image:
                sides = image.size[::-1]
        except OSError as problem:
            raise UsageError(f"{paths[0]} is no image: {_words.first_line(problem)}") from None
        if resize is not None:
            sides = tuple(resize * side // min(sides) for side in sides)
    return np.random.default_rng(0).random((16, 3, *sides), dtype=np.float32)


def write(
    folder: pathlib.Path,
    x: Any,
    y: Any,
    classes: Classes,
    resize: int | None,
    crop: int | None,
    targets: Any = None,
    truth: bool = False,
) -> tuple[dict[str, Any], Images | None]:
    """Write a call's images, labels and targets to a folder: what a config says of them, and x as an array if it is
    one. If truth is set, y has not labels but the numbers that a task compares answers with."""
    paths = files(x)
    settings: dict[str, Any] = {} if classes is None else {"classes": names_of(classes) or int(classes)}  # type: ignore[arg-type]
    aims = None if targets is None else labels_of(array(targets, "target"), len(x), names_of(classes), "target")
    if aims is not None:
        np.save(folder / "targets.npy", aims)
        settings["targets"] = "targets.npy"
    if truth:
        rows = array(y, "y")
        if rows.dtype.kind not in "biuf" or len(rows) != len(x):
            raise UsageError(f"y must have a row of numbers for each of {len(x)} images, not shape {list(rows.shape)}")
        np.save(folder / "truth.npy", rows.astype(np.float32))
        settings["truth"], y = "truth.npy", np.zeros(len(x), dtype=np.int64)
    transform = {key: value for key, value in (("resize", resize), ("crop", crop)) if value is not None}
    if paths is None:
        if transform:
            raise UsageError(f"{next(iter(transform))}= is for files of images: x is an array, which has its size")
        images, labels = pair(x, y, classes)
        np.savez(folder / "data.npz", x=images, y=labels)
        known = {} if truth else {"sha256": digest(images, labels, aims)}
        return {**settings, "format": "npz", "path": "data.npz", **known}, images
    labels = labels_of(array(y, "y"), len(paths), names_of(classes))
    with open(folder / "data.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(zip(map(str, paths), labels, strict=True))
    return {**settings, "format": "csv", "path": "data.csv", **({"transform": transform} if transform else {})}, None


def size(x: Any) -> int:
    """About how many bytes the images' file takes."""
    return 4 * math.prod(getattr(x, "shape", ()) or (0,))


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


def labels_of(labels: npt.NDArray[Any], n: int, classes: Sequence[str] | None, name: str = "y") -> Labels:
    """Labels, or names among the classes, as class indices; name is the argument's."""
    shape, what = list(labels.shape), f"{name} must be {n} whole numbers, one an image"
    if len(shape) == 2 and shape[0] == n:
        raise UsageError(f"{what}, not of shape {shape}: pass " + ("y[:, 0]" if shape[1] == 1 else "y.argmax(1)"))
    if shape != [n]:
        raise UsageError(f"{what}, not of shape {shape}")
    if labels.dtype.kind in "UO" and classes is not None:
        known = list(classes)
        for label in labels:
            if label not in known:
                raise UsageError(_words.one_of(name, str(label), known))
        labels = np.array([known.index(label) for label in labels])
    if not np.issubdtype(labels.dtype, np.integer):
        help = ", or names with classes=" if labels.dtype.kind in "UO" else ": pass y.astype(int)"
        if name != "y" and labels.dtype.kind not in "UO":
            help = ", or scores [N, classes]"
        raise UsageError(f"{what}, not of {labels.dtype}{help}")
    if labels.min() < 0:
        raise UsageError(f"{name} has the label {labels.min()}; labels are whole numbers from 0 up")
    return np.ascontiguousarray(labels, dtype=np.int64)


def digest(images: Images, labels: Labels, targets: Labels | None = None) -> str:
    """The sha256 of a data set in results.json: over each image's values, label and target, little-endian."""
    made = hashlib.sha256()
    for i, image in enumerate(images):
        made.update(image.astype("<f4").tobytes())
        for classes in (labels, targets):
            if classes is not None:
                made.update(classes[i].astype("<u8").tobytes())
    return made.hexdigest()


def like(values: npt.NDArray[Any], given: Any) -> Any:
    """Values as the kind that was given: a tensor on its device, or a NumPy array."""
    if not hasattr(given, "detach"):
        return values
    import torch

    return torch.from_numpy(np.ascontiguousarray(values)).to(device=given.device)
