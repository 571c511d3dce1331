"""PyTorch's two ONNX exporters behind one function, and MaxUnpool, which neither of them writes by itself.

Up to PyTorch 2.4 only the TorchScript exporter is of use; later versions bring the one built on torch.export
("dynamo") besides, which needs onnxscript.
"""

import contextlib
import functools
import importlib.util
import inspect
import io
import logging
import warnings

import torch
from torch import nn
from torch.nn.modules.utils import _pair

OPSETS = range(11, 21)
DYNAMO_OPSET = 18  # what the dynamo exporter writes; other opsets are conversions of it


class ExportError(Exception):
    """A network that cannot be exported as asked; the message is one line."""


def available():
    """The exporters this PyTorch has: "torchscript", "dynamo" or both."""
    parameters = inspect.signature(torch.onnx.export).parameters
    names = ["torchscript"]
    if "custom_translation_table" in parameters and importlib.util.find_spec("onnxscript"):
        names.append("dynamo")
    return names


def supported_opsets(exporter):
    """The opsets of OPSETS that `exporter` can be asked for in this PyTorch."""
    if exporter == "dynamo":
        return OPSETS
    from torch.onnx import _constants
    last = getattr(_constants, "ONNX_TORCHSCRIPT_EXPORTER_MAX_OPSET", None) or _constants.ONNX_MAX_OPSET
    return range(OPSETS[0], min(last, OPSETS[-1]) + 1)


def export(network, example, exporter, opset, input_name="input", output_name="output", symbolic=True):
    """The ONNX file of `network` in evaluation mode, as bytes.

    `example` is a batch of inputs, two at least where `symbolic` asks for a batch of any size (the axis is
    called "batch"). Raises ExportError.
    """
    if exporter not in available():
        raise ExportError(f"PyTorch {torch.__version__} here has no {exporter} exporter, only {', '.join(available())} "
                          "(dynamo needs PyTorch 2.5 or later and onnxscript)")
    if opset not in supported_opsets(exporter):
        last = supported_opsets(exporter)[-1]
        raise ExportError(f"the {exporter} exporter of PyTorch {torch.__version__} goes up to opset {last}, not {opset}")
    write = write_dynamo if exporter == "dynamo" else write_torchscript
    try:
        with warnings.catch_warnings(), quiet_loggers():
            warnings.simplefilter("ignore")  # deprecation of TorchScript; nothing a user of this script can act on
            return write(network.eval(), example, opset, input_name, output_name, symbolic)
    except ExportError:
        raise
    except Exception as problem:  # the exporters raise whatever their passes raise
        raise ExportError(f"the {exporter} exporter of PyTorch {torch.__version__} failed: {first_line(problem)}") from problem


def first_line(problem):
    text = str(problem).strip().splitlines()
    return f"{type(problem).__name__}: {text[0]}" if text else type(problem).__name__


