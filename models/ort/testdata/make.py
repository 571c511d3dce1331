"""Writes the small ONNX models of the tests: python3 make.py (needs onnx and numpy)."""

import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(0)


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def save(name, nodes, inputs, outputs, weights=None):
    tensors = [numpy_helper.from_array(v, k) for k, v in (weights or {}).items()]
    graph = helper.make_graph(nodes, name, inputs, outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], producer_name="make.py")
    model.ir_version = 7
    onnx.checker.check_model(model)
    onnx.save(model, os.path.join(HERE, name + ".onnx"))


def normal(*shape):
    return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


# A residual network: logits, pooled features and one number per item.
save(
    "conv",
    [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c0"], ["r0"]),
        helper.make_node("Conv", ["r0", "w1", "b1"], ["c1"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c1", "r0"], ["s1"]),
        helper.make_node("Relu", ["s1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Sigmoid", ["c2"], ["s2"]),
        helper.make_node("GlobalAveragePool", ["s2"], ["g"]),
        helper.make_node("Flatten", ["g"], ["features"], axis=1),
        helper.make_node("Gemm", ["features", "w3", "b3"], ["logits"], transB=1),
        helper.make_node("ReduceMax", ["logits"], ["top"], axes=[1], keepdims=0),
    ],
    [value("x", ["N", 3, 16, 16])],
    [value("logits", ["N", 10]), value("features", ["N", 16]), value("top", ["N"])],
    {
        "w0": normal(8, 3, 3, 3), "b0": normal(8), "w1": normal(8, 8, 3, 3), "b1": normal(8),
        "w2": normal(16, 8, 3, 3), "b2": normal(16), "w3": normal(10, 16), "b3": normal(10),
    },
)

# Two inputs; one output is an input passed through.
save(
    "add",
    [helper.make_node("Add", ["a", "b"], ["sum"]), helper.make_node("Identity", ["a"], ["same"])],
    [value("a", ["N", 4]), value("b", ["N", 4])],
    [value("sum", ["N", 4]), value("same", ["N", 4])],
)

# Fails when it runs: an item has 4 values, not 5.
save(
    "fails",
    [helper.make_node("Reshape", ["x", "shape"], ["y"])],
    [value("x", ["N", 4])],
    [value("y", ["M", 5])],
    {"shape": np.array([-1, 5], np.int64)},
)
