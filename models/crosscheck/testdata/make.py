"""Writes small.onnx, the model of the tests: python3 make.py (needs onnx and numpy).

A residual network of operator set 9, with the batch fixed at 1 and initializers
among the inputs, as exporters wrote them then.
"""

import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(7)


def value(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def normal(*shape):
    return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


conv = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
weights = {
    "w0": normal(6, 3, 3, 3), "b0": normal(6), "w1": normal(6, 6, 3, 3), "b1": normal(6),
    "w2": normal(8, 6, 3, 3), "b2": normal(8), "w3": normal(10, 128), "b3": normal(10),
}
graph = helper.make_graph(
    [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], **conv),
        helper.make_node("Relu", ["c0"], ["r0"]),
        helper.make_node("Conv", ["r0", "w1", "b1"], ["c1"], **conv),
        helper.make_node("Add", ["c1", "r0"], ["s1"]),
        helper.make_node("Relu", ["s1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], strides=[2, 2], **conv),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("Flatten", ["r2"], ["features"], axis=1),
        helper.make_node("Gemm", ["features", "w3", "b3"], ["logits"], alpha=1.0, beta=1.0, transB=1),
    ],
    "small",
    [value("x", [1, 3, 8, 8])] + [value(k, v.shape) for k, v in weights.items()],
    [value("logits", [1, 10])],
    [numpy_helper.from_array(v, k) for k, v in weights.items()],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], producer_name="make.py")
model.ir_version = 3
onnx.checker.check_model(model)
onnx.save(model, os.path.join(HERE, "small.onnx"))
