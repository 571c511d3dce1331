"""Runs the authors' code for the common corruptions, from a checkout of github.com/hendrycks/robustness:

    python scripts/goldens/corruption_samples.py CHECKOUT samples      # attacks/corruption/testdata/samples.npz
    python scripts/goldens/corruption_samples.py CHECKOUT statistics   # attacks/corruption/testdata/statistics.json
    python scripts/goldens/corruption_samples.py CHECKOUT textures     # attacks/corruption/frost

samples replaces numpy's random numbers by those of a counter (splitmix64), which the Go test draws too: the outputs must
then agree. statistics uses numpy's own: for each corruption and severity the mean of the change and its mean square,
over the first 200 images of shapes10, each with its standard error.

Needs numpy below 2, scipy, scikit-image, opencv-python-headless 4.5, Pillow and Wand with ImageMagick 6 (Debian:
libmagickwand-6.q16-6). What newer libraries have renamed is replaced in the authors' text, nothing else is.
"""
import argparse
import json
import os
import pathlib
import re
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

import numpy as np
from PIL import Image
from scipy.special import ndtri
from scipy.stats import poisson

from zoo import datasets

NAMES = ("gaussian_noise shot_noise impulse_noise defocus_blur glass_blur motion_blur zoom_blur snow frost fog "
         "brightness contrast elastic_transform pixelate jpeg_compression").split()
HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "..", "attacks", "corruption", "testdata")


def folder_of(checkout):
    folder = os.path.join(checkout, "ImageNet-C", "create_c")
    return folder if os.path.isdir(folder) else checkout


def load(checkout, side):
    """The functions of make_cifar_c.py, or for larger sides of make_imagenet_c.py with 224 replaced by the side."""
    folder = folder_of(checkout)
    text = open(os.path.join(folder, "make_cifar_c.py" if side == 32 else "make_imagenet_c.py")).read()
    first = text.index("# /////////////// Distortion Helpers")
    text = text[first:text.index("# /////////////// End Distortions")]
    if side != 32:
        text = re.sub(r"\b224\b", str(side), text)
    for old, new in [("multichannel=True", "channel_axis=-1"), ("scipy.ndimage.interpolation", "scipy.ndimage"),
                     ("np.fromstring", "np.frombuffer"), ("np.float_)", "np.float64)"), (", mode='L')", ")"),
                     ("'./frost", "'" + folder + "/frost")]:
        text = text.replace(old, new)
    made = {"np": np, "Image": Image}
    exec(compile(text, "create_c", "exec"), made)
    return made


class Counter:
    """Random numbers that follow from a seed and a counter, in numpy's functions that the authors call."""

    def __init__(self, seed):
        self.seed, self.count = seed, 0

    def uniforms(self, size):
        n = 1 if size is None else int(np.prod(size))
        with np.errstate(over="ignore"):
            z = np.uint64(self.seed) + (np.arange(n, dtype=np.uint64) + np.uint64(self.count + 1)) * np.uint64(
                0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        self.count += n
        u = ((z ^ (z >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) / 2.0**53
        return u[0] if size is None else u.reshape(size)

    random = uniforms

    def normal(self, loc=0.0, scale=1.0, size=None):
        return loc + scale * ndtri(self.uniforms(size))

    def uniform(self, low=0.0, high=1.0, size=None):
        return low + (high - low) * self.uniforms(size)

    def poisson(self, lam):
        return poisson.ppf(self.uniforms(lam.shape), lam)

    def randint(self, low, high=None, size=None):
        low, high = (0, low) if high is None else (low, high)
        drawn = low + np.floor((high - low) * self.uniforms(size)).astype(int)
        return int(drawn) if size is None else drawn

    def install(self):
        for name in ["normal", "uniform", "poisson", "randint"]:
            setattr(np.random, name, getattr(self, name))
        np.random.default_rng = lambda *_: self


def pattern(side):
    """An image by formula, with smooth parts and edges, which the Go test makes too."""
    y, x, c = np.meshgrid(np.arange(side), np.arange(side), np.arange(3), indexing="ij")
    smooth = (x * (3 + c) + y * (5 - c) + x * y // 7) % 256
    disc = (x - side // 2)**2 + (y - side // 3)**2 < (side // 4)**2
    return np.where(disc, (200 - 60 * c + x) % 256, np.where((x // 8 + y // 8) % 5 == 0, 255 - smooth, smooth)).astype(
        np.uint8)


def corrupt(made, name, image, severity):
    return np.uint8(made[name](Image.fromarray(image), severity))


def samples(checkout):
    out = {}
    for side, severities in [(32, range(1, 6)), (64, range(1, 6)), (224, [1, 3])]:
        made = load(checkout, side)
        results = []
        for i, name in enumerate(NAMES):
            for severity in severities:
                Counter(1000 * i + severity).install()
                one = corrupt(made, name, pattern(side), severity)
                results.append(one if side == 32 else one[1::side // 16, 2::side // 16])
        out["x%d" % side] = np.stack(results)
    os.makedirs(DATA, exist_ok=True)
    np.savez_compressed(os.path.join(DATA, "samples.npz"), **out)


def statistics(checkout):
    made, out = load(checkout, 32), {}
    np.random.seed(0)
    images = datasets.read_records(datasets.SHAPES10 / "test.bin", count=200)[0].transpose(0, 2, 3, 1)
    for name in NAMES:
        out[name] = []
        for severity in range(1, 6):
            change = np.stack([corrupt(made, name, np.ascontiguousarray(x), severity).astype(np.float64) - x
                               for x in images]).reshape(len(images), -1)
            both = [change.mean(1), (change**2).mean(1)]
            out[name].append([[round(float(v.mean()), 4), round(float(v.std(ddof=1) / len(v)**0.5), 4)] for v in both])
    with open(os.path.join(DATA, "statistics.json"), "w") as f:
        f.write("{\n" + ",\n".join(" %s: %s" % (json.dumps(k), json.dumps(v)) for k, v in out.items()) + "\n}\n")


def textures(checkout):
    """The textures that frost chooses from, as OpenCV reads them, without loss. The third has the pixels of the second."""
    import cv2
    to = os.path.join(DATA, "..", "frost")
    os.makedirs(to, exist_ok=True)
    for name in ["frost1.png", "frost2.png", "frost4.jpg", "frost5.jpg"]:
        full = cv2.imread(os.path.join(folder_of(checkout), name))[..., ::-1]
        small = cv2.resize(full, (0, 0), fx=0.2, fy=0.2)
        h, w = small.shape[:2]
        assert np.array_equal(small, full[2::5, 2::5][:h, :w])  # which is how the Go code makes it
        Image.fromarray(full).save(os.path.join(to, name[:6] + ".webp"), lossless=True, quality=100, method=6)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", metavar="CHECKOUT")
    written = {"samples": samples, "statistics": statistics, "textures": textures}
    parser.add_argument("what", choices=written)
    arguments = parser.parse_args()
    written[arguments.what](arguments.checkout)
