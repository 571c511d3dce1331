"""Writes harness/dataset/testdata/samples: small data sets in the layouts that users have, made or read back by the
tools that users have them from (torchvision, Pillow, pyarrow).

    python3 scripts/goldens/dataset_samples.py --out harness/dataset/testdata/samples
"""

import argparse
import gzip
import io
import pathlib
import pickle
import struct
import tarfile
import tempfile

import datasets
import numpy as np
import pyarrow
import pyarrow.parquet
import torch
from PIL import Image
from torchvision import transforms
from torchvision.datasets import ImageFolder, cifar


def cifar_images(first, count):
    """Pixel k of image i is (7 i + k / 3) mod 256; the images compress well."""
    return np.stack([(7 * i + np.arange(3072) // 3) % 256 for i in range(first, first + count)]).astype(np.uint8)


class Python2Pickler(pickle._Pickler):  # the one in Python, whose methods can be replaced
    """Writes what Python 2's cPickle wrote by protocol 2: its texts are bytes, NumPy has its old names."""

    dispatch = dict(pickle._Pickler.dispatch)

    def save_text(self, text):
        data = text.encode() if isinstance(text, str) else text
        short = len(data) < 256
        self.write((b"U" + bytes([len(data)]) if short else b"T" + struct.pack("<i", len(data))) + data)
        self.memoize(text)

    dispatch[str] = dispatch[bytes] = save_text

    def save_global(self, obj, name=None):
        module = obj.__module__.replace("numpy._core", "numpy.core")
        self.write(f"c{module}\n{name or obj.__name__}\n".encode())
        self.memoize(obj)

    def reducer_override(self, obj):
        if isinstance(obj, np.dtype):  # Python 2 had numbers for False and True here
            function, arguments, state = obj.__reduce__()
            return function, (arguments[0], 0, 1), state
        return NotImplemented

    def save(self, obj, save_persistent_id=True):
        if isinstance(obj, type) or callable(obj):
            return self.save_global(obj)
        return super().save(obj, save_persistent_id)


def pickled(obj):
    out = io.BytesIO()
    Python2Pickler(out, protocol=2).dump(obj)
    return out.getvalue()


def cifar_files(hundred):
    """The files' names and their first images."""
    if hundred:
        return [("train", 0), ("test", 10)]
    return [(f"data_batch_{i + 1}", 2 * i) for i in range(5)] + [("test_batch", 10)]


def cifar_python(hundred):
    """The files of CIFAR-10's or -100's Python version, of two images each."""
    files = {}
    for name, first in cifar_files(hundred):
        ids = range(first, first + 2)
        labels = {"fine_labels": [37 * i % 100 for i in ids], "coarse_labels": [i % 20 for i in ids]} if hundred else {
            "labels": [3 * i % 10 for i in ids]}
        files[name] = pickled({"batch_label": name, **labels, "data": cifar_images(first, 2),
                               "filenames": [f"image_{i}.png" for i in ids]})
    names = {"fine_label_names": [], "coarse_label_names": []} if hundred else {"label_names": []}
    files["meta" if hundred else "batches.meta"] = pickled(names)
    return files


def python3_pickles():
    """CIFAR-10's test batch as Python 3 writes it by each protocol: as an array, in either order, and as bytes."""
    images = cifar_images(10, 2)
    images.flags.writeable = False
    forms = {"array": images.copy(), "fixed": images, "fortran": np.asfortranarray(images), "bytes": images.tobytes()}
    files = {}
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        for form, data in forms.items():
            batch = {"batch_label": "test", "labels": [0, 3], "data": data, "filenames": [b"\xe9.png", "\u0142.png"]}
            files[f"{form}-{protocol}"] = pickle.dumps(batch, protocol)
        keys = {key.encode(): value for key, value in batch.items()}  # as of pickle.load(…, encoding="bytes")
        files[f"keys-{protocol}"] = pickle.dumps(keys, protocol)
    files["bytearray-5"] = pickle.dumps(batch | {"data": bytearray(batch["data"])}, 5)
    files["buffers-5"] = pickle.dumps(batch | {"data": images}, 5, buffer_callback=lambda _: None)
    return files


def cifar_binary(hundred):
    """The same in the binary version."""
    files = {}
    for name, first in cifar_files(hundred):
        labels = [[i % 20, 37 * i % 100] if hundred else [3 * i % 10] for i in range(first, first + 2)]
        files[name + ".bin"] = b"".join(bytes(label) + image.tobytes()
                                        for label, image in zip(labels, cifar_images(first, 2)))
    return files


def write_archive(path, folder, files):
    """A .tar.gz that is the same each time."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    path.write_bytes(gzip.compress(out.getvalue(), mtime=0))


def check_with_torchvision(path, hundred):
    """torchvision reads the same images and labels from the archive."""
    cifar.check_integrity = lambda *_: True  # of the published files' checksums
    with tempfile.TemporaryDirectory() as root:
        with tarfile.open(path) as archive:
            archive.extractall(root, filter="data")
        data = cifar.CIFAR100 if hundred else cifar.CIFAR10
        for train, first, count in [(True, 0, 2 if hundred else 10), (False, 10, 2)]:
            got = data(root, train=train)
            want = cifar_images(first, count).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
            assert (got.data == want).all()
            assert got.targets == [37 * i % 100 if hundred else 3 * i % 10 for i in range(first, first + count)]


def write_cifar(out):
    for hundred, number in [(False, "10"), (True, "100")]:
        python = out / f"cifar-{number}-python.tar.gz"
        write_archive(python, f"cifar-{number}-" + ("python" if hundred else "batches-py"), cifar_python(hundred))
        check_with_torchvision(python, hundred)
        write_archive(out / f"cifar-{number}-binary.tar.gz",
                      f"cifar-{number}-" + ("binary" if hundred else "batches-bin"), cifar_binary(hundred))
    write_archive(out / "python3-pickles.tar.gz", "pickles", python3_pickles())


def small_image(i, height=6, width=8):
    """A colour picture; pixel (y, x) of image i is (20 i, 30 y, 30 x)."""
    y, x = np.mgrid[:height, :width]
    return Image.fromarray(np.stack([0 * y + 20 * i, 30 * y, 30 * x], axis=-1).astype(np.uint8))


def write_parquet(out):
    """Data sets as the Hugging Face hub holds them, by its library and by pyarrow alone."""
    (out / "hub" / "data").mkdir(parents=True, exist_ok=True)
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog", "eel"])})
    for split, shard, first, count in [("train", "00000-of-00002", 0, 4), ("train", "00001-of-00002", 4, 3),
                                       ("test", "00000-of-00001", 7, 5)]:
        ids = range(first, first + count)
        rows = features.encode_batch({"image": [small_image(i) for i in ids], "label": [i % 3 for i in ids]})
        table = datasets.table.InMemoryTable.from_pydict(rows, schema=features.arrow_schema)
        data = datasets.Dataset(table, info=datasets.DatasetInfo(features=features), fingerprint="sample")
        data.to_parquet(out / "hub" / "data" / f"{split}-{shard}.parquet", batch_size=2)
    encoded = []
    for i in range(5):
        png = io.BytesIO()
        small_image(i).save(png, "PNG")
        encoded.append({"bytes": png.getvalue(), "path": f"{i}.png"})
    table = pyarrow.table({"img": encoded, "fine_label": [3 * i % 5 for i in range(5)], "coarse_label": [0] * 5})
    for codec in ["zstd", "gzip", "none"]:
        pyarrow.parquet.write_table(table, out / f"{codec}.parquet", compression=codec, row_group_size=3)
    absent = pyarrow.table({"image": pyarrow.array([{"bytes": None, "path": "/a.png"}] * 2, pyarrow.struct(
        {"bytes": pyarrow.binary(), "path": pyarrow.string()})), "label": [0, 1]})
    pyarrow.parquet.write_table(absent, out / "paths.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a"], "label": ["b"]}), out / "texts.parquet")


def write_numpy(out):
    """Arrays under the names that Keras, MedMNIST, savez and others give them; of image i pixel 0 is i."""
    def images(first, count, dtype=np.uint8):
        pixels = np.zeros((count, 4, 5, 3), dtype)
        pixels[:, 0, 0, 0] = range(first, first + count)
        return pixels

    def labels(first, count):
        return np.arange(first, first + count) % 3

    folder = out / "numpy"
    folder.mkdir(exist_ok=True)
    np.savez(folder / "keras.npz", x_train=images(0, 4), y_train=labels(0, 4), x_test=images(4, 2), y_test=labels(4, 2))
    np.savez_compressed(folder / "medmnist.npz", train_images=images(0, 4), train_labels=labels(0, 4)[:, None],
                        val_images=images(4, 2), val_labels=labels(4, 2)[:, None])
    np.savez(folder / "positional.npz", images(3, 2), labels(3, 2))
    np.savez(folder / "own.npz", pictures=images(5, 3), classes=labels(5, 3), weights=np.zeros(3))
    np.savez(folder / "several.npz", a=images(5, 3), b=images(8, 3), classes=labels(5, 3))
    pairs = folder / "pairs"
    pairs.mkdir(exist_ok=True)
    np.save(pairs / "cifar10.1_v6_data.npy", images(0, 3))
    np.save(pairs / "cifar10.1_v6_labels.npy", labels(0, 3))
    files = folder / "files"
    files.mkdir(exist_ok=True)
    for split, first in [("train", 0), ("test", 7)]:
        np.save(files / f"x_{split}.npy", images(first, 3))
        np.save(files / f"y_{split}.npy", labels(first, 3))
    levels = torch.linspace(0, 1, 2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    levels[0, :, 0, 0], levels[1, :, 0, 0] = 0, 1
    imagenet = transforms.functional.normalize(levels, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    for name, values in [("imagenet", imagenet), ("halves", 2 * levels - 1), ("levels", 255 * levels),
                         ("other", 3 * levels - 1.7), ("wild", 1000 * levels)]:
        np.savez_compressed(folder / f"scaled-{name}.npz", x=values.numpy(), y=labels(0, 2))


TRANSFORMS = {"smaller": (24, 20, "bilinear"), "smaller-bicubic": (24, 20, "bicubic"), "larger": (34, 31, "bicubic"),
              "cropped": (None, 21, "bilinear")}


def write_pictures(out):
    """Image files of several kinds and sizes, and what torchvision makes of them."""
    folder = out / "pictures"
    for number, (name, height, width, options) in enumerate([
            ("cat/a.png", 30, 40, {}), ("cat/b.jpg", 51, 37, {"quality": 90}),
            ("cat/c.webp", 45, 33, {"quality": 80}), ("dog/a.webp", 28, 29, {"lossless": True}),
            ("dog/b.jpg", 32, 47, {"quality": 90, "subsampling": "4:4:4"}), ("dog/c.webp", 25, 26, {"quality": 90}),
            ("dog/d.jpg", 33, 44, {"quality": 85, "subsampling": "4:2:2", "progressive": True})]):
        y, x = np.mgrid[:height, :width]
        pixels = np.stack([128 + 60 * np.sin(x / 3 + number) + 40 * np.cos(y / 6), 128 + 90 * np.sin((x + y) / 5), 5 * x],
                          axis=-1)
        pixels[5:15, 8:20] = [250, 20, 10 * number]
        image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
        if name == "dog/c.webp":
            image.putalpha(200)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        image.save(folder / name, **options)
    for name, (resize, crop, mode) in TRANSFORMS.items():
        steps = [transforms.CenterCrop(crop), transforms.PILToTensor()]
        if resize:
            steps.insert(0, transforms.Resize(resize, transforms.InterpolationMode(mode)))
        images, labels = zip(*ImageFolder(folder, transforms.Compose(steps)))
        np.savez_compressed(out / f"pictures-{name}.npz", x=torch.stack(images).numpy(), y=np.array(labels))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    write_cifar(out)
    write_parquet(out)
    write_numpy(out)
    write_pictures(out)


if __name__ == "__main__":
    main()
