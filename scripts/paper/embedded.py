#!/usr/bin/env python3
"""Draws images, and what an embedding makes of them below: the picture in docs/measured/front.md.

    python3 scripts/paper/embedded.py --embedding FILE --folder cifar-10-batches-bin --out PICTURE [--images 12]

The images are CIFAR-10's first test images. The interpreter needs numpy, onnxruntime, PyTorch and Pillow.
"""

import argparse
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

import numpy
import onnxruntime
from PIL import Image

from zoo import datasets

ENLARGED = 3  # pixels of the picture for one of an image


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embedding", required=True, help="its ONNX file")
    parser.add_argument("--folder", required=True, help="CIFAR-10's binary files")
    parser.add_argument("--out", required=True, help="the picture, a PNG file")
    parser.add_argument("--images", type=int, default=12, help="how many (default %(default)s)")
    arguments = parser.parse_args()
    images = datasets.load("cifar10", arguments.folder, train=False).head(arguments.images).images.numpy()
    session = onnxruntime.InferenceSession(arguments.embedding)
    embedded = session.run(None, {session.get_inputs()[0].name: images.astype(numpy.float32) / 255})[0]
    rows = [images, (255 * embedded).clip(0, 255).round().astype(numpy.uint8)]
    picture = Image.fromarray(numpy.vstack([numpy.hstack(list(row.transpose(0, 2, 3, 1))) for row in rows]))
    size = (ENLARGED * picture.width, ENLARGED * picture.height)
    picture.resize(size, Image.Resampling.NEAREST).save(arguments.out, optimize=True)


if __name__ == "__main__":
    main()
