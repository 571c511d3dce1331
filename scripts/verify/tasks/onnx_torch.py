"""An ONNX graph that PyTorch runs node by node, in float32 or float64: the independent side of compare.py.

It takes the operators of zoo/onnx_network.py and adds those that the networks of data.py need beside them.
A dynamically quantised graph is run with its rounded weights and with activations that are not rounded. selfheal says
that its gradients are of that network.
"""

import onnx
import torch
from onnx import numpy_helper
from torch.nn import functional
from zoo import onnx_network


class Network:
    """The first output of the file `path` as a function of its one input [n, ...]."""

    def __init__(self, path, dtype=torch.float32):
        graph = onnx.load(str(path)).graph
        stored = {i.name: torch.from_numpy(numpy_helper.to_array(i).copy()) for i in graph.initializer}
        self.input, self.output = next(i.name for i in graph.input if i.name not in stored), graph.output[0].name
        needed, self.nodes = {self.output}, []
        for proto in reversed(graph.node):
            if not needed & set(proto.output):
                continue
            node = onnx_network.Node(proto)
            if node.operator == "Constant":
                stored[node.output] = onnx_network.constant(node)
            else:
                needed |= set(node.inputs)
                self.nodes.insert(0, (node, list(proto.output)))
        self.constants = {name: t.to(dtype) if t.is_floating_point() else t for name, t in stored.items()}

    def __call__(self, x):
        values = {**self.constants, "": None, self.input: x}
        for node, outputs in self.nodes:
            found = OPERATORS[node.operator](node, *(values[name] for name in node.inputs))
            found = found if isinstance(found, tuple) else (found,)
            values.update(zip(outputs, found, strict=False))  # Dropout has a mask, which nothing reads
        return values[self.output]


# ------------------------------------------------------------------ operators: (node, *inputs) -> output, or outputs


def softmax(node, x):
    if node.get("axis", -1) % x.dim() != x.dim() - 1:
        raise onnx_network.Unsupported(f"Softmax to {node.output}: only the last axis")
    return functional.softmax(x, -1)


def hard_sigmoid(node, x):
    return (x * node.get("alpha", 0.2) + node.get("beta", 0.5)).clamp(0, 1)


def dynamic_quantize(node, x):
    return x, torch.ones((), dtype=x.dtype), torch.zeros((), dtype=torch.uint8)


def cast(node, x):
    """Sums of whole numbers become floating-point numbers; here they are already."""
    return x if x.is_floating_point() else onnx_network.cast(node, x)


def weights(x, stored, zero):
    """Whole numbers as ConvInteger and MatMulInteger take them, in x's type; the zero is one for all channels."""
    return stored.to(x.dtype) - (0 if zero is None else zero.reshape(()).to(x.dtype))


OPERATORS = onnx_network.OPERATORS | {
    "Cast": cast,
    "ConvInteger": lambda node, x, w, x_zero=None, w_zero=None: onnx_network.conv(node, x, weights(x, w, w_zero)),
    "Dropout": lambda node, x, *_: x,
    "DynamicQuantizeLinear": dynamic_quantize,
    "HardSigmoid": hard_sigmoid,
    "MatMulInteger": lambda node, x, w, x_zero=None, w_zero=None: x @ weights(x, w, w_zero),
    "PRelu": lambda node, x, slope: torch.where(x > 0, x, x * slope),
    "Softmax": softmax,
}
