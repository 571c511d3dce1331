"""Export of the zoo's networks to ONNX: opset 13, evaluation mode, symbolic batch, inline float32 weights."""

import torch

OPSET = 13


def export_network(network, shape, path, input_name, output_name):
    """Write one network; `shape` is that of one input without the batch."""
    torch.onnx.export(
        network.eval(), torch.zeros(2, *shape), str(path), opset_version=OPSET,
        input_names=[input_name], output_names=[output_name],
        dynamic_axes={input_name: {0: "batch"}, output_name: {0: "batch"}},
    )


def export_classifier(network, path):
    export_network(network, (3, 32, 32), path, "input", "logits")


def export_embedding(network, shape, path):
    export_network(network, shape, path, "state", "embedding")
