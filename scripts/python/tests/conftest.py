"""The bundled networks and images that the tests attack."""

import pathlib

import numpy as np
import pytest

pytest_plugins = ["pytester"]
ROOT = pathlib.Path(__file__).resolve().parents[3]
ZOO = ROOT / "models" / "zoo"
RECORD = 3 * 32 * 32 + 1


def read(path, n):
    """The first images of a file in CIFAR-10's form, uint8 [n, 3, 32, 32], and their labels."""
    records = np.fromfile(path, dtype=np.uint8).reshape(-1, RECORD)[:n]
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].astype(np.int64)


@pytest.fixture(scope="session")
def network():
    """A ResNet that was trained adversarially: some of its images stand."""
    return ZOO / "preact_robust.onnx"


@pytest.fixture(scope="session")
def images():
    """20 images, uint8 [20, 3, 32, 32], and their labels."""
    return read(ZOO / "shapes10" / "test.bin", 20)


@pytest.fixture(scope="session")
def attacked(network, images, tmp_path_factory):
    """A finished attack, and its folder."""
    import selfheal

    return selfheal.attack(
        network, *images, eps=8 / 255, version="quick", out=tmp_path_factory.mktemp("attacked"), progress=False
    )


@pytest.fixture(scope="session")
def full(network, images):
    """The same at full strength."""
    import selfheal

    return selfheal.attack(network, *images, eps=8 / 255, version="quick", strength="full", progress=False)
