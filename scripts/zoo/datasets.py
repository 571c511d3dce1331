"""Image sets in their usual layouts, as bytes: CIFAR-10, CIFAR-100, Tiny-ImageNet and the bundled shapes10.

Labels are numbered as the Go program numbers them: CIFAR's own numbers (the fine ones of CIFAR-100), the
order of wnids.txt in Tiny-ImageNet.
"""

import dataclasses
import pathlib

import numpy as np
import torch

ZOO = pathlib.Path(__file__).resolve().parents[2] / "models" / "zoo"
CIFAR_SIDE, TINY_SIDE = 32, 64


class DatasetError(Exception):
    """Files that are not there or not of the layout; the message is one line."""


@dataclasses.dataclass
class ImageSet:
    """Images uint8 [N, 3, H, W] and labels int64 [N] in [0, classes)."""

    images: torch.Tensor
    labels: torch.Tensor
    classes: int

    def __len__(self):
        return len(self.images)

    def head(self, count):
        """The first `count` images, all where count is None."""
        return ImageSet(self.images[:count], self.labels[:count], self.classes)

    def to(self, device):
        return ImageSet(self.images.to(device), self.labels.to(device), self.classes)


def cifar_records(paths, label_bytes, classes):
    """CIFAR's binary records: `label_bytes` labels, of which the last counts, then 3072 bytes channel by channel."""
    record = label_bytes + 3 * CIFAR_SIDE**2
    parts = []
    for path in paths:
        if not path.is_file():
            raise DatasetError(f"{path} is missing")
        data = np.fromfile(path, np.uint8)
        if len(data) == 0 or len(data) % record:
            raise DatasetError(f"{path} has {len(data)} bytes, no whole number of records of {record}")
        parts.append(data.reshape(-1, record))
    records = np.concatenate(parts)
    labels = records[:, label_bytes - 1].astype(np.int64)
    if labels.max() >= classes:
        raise DatasetError(f"{paths[0].parent} has the label {labels.max()} in a set of {classes} classes")
    images = records[:, label_bytes:].reshape(-1, 3, CIFAR_SIDE, CIFAR_SIDE)
    return ImageSet(torch.from_numpy(images.copy()), torch.from_numpy(labels), classes)


def inner_folder(folder, name):
    """`folder` or, where the archive was unpacked inside it, folder/name."""
    inner = folder / name
    return inner if inner.is_dir() else folder


def cifar10(folder, train):
    folder = inner_folder(folder, "cifar-10-batches-bin")
    names = [f"data_batch_{index}.bin" for index in range(1, 6)] if train else ["test_batch.bin"]
    return cifar_records([folder / name for name in names], 1, 10)


def cifar100(folder, train):
    folder = inner_folder(folder, "cifar-100-binary")
    return cifar_records([folder / ("train.bin" if train else "test.bin")], 2, 100)


def shapes10(folder, train):
    return cifar_records([folder / ("train.bin" if train else "test.bin")], 1, 10)


def tiny_imagenet(folder, train):
    """Stanford's layout: wnids.txt, train/WNID/images/*.JPEG, val/val_annotations.txt and val/images/*.JPEG."""
    folder = inner_folder(folder, "tiny-imagenet-200")
    names = text_lines(folder / "wnids.txt")
    label_of = {name.strip(): label for label, name in enumerate(names)}
    entries = []
    if train:
        for name, label in label_of.items():
            images = folder / "train" / name / "images"
            if not images.is_dir():
                raise DatasetError(f"{images} is missing")
            entries += [(path, label) for path in sorted(images.iterdir())]
    else:
        for line in text_lines(folder / "val" / "val_annotations.txt"):
            file, name = line.split()[:2]
            if name not in label_of:
                raise DatasetError(f"val_annotations.txt: {file} has the class {name}, which is not in wnids.txt")
            entries.append((folder / "val" / "images" / file, label_of[name]))
    images = torch.empty(len(entries), 3, TINY_SIDE, TINY_SIDE, dtype=torch.uint8)
    for index, (path, _) in enumerate(entries):
        images[index] = read_image(path, TINY_SIDE)
    return ImageSet(images, torch.tensor([label for _, label in entries]), len(label_of))


def text_lines(path):
    if not path.is_file():
        raise DatasetError(f"{path} is missing")
    return [line for line in path.read_text().splitlines() if line.strip()]


def read_image(path, side):
    """An image file as bytes [3, side, side]; grey ones get three equal channels."""
    try:
        from PIL import Image
    except ImportError as problem:
        raise DatasetError("reading image files needs Pillow") from problem
    try:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB"))
    except FileNotFoundError as problem:
        raise DatasetError(f"{path} is missing") from problem
    except OSError as problem:
        raise DatasetError(f"{path} is no image that can be read") from problem
    if pixels.shape != (side, side, 3):
        raise DatasetError(f"{path} is {pixels.shape[1]}x{pixels.shape[0]}, not {side}x{side}")
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1)


DATASETS = {"cifar10": cifar10, "cifar100": cifar100, "tiny-imagenet": tiny_imagenet, "shapes10": shapes10}


def load(name, folder, train):
    """The training or the test images of the set `name` under `folder` (shapes10's default: the bundled ones)."""
    if folder is None:
        if name != "shapes10":
            raise DatasetError(f"--folder is missing: where {name} lies")
        folder = ZOO / "shapes10"
    return DATASETS[name](pathlib.Path(folder), train)


def augment(images, padding, side, generator, flip=True):
    """Random windows of `side` pixels of the zero-padded square images and, with `flip`, horizontal flips, one draw an
    image; bytes in, bytes out."""
    (count, channels), device = images.shape[:2], images.device
    padded = torch.nn.functional.pad(images, [padding] * 4)
    top, left = torch.randint(0, padded.shape[-1] - side + 1, (2, count, 1), generator=generator).to(device)
    rows = top + torch.arange(side, device=device)
    columns = left + torch.arange(side, device=device)
    if flip:
        flipped = torch.rand(count, 1, generator=generator).to(device) < 0.5
        columns = torch.where(flipped, columns.flip(1), columns)
    image, channel = torch.arange(count, device=device)[:, None, None, None], torch.arange(channels, device=device)[:, None, None]
    return padded[image, channel, rows[:, None, :, None], columns[:, None, None, :]]
