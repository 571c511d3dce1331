"""ONNX files as the scripts write them: without traces of where they were made, whole, as a skeleton, or
with the weights in a file beside.

A skeleton is an ordinary ONNX file whose weights are missing: every float32 initializer of more than
SMALL elements keeps its name, type and dims but holds no data, and the model's metadata_props say
`selfheal.skeleton` = `1`. The Go side fills it from a seed.
"""

import math
import pathlib

import onnx

SMALL = 16  # initializers of up to this many elements keep their data: shapes, scalars, epsilons
SKELETON_KEY = "selfheal.skeleton"
EXTERNAL_THRESHOLD = 1024  # bytes from which on a tensor goes to the external file


def anonymous(data):
    """The model in `data` without doc strings and metadata: the exporters write stack traces with paths there."""
    model = onnx.load_model_from_string(data)
    scrub(model)
    return model


def scrub(message):
    """Clear doc_string and metadata_props in `message` and everything inside it."""
    for field, value in message.ListFields():
        if field.name in ("doc_string", "metadata_props"):
            message.ClearField(field.name)
        elif field.type == field.TYPE_MESSAGE:
            for part in [value] if hasattr(value, "ListFields") else value:
                scrub(part)


def make_skeleton(model):
    """Take the weights out of `model`, in place."""
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and math.prod(tensor.dims) > SMALL:
            for field in ("raw_data", "float_data"):
                tensor.ClearField(field)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR and math.prod(attribute.t.dims) > SMALL:
                raise ValueError(f"node {node.name}: a constant of {math.prod(attribute.t.dims)} elements "
                                 "inside a node would leave weights in the skeleton")
    entry = model.metadata_props.add()
    entry.key, entry.value = SKELETON_KEY, "1"


def save(model, path, external_data=False):
    """Write `model` to `path`; with `external_data` its weights to `path` + ".data" beside it."""
    path = pathlib.Path(path)
    if not external_data:
        path.write_bytes(model.SerializeToString())
        return
    location = path.name + ".data"
    path.with_name(location).unlink(missing_ok=True)  # onnx would append to an older file
    onnx.save_model(model, str(path), save_as_external_data=True, all_tensors_to_one_file=True, location=location,
                    size_threshold=EXTERNAL_THRESHOLD)
