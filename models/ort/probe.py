"""Writes probe.onnx, which tells whether a device computes: python3 probe.py (needs onnx and numpy)."""

import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

shape = ["N", 1, 8, 8]
graph = helper.make_graph(
    [helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])],
    "probe",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    [numpy_helper.from_array(np.ones((1, 1, 3, 3), np.float32), "w")],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], producer_name="probe.py")
model.ir_version = 7
onnx.checker.check_model(model)
onnx.save(model, os.path.join(os.path.dirname(os.path.abspath(__file__)), "probe.onnx"))
