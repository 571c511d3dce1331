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
def tiny(tmp_path_factory):
    """A network of images [N, 3, 8, 8] that is done in no time."""
    onnx = pytest.importorskip("onnx")
    rng = np.random.default_rng(0)
    constants = {"c": (8, 3, 3, 3), "b": (8,), "v": (8, 10)}
    node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [
            node("Conv", ["x", "c", "b"], ["h"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            node("Relu", ["h"], ["r"]),
            node("GlobalAveragePool", ["r"], ["g"]),
            node("Flatten", ["g"], ["f"]),
            node("MatMul", ["f", "v"], ["y"]),
        ],
        "tiny",
        [info("x", onnx.TensorProto.FLOAT, ["N", 3, 8, 8])],
        [info("y", onnx.TensorProto.FLOAT, ["N", 10])],
        [onnx.numpy_helper.from_array(rng.normal(0, 1, s).astype(np.float32), n) for n, s in constants.items()],
    )
    path = tmp_path_factory.mktemp("tiny") / "tiny.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    return path


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
