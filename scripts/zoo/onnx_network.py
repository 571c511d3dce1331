"""An ONNX classifier as a PyTorch module: the graph's nodes run one by one, differentiable by autograd.

It serves to give PyTorch programs the very graph that selfheal attacks. OPERATORS says what it knows: what
convolutional classifiers are made of. What does not depend on the input is computed once, at loading, and a
tensor is let go after its last use, so that a pass costs what the same layers cost in a module of PyTorch's own.
"""

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch.nn import functional


# Operators that thaw, and how many inputs behind the first.
LEARNING = {"BatchNormalization": 2, "Conv": 2, "ConvTranspose": 2, "Gemm": 2, "MatMul": 1}


class Unsupported(Exception):
    """A graph that cannot be run; the message is one line."""


class Node:
    """One operator: its function, names of its inputs and of its output, attributes."""

    def __init__(self, proto):
        self.operator, self.inputs, self.output = proto.op_type, list(proto.input), proto.output[0]
        self.attributes = {a.name: helper.get_attribute_value(a) for a in proto.attribute}
        self.last = ()  # names of tensors that no later node reads

    def get(self, name, default=None):
        """An attribute; a string as text."""
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def run(self, values):
        return OPERATORS[self.operator](self, *(values[name] if name else None for name in self.inputs))


class OnnxNetwork(torch.nn.Module):
    """The classifier in the file `path`: images [N, C, H, W] to logits [N, K], in evaluation mode.

    `mean` and `std`, one value or one a channel, are applied in front: (x - mean) / std. A batch that the file
    fixes becomes free. Unsupported names every operator that is not known.
    """

    def __init__(self, path, mean=None, std=None):
        super().__init__()
        graph = onnx.load(str(path)).graph
        self.normalize = None if mean is None and std is None else (channels(mean, 0.0), channels(std, 1.0))
        self.constants = {i.name: torch.from_numpy(numpy_helper.to_array(i).copy()) for i in graph.initializer}
        self.stored = set(self.constants)
        inputs = [i for i in graph.input if i.name not in self.constants]
        if len(inputs) != 1 or len(graph.output) != 1:
            raise Unsupported(f"{path} has {len(inputs)} inputs and {len(graph.output)} outputs, not one of each")
        self.input, self.output = inputs[0].name, graph.output[0].name
        unknown = sorted({node.op_type for node in graph.node} - set(OPERATORS))
        if unknown:
            raise Unsupported(f"{path}: no rule for {', '.join(unknown)}")
        self.nodes = []
        for node in map(Node, graph.node):
            if all(name in self.constants for name in node.inputs if name):
                self.constants[node.output] = node.run(self.constants)
            else:
                self.nodes.append(node)
        self._free_batch(inputs[0].type.tensor_type.shape.dim[0].dim_value)
        self._find_last_uses()
        self.learned, self.weights = [], torch.nn.ParameterList()

    def thaw(self):
        """Make parameters of weights, biases and scales; `learned` has their names in the file.

        Unsupported names one that the file computes of others.
        """
        names = {name for node in self.nodes for name in node.inputs[1:1 + LEARNING.get(node.operator, 0)]
                 if name in self.constants}
        if computed := sorted(names - self.stored):
            raise Unsupported(f"{computed[0]} is no initializer, and cannot be written")
        self.learned = sorted(names)
        self.weights = torch.nn.ParameterList(self.constants[name].clone() for name in self.learned)
        return self

    def save(self, source, path):
        """Write the file `source`, which this network was read from, with the parameters as they stand."""
        model = onnx.load(str(source))
        now = {name: weight.detach().cpu().numpy() for name, weight in zip(self.learned, self.weights)}
        for initializer in model.graph.initializer:
            if initializer.name in now:
                initializer.CopyFrom(numpy_helper.from_array(now[initializer.name], initializer.name))
        onnx.save(model, str(path))

    def _apply(self, move, *rest, **more):
        """Constants go where the module goes; whole numbers, which are shapes and axes, stay on the CPU."""
        self.constants = {name: move(v) if v.is_floating_point() else v for name, v in self.constants.items()}
        if self.normalize:
            self.normalize = tuple(move(values) for values in self.normalize)
        return super()._apply(move, *rest, **more)

    def _free_batch(self, fixed):
        """Let constant shapes of a graph of `fixed` images take over the batch that arrives (0 in ONNX's terms)."""
        if not fixed:
            return
        for node in self.nodes:
            if node.operator == "Reshape" and node.inputs[1] in self.constants:
                shape = self.constants[node.inputs[1]]
                if shape[0] == fixed and shape.all():
                    node.attributes.pop("allowzero", None)  # none of the sizes is 0
                    node.inputs[1] += "/free"
                    self.constants[node.inputs[1]] = torch.cat([shape.new_zeros(1), shape[1:]])

    def _find_last_uses(self):
        seen = {self.output}
        for node in reversed(self.nodes):
            node.last = [name for name in {*node.inputs} if name and name not in seen and name not in self.constants]
            seen.update(node.last)

    def forward(self, images):
        return self._run(self.nodes, {self.input: self._taken(images)})[self.output]

    def _taken(self, images):
        if not self.normalize:
            return images
        mean, std = self.normalize
        return (images - mean) / std

    def features(self, images):
        """The state that enters the last node: of a classifier that ends in a Gemm its pooled features."""
        return self._run(self.nodes[:-1], {self.input: self._taken(images)})[self.nodes[-1].inputs[0]]

    def head(self, state):
        """The last node alone, from what `features` gives to what `forward` gives."""
        return self._run(self.nodes[-1:], {self.nodes[-1].inputs[0]: state})[self.output]

    def _run(self, nodes, given):
        values = {**self.constants, **dict(zip(self.learned, self.weights)), **given}
        for node in nodes:
            values[node.output] = node.run(values)
            for name in node.last:
                del values[name]
        return values