@contextlib.contextmanager
def quiet_loggers():
    """Only errors from the exporter's loggers: at opsets below 18 they tell of every conversion."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)


def write_torchscript(network, example, opset, input_name, output_name, symbolic):
    chosen = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
    axes = {input_name: {0: "batch"}, output_name: {0: "batch"}} if symbolic else None
    buffer = io.BytesIO()
    with max_unpool_symbolics(network, opset):
        torch.onnx.export(network, (example,), buffer, opset_version=opset, input_names=[input_name],
                          output_names=[output_name], dynamic_axes=axes, **chosen)
    return buffer.getvalue()


def write_dynamo(network, example, opset, input_name, output_name, symbolic):
    shapes = ({0: torch.export.Dim("batch")},) if symbolic else None
    table = max_unpool_translations() if unpools(network) else None
    program = torch.onnx.export(network, (example,), dynamo=True, opset_version=opset, input_names=[input_name],
                                output_names=[output_name], dynamic_shapes=shapes, verbose=False,
                                custom_translation_table=table)
    model = program.model_proto
    written = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    if written != opset:
        raise ExportError(f"the dynamo exporter of PyTorch {torch.__version__} could not convert this network from "
                          f"opset {written} to {opset}; ask for {DYNAMO_OPSET} or use the torchscript exporter")
    return model.SerializeToString()


# MaxUnpool. PyTorch counts a maximum's place within its H*W plane, ONNX within the whole N*C*H*W tensor. Left to
# themselves the exporters subtract the planes' offsets after MaxPool (TorchScript), know no max_unpool2d
# (TorchScript), or write it as a ScatterND (dynamo). Here MaxPool's own indices go to MaxUnpool as they
# are, which is right as long as nothing else reads them: hence only for networks with MaxUnpool2d layers.


def unpools(network):
    return any(isinstance(module, nn.MaxUnpool2d) for module in network.modules())


def unpool_window(before, after):
    """Kernel and stride with which MaxUnpool makes planes of size `after` from planes of size `before`."""
    strides = [large // small for small, large in zip(before, after)]
    kernel = [large - (small - 1) * stride for small, large, stride in zip(before, after, strides)]
    return kernel, strides


@contextlib.contextmanager
def max_unpool_symbolics(network, opset):
    """Registers TorchScript symbolics for pooling with indices and for unpooling while `network` needs them."""
    if not unpools(network):
        yield
        return
    from torch.onnx import symbolic_helper

    @symbolic_helper.parse_args("v", "is", "is", "is", "is", "i")
    def max_pool(g, state, kernel, stride, padding, dilation, ceil_mode):
        # MaxPool numbers places within the dilated window as within any other: no dilation is lost here.
        return g.op("MaxPool", state, outputs=2, kernel_shape_i=kernel, strides_i=stride or kernel,
                    pads_i=list(padding) * 2, dilations_i=dilation, ceil_mode_i=ceil_mode)

    @symbolic_helper.parse_args("v", "v", "v")
    def max_unpool(g, state, places, output_size):
        before = symbolic_helper._get_tensor_sizes(state)
        after = symbolic_helper._maybe_get_const(output_size, "is")
        if not isinstance(after, (list, tuple)) or None in before[2:]:
            raise ExportError("MaxUnpool2d needs planes of a fixed size: export with the batch alone symbolic")
        kernel, strides = unpool_window(before[2:], after)
        return g.op("MaxUnpool", state, places, kernel_shape_i=kernel, strides_i=strides)

    def unpool_to_constant_size(layer, state, places, output_size=None):
        # Traced, torch's own forward computes the size by tensors, which newer versions then refuse to check.
        if output_size is not None:
            raise ExportError("MaxUnpool2d with an output_size is not exported, only with its own sizes")
        size = [(int(side) - 1) * stride - 2 * padding + kernel for side, kernel, stride, padding in
                zip(state.shape[2:], *map(_pair, (layer.kernel_size, layer.stride, layer.padding)))]
        return torch._C._nn.max_unpool2d(state, places, size)

    layers = [module for module in network.modules() if isinstance(module, nn.MaxUnpool2d)]
    for layer in layers:
        layer.forward = functools.partial(unpool_to_constant_size, layer)
    symbolics = {"aten::max_pool2d_with_indices": max_pool, "aten::max_unpool2d": max_unpool}
    for name, symbolic in symbolics.items():
        torch.onnx.register_custom_op_symbolic(name, symbolic, opset)
    try:
        yield
    finally:
        for name in symbolics:
            torch.onnx.unregister_custom_op_symbolic(name, opset)
        for layer in layers:
            del layer.forward


def max_unpool_translations():
    """The same two operators for the dynamo exporter's translation table."""
    from onnxscript import opset18 as op

    def max_pool(state, kernel, stride=(), padding=(0, 0), dilation=(1, 1), ceil_mode=False):
        padding = list(padding) * (2 // len(padding))
        return op.MaxPool(state, kernel_shape=list(kernel), strides=list(stride or kernel), pads=padding * 2,
                          dilations=list(dilation) * (2 // len(dilation)), ceil_mode=int(ceil_mode))

    def max_unpool(state, places, output_size):
        if not all(isinstance(size, int) for size in (*state.shape[2:], *output_size)):
            raise ExportError("MaxUnpool2d needs planes of a fixed size: export with the batch alone symbolic")
        kernel, strides = unpool_window(state.shape[2:], output_size)
        return op.MaxUnpool(state, places, kernel_shape=kernel, strides=strides)

    aten = torch.ops.aten
    return {aten.max_pool2d_with_indices.default: max_pool, aten.max_unpool2d.default: max_unpool}
