#!/usr/bin/env python3
"""Makes CIFAR's binary files of folders of images, one a class: what train.py and `selfheal fit` read.

    git clone https://github.com/cyizhuo/CIFAR-10-dataset
    python3 scripts/paper/cifar_images.py CIFAR-10-dataset/train --out data/cifar-10-batches-bin --test CIFAR-10-dataset/test
    python3 scripts/paper/cifar_images.py CIFAR-10-dataset/train --out data/cifar-10-batches-bin --test test.bin
    git clone https://github.com/cyizhuo/CIFAR-100-dataset
    python3 scripts/paper/cifar_images.py CIFAR-100-dataset/train --out data/cifar-100-binary --test CIFAR-100-dataset/test

Ten folders make CIFAR-10's files, a hundred CIFAR-100's, whose coarse labels are 0 here: nothing reads them. Classes
are numbered by name, as both sets number them. The files take one image of each class in turn, so the first N images
have nearly as many of each; the test file does so where --test is such a folder too, and is copied where it is a file
of records. Images that were stored as JPEG are not CIFAR's bit for bit, and networks that are trained on them are
others (docs/measured/fit.md).
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
    sys.exit(f"cifar_images.py: error: {missing}; see scripts/requirements.txt")

SUFFIXES = {".jpg", ".jpeg", ".png"}
FILES = {  # by the number of classes: the training files, the test file and a record's bytes before the class
    10: ([f"data_batch_{index}.bin" for index in range(1, 6)], "test_batch.bin", b""),
    100: (["train.bin"], "test.bin", b"\0"),
}


def in_turn(folder):
    """The image files and their labels, the first of each class, the second of each, and so on; and the classes' number."""
    names = sorted(p.name for p in folder.iterdir() if p.is_dir())
    if len(names) not in FILES:
        raise DatasetError(f"{folder} has {len(names)} folders of images; CIFAR has 10 or 100 classes")
    classes = []
    for label, name in enumerate(names):
        paths = sorted(p for p in (folder / name).glob("*") if p.suffix.lower() in SUFFIXES)
        if not paths:
            raise DatasetError(f"{folder / name} has no images")
        classes.append([(path, label) for path in paths])
    if len({len(c) for c in classes}) > 1:
        raise DatasetError(f"{folder} has " + ", ".join(f"{len(c)} of {name}" for name, c in zip(names, classes)))
    return [entry for rank in zip(*classes) for entry in rank], len(classes)


def convert(folder, out, test):
    """Writes the files and says how many training and test images they have."""
    entries, classes = in_turn(folder)
    names, test_name, before = FILES[classes]
    size = -(-len(entries) // len(names))
    files = {name: entries[i * size:(i + 1) * size] for i, name in enumerate(names)}
    tested = 0
    if test and test.is_dir():
        files[test_name], tests = in_turn(test)
        if tests != classes:
            raise DatasetError(f"{test} has {tests} classes, {folder} {classes}")
        tested = len(files[test_name])
    elif test:
        tested = len(read_records(test, label_bytes=1 + len(before))[1])
    out.mkdir(parents=True, exist_ok=True)
    for name, chosen in files.items():
        records = (before + bytes([label]) + read_image(path, CIFAR_SIDE).tobytes() for path, label in chosen)
        (out / name).write_bytes(b"".join(records))
    if test and not test.is_dir():
        shutil.copyfile(test, out / test_name)
    return len(entries), tested


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="with a folder of images for each class")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for the binary files")
    parser.add_argument("--test", type=pathlib.Path, help="a folder like it, or records: what is to be the test file")
    arguments = parser.parse_args(argv)
    try:
        trained, tested = convert(arguments.folder, arguments.out, arguments.test)
    except (DatasetError, OSError) as problem:
        print(f"cifar_images.py: error: {problem}", file=sys.stderr)
        return 1
    print(f"{arguments.out}: {trained} training images" + (f", {tested} test images" if tested else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
