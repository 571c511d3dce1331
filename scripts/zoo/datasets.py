"""Reads images: CIFAR's records, CIFAR-10, CIFAR-100, Tiny-ImageNet and shapes10 for training, the data sets of configs.

Labels are numbered as the Go program numbers them: CIFAR's own numbers (the fine ones of CIFAR-100), the
order of wnids.txt in Tiny-ImageNet. NumPy is enough for records and for the data sets of configs; the rest needs PyTorch.
"""

import dataclasses
import pathlib

import numpy as np

SHAPES10 = pathlib.Path(__file__).resolve().parents[2] / "models" / "zoo" / "shapes10"  # the bundled images
CIFAR_SIDE, TINY_SIDE = 32, 64


class DatasetError(Exception):
    """Files that are not there or not of the layout; the message is one line."""


@dataclasses.dataclass
class ImageSet:
    """PyTorch's tensors: images uint8 [N, 3, H, W] and labels int64 [N] in [0, classes)."""

    images: object
    labels: object
    classes: int

    def __len__(self):
        return len(self.images)

    def head(self, count):
        """The first `count` images, all where count is None."""
        return ImageSet(self.images[:count], self.labels[:count], self.classes)

    def split(self, count):
        """The first `count` images, and the rest."""
        return self.head(count), ImageSet(self.images[count:], self.labels[count:], self.classes)

    def to(self, device):
        return ImageSet(self.images.to(device), self.labels.to(device), self.classes)


def read_records(*paths, label_bytes=1, count=None):
    """Images uint8 [N, 3, 32, 32] and labels int64 [N] of CIFAR's binary records, of each file the first `count`.

    A record is `label_bytes` labels, of which the last counts, then 3072 bytes channel by channel.
    """
    size = label_bytes + 3 * CIFAR_SIDE**2
    parts = []
    for path in paths:
        if not path.is_file():
            raise DatasetError(f"{path} is missing")
        data = np.fromfile(path, np.uint8, -1 if count is None else count * size)
        if len(data) == 0 or len(data) % size:
            raise DatasetError(f"{path} has {len(data)} bytes, no whole number of records of {size}")
        parts.append(data.reshape(-1, size))
    records = np.concatenate(parts)
    images = records[:, label_bytes:].reshape(-1, 3, CIFAR_SIDE, CIFAR_SIDE)
    return images.copy(), records[:, label_bytes - 1].astype(np.int64)


def cifar_records(paths, label_bytes, classes):
    """CIFAR's records as an ImageSet."""
    import torch
    images, labels = read_records(*paths, label_bytes=label_bytes)
    if labels.max() >= classes:
        raise DatasetError(f"{paths[0].parent} has the label {labels.max()} in a set of {classes} classes")
    return ImageSet(torch.from_numpy(images), torch.from_numpy(labels), classes)


def of_config(dataset, count):
    """ids, images float32 [N, C, H, W] in [0, 1] and labels int64 [N] of a config's data set, as selfheal chooses them."""
    path, kind = pathlib.Path(dataset["path"]), dataset["format"]
    if unread := dataset.keys() - {"path", "format", "indices", "limit", "classes"}:
        raise SystemExit(f"data sets with {', '.join(sorted(unread))} are not read here")
    if kind in ("cifar10-bin", "cifar100-bin"):
        images, labels = read_records(path, label_bytes=1 if kind == "cifar10-bin" else 2)
    elif kind == "npz":
        with np.load(path) as arrays:
            images, labels = arrays["x"], arrays["y"].astype(np.int64).reshape(-1)
        if images.shape[1] not in (1, 3) and images.shape[3] in (1, 3):
            images = images.transpose(0, 3, 1, 2)
    else:
        raise SystemExit(f"data sets of format {kind} are not read here; convert it to npz")
    ids = np.array(list(dataset.get("indices") or range(len(labels)))[:count])
    chosen = np.ascontiguousarray(images[ids], np.float32)
    return ids, chosen / np.float32(255) if images.dtype == np.uint8 else chosen, labels[ids]


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
    import torch
    images = torch.empty(len(entries), 3, TINY_SIDE, TINY_SIDE, dtype=torch.uint8)
    for index, (path, _) in enumerate(entries):
        images[index] = torch.from_numpy(read_image(path, TINY_SIDE))
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
    return pixels.transpose(2, 0, 1).copy()


DATASETS = {"cifar10": cifar10, "cifar100": cifar100, "tiny-imagenet": tiny_imagenet, "shapes10": shapes10}


def load(name, folder, train):
    """The training or the test images of the set `name` under `folder` (shapes10's default: the bundled ones)."""
    if folder is None:
        if name != "shapes10":
            raise DatasetError(f"--folder is missing: where {name} lies")
        folder = SHAPES10
    return DATASETS[name](pathlib.Path(folder), train)


def augment(images, padding, side, generator, flip=True):
    """Random windows of `side` pixels of the zero-padded square images and, with `flip`, horizontal flips, one draw an
    image; bytes in, bytes out."""
    import torch
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