def channels(values, default):
    """A number, or a list with one a channel, as a tensor that broadcasts over [N, C, H, W]."""
    return torch.as_tensor(default if values is None else values, dtype=torch.float32).reshape(-1, 1, 1)


# ------------------------------------------------------------------ operators: (node, *inputs) -> output

def window(node, x, fill):
    """Stride and padding of a convolution or pooling of two dimensions, and x, filled where padding is lopsided."""
    if node.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or x.dim() != 4:
        raise Unsupported(f"{node.operator} to {node.output}: only two dimensions with explicit pads")
    top, left, bottom, right = node.get("pads", [0, 0, 0, 0])
    if (top, left) == (bottom, right):
        return x, node.get("strides", [1, 1]), (top, left)
    if fill is None:
        raise Unsupported(f"{node.operator} to {node.output}: pads differ from side to side")
    return functional.pad(x, (left, right, top, bottom), value=fill), node.get("strides", [1, 1]), (0, 0)


def conv(node, x, weight, bias=None):
    x, stride, padding = window(node, x, 0.0)
    return functional.conv2d(x, weight, bias, stride, padding, node.get("dilations", [1, 1]), node.get("group", 1))


def conv_transpose(node, x, weight, bias=None):
    x, stride, padding = window(node, x, None)
    return functional.conv_transpose2d(x, weight, bias, stride, padding, node.get("output_padding", [0, 0]),
                                       node.get("group", 1), node.get("dilations", [1, 1]))


def constant_of_shape(node, shape):
    value = node.get("value")
    fill = torch.zeros(1) if value is None else torch.from_numpy(numpy_helper.to_array(value).copy())
    return fill.expand(shape.tolist())


def cast(node, x):
    return x.to(torch.from_numpy(np.zeros(0, helper.tensor_dtype_to_np_dtype(node.get("to")))).dtype)


def max_pool(node, x):
    x, stride, padding = window(node, x, -torch.inf)
    return functional.max_pool2d(x, node.get("kernel_shape"), stride, padding, node.get("dilations", [1, 1]),
                                 bool(node.get("ceil_mode", 0)))


def average_pool(node, x):
    counted = bool(node.get("count_include_pad", 0))
    x, stride, padding = window(node, x, 0.0 if counted else None)
    return functional.avg_pool2d(x, node.get("kernel_shape"), stride, padding, bool(node.get("ceil_mode", 0)), counted)


def gemm(node, a, b, c=None):
    a = a.t() if node.get("transA", 0) else a
    b = b.t() if node.get("transB", 0) else b
    if c is None:
        return node.get("alpha", 1.0) * (a @ b)
    return torch.addmm(c, a, b, alpha=node.get("alpha", 1.0), beta=node.get("beta", 1.0))


def batch_normalization(node, x, scale, bias, mean, variance):
    if node.get("training_mode", 0):
        raise Unsupported(f"BatchNormalization to {node.output} is in training mode")
    return functional.batch_norm(x, mean, variance, scale, bias, eps=node.get("epsilon", 1e-5))


def pad(node, x, pads=None, value=None, axes=None):
    amounts = node.get("pads") if pads is None else pads.tolist()
    if not any(amounts):
        return x
    if axes is not None:
        raise Unsupported(f"Pad to {node.output}: axes are not supported")
    fill = node.get("value", 0.0) if value is None else value.item()
    mode = {"constant": "constant", "reflect": "reflect", "edge": "replicate"}[node.get("mode", "constant")]
    sides = [amount for pair in zip(amounts[:x.dim()][::-1], amounts[x.dim():][::-1]) for amount in pair]
    if mode == "constant":
        return functional.pad(x, sides, mode, fill)
    if any(sides[4:]):
        raise Unsupported(f"Pad to {node.output}: {mode} over channels or batch")
    return functional.pad(x, sides[:4], mode)


