#!/usr/bin/env python3
"""Writes harness/testdata/smoothing.json: certificates of real networks by the authors of randomised smoothing.

    PYTHONPATH=/path/to/smoothing/code python3 scripts/goldens/smoothing.py REAL [--images 100] [--threads 1]

The path is a clone of locuslab/smoothing, whose Smooth.certify is called as it stands; REAL is the folder with the
networks and images. For each case the file has sigma, n0, n and alpha, and the class and the radius of each image,
class -1 for an abstention. Needs torch, onnx, scipy and statsmodels.
"""

import argparse
import json
import pathlib
import subprocess
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

import scipy.stats
import torch

from zoo import datasets
from zoo.onnx_network import OnnxNetwork

OUT = pathlib.Path(__file__).resolve().parents[2] / "harness" / "testdata" / "smoothing.json"
MEAN, STD = [0.4914, 0.4822, 0.4465], [0.2471, 0.2435, 0.2616]
# rn18w16 was trained without noise and answers one class for nearly everything under it: fewer samples tell.
CASES = [("resnet_2b", MEAN, STD, 10_000), ("resnet_2b", MEAN, STD, 1_000), ("rn18w16_standard", None, None, 1_000)]
SIGMA, N0, ALPHA, BATCH = 0.25, 100, 0.001, 250


def smooth_class():
    """The authors' class, with what has gone from SciPy since and on whatever device the images are."""
    scipy.stats.binom_test = lambda k, n, p: scipy.stats.binomtest(int(k), int(n), p).pvalue
    import core

    like = torch.randn_like
    core.torch.randn_like = lambda batch, device=None: like(batch)
    return core.Smooth, pathlib.Path(core.__file__).parent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("real", type=pathlib.Path)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    smooth, clone = smooth_class()
    images, _ = datasets.read_records(args.real / "cifar10-test-1000.bin", count=args.images)
    cases = []
    for name, mean, std, n in CASES:
        g = smooth(OnnxNetwork(args.real / f"{name}.onnx", mean, std), 10, SIGMA)
        certificates = []
        for i in range(args.images):
            x = torch.from_numpy(images[i]).float() / 255
            label, radius = g.certify(x, N0, n, ALPHA, BATCH)
            certificates.append({"class": int(label), "radius": float(radius)})
            print(name, i, certificates[-1], flush=True)
        cases.append({"network": name, "sigma": SIGMA, "n0": N0, "n": n, "alpha": ALPHA, "images": certificates})
    commit = subprocess.run(["git", "-C", clone, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({"smoothing": commit, "pytorch": torch.__version__, "cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
