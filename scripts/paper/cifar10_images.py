#!/usr/bin/env python3
"""Makes CIFAR-10's binary files of folders of images, one a class: what train.py and `selfheal fit` read.

    git clone https://github.com/cyizhuo/CIFAR-10-dataset
    python3 scripts/paper/cifar10_images.py CIFAR-10-dataset/train --out data/cifar-10-batches-bin --test CIFAR-10-dataset/test
    python3 scripts/paper/cifar10_images.py CIFAR-10-dataset/train --out data/cifar-10-batches-bin --test test.bin

Classes are numbered as CIFAR-10 numbers them, which is by name. The five files data_batch_1.bin to data_batch_5.bin take
one image of each class in turn, so the first N images have nearly as many of each; so does test_batch.bin where --test
is such a folder too, and where it is a file of records that is copied. Images that were stored as JPEG are not
CIFAR-10's bit for bit, and networks that are trained on them are others (docs/measured/fit.md).
"""

import argparse
import pathlib
import shutil
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

try:
    from zoo.datasets import CIFAR_SIDE, DatasetError, read_image, read_records
except ImportError as missing:
    if __name__ != "__main__":
        raise
    sys.exit(f"cifar10_images.py: error: {missing}; see scripts/requirements.txt")

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
BATCHES = 5
SUFFIXES = {".jpg", ".jpeg", ".png"}


def record(path, label):
    """An image file as CIFAR-10's record: the label, then the channels one by one, 3073 bytes."""
    return bytes([label]) + read_image(path, CIFAR_SIDE).tobytes()


def in_turn(folder):
    """The image files and their labels: the first of each class, the second of each, and so on."""
    classes = []
    for label, name in enumerate(CLASSES):
        paths = sorted(p for p in (folder / name).glob("*") if p.suffix.lower() in SUFFIXES)
        if not paths:
            raise DatasetError(f"{folder / name} has no images")
        classes.append([(path, label) for path in paths])
    if len({len(c) for c in classes}) > 1:
        raise DatasetError(f"{folder} has " + ", ".join(f"{len(c)} of {name}" for name, c in zip(CLASSES, classes)))
    return [entry for rank in zip(*classes) for entry in rank]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="with a folder of images for each class")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for the binary files")
    parser.add_argument("--test", type=pathlib.Path, help="a folder like it, or records: what is to be test_batch.bin")
    arguments = parser.parse_args(argv)
    try:
        entries = in_turn(arguments.folder)
        tests = in_turn(arguments.test) if arguments.test and arguments.test.is_dir() else []
        tested = len(read_records(arguments.test)[1]) if arguments.test and not tests else len(tests)
        arguments.out.mkdir(parents=True, exist_ok=True)
        size = -(-len(entries) // BATCHES)
        files = {f"data_batch_{i + 1}.bin": entries[i * size:(i + 1) * size] for i in range(BATCHES)}
        if tests:
            files["test_batch.bin"] = tests
        for name, chosen in files.items():
            (arguments.out / name).write_bytes(b"".join(record(*e) for e in chosen))
        if tested and not tests:
            shutil.copyfile(arguments.test, arguments.out / "test_batch.bin")
    except (DatasetError, OSError) as problem:
        print(f"cifar10_images.py: error: {problem}", file=sys.stderr)
        return 1
    print(f"{arguments.out}: {len(entries)} training images" + (f", {tested} test images" if tested else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