def reshape(node, x, shape):
    if node.get("allowzero", 0) and not shape.all():
        raise Unsupported(f"Reshape to {node.output}: allowzero is not supported")
    return x.reshape([x.shape[axis] if size == 0 else size for axis, size in enumerate(shape.tolist())])


def flatten(node, x):
    axis = node.get("axis", 1) % x.dim()
    return x.flatten(1) if axis == 1 else x.reshape(x.shape[:axis].numel(), -1)


def constant(node):
    for name, value in node.attributes.items():
        if name == "value":
            return torch.from_numpy(numpy_helper.to_array(value).copy())
        if name in ("value_float", "value_floats", "value_int", "value_ints"):
            return torch.tensor(value, dtype=torch.float32 if "float" in name else torch.int64)
    raise Unsupported(f"Constant {node.output} holds neither a tensor nor numbers")


def clip(node, x, low=None, high=None):
    low, high = node.get("min", low), node.get("max", high)  # attributes before opset 11
    return x if low is None and high is None else x.clamp(low, high)


def axes_of(node, given):
    """Axes: an input in later opsets, an attribute in earlier ones."""
    return node.get("axes") if given is None else given.tolist()


def unsqueeze(node, x, axes=None):
    for axis in sorted(axes_of(node, axes)):
        x = x.unsqueeze(axis)
    return x


def reduce_mean(node, x, axes=None):
    axes = axes_of(node, axes)
    return x.mean(list(range(x.dim())) if axes is None else axes, keepdim=bool(node.get("keepdims", 1)))


def gather(node, x, indices):
    axis = node.get("axis", 0) % x.dim()
    positions = torch.where(indices < 0, indices + x.shape[axis], indices)
    shape = (*x.shape[:axis], *positions.shape, *x.shape[axis + 1:])
    return x.index_select(axis, positions.reshape(-1)).reshape(shape)


def slice_(node, x, starts=None, ends=None, axes=None, steps=None):
    if starts is None:
        raise Unsupported(f"Slice to {node.output}: only starts and ends as inputs")
    for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist())):
        axis, step = (i if axes is None else axes[i].item()) % x.dim(), 1 if steps is None else steps[i].item()
        if step < 0:  # PyTorch has no views backwards
            places = range(*slice(start, end, step).indices(x.shape[axis]))
            x = x.index_select(axis, torch.tensor(places, dtype=torch.int64, device=x.device))
        else:
            x = x[(slice(None),) * axis + (slice(start, end, step),)]
    return x


def resize(node, x, roi=None, scales=None, sizes=None):
    factors = None if scales is None else scales.tolist()
    if (node.get("mode", "nearest") != "nearest" or node.get("coordinate_transformation_mode") != "asymmetric"
            or node.get("nearest_mode") != "floor" or factors is None or factors[:2] != [1, 1]
            or any(factor != int(factor) for factor in factors)):
        raise Unsupported(f"Resize to {node.output}: only repetition of rows and columns")
    return x.repeat_interleave(int(factors[2]), 2).repeat_interleave(int(factors[3]), 3)


OPERATORS = {
    "Add": lambda node, a, b: a + b,
    "AveragePool": average_pool,
    "BatchNormalization": batch_normalization,
    "Cast": cast,
    "Clip": clip,
    "Concat": lambda node, *parts: torch.cat(parts, node.get("axis")),
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Div": lambda node, a, b: a / b,
    "Elu": lambda node, x: functional.elu(x, node.get("alpha", 1.0)),
    "Exp": lambda node, x: x.exp(),
    "Flatten": flatten,
    "Gather": gather,
    "Gemm": gemm,
    "GlobalAveragePool": lambda node, x: x.mean((2, 3), keepdim=True),
    "Identity": lambda node, x: x,
    "MatMul": lambda node, a, b: a @ b,
    "MaxPool": max_pool,
    "Mul": lambda node, a, b: a * b,
    "Pad": pad,
    "ReduceMean": reduce_mean,
    "Relu": lambda node, x: functional.relu(x),
    "Reshape": reshape,
    "Resize": resize,
    "Shape": lambda node, x: torch.tensor(x.shape),
    "Slice": slice_,
    "Sigmoid": lambda node, x: torch.sigmoid(x),
    "Sub": lambda node, a, b: a - b,
    "Tanh": lambda node, x: torch.tanh(x),
    "Transpose": lambda node, x: x.permute(node.get("perm") or list(range(x.dim()))[::-1]),
    "Unsqueeze": unsqueeze,
}
