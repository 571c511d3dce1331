#!/usr/bin/env python3
"""Stores a network's float32 weights as float16, which halves its file.

    python3 scripts/paper/half_weights.py model.onnx half.onnx

Every initializer of --least values or more is rounded to float16 and cast back by a node, so that the network computes in
float32 as before, with rounded weights: what is measured of the file is measured of that network. Weights beyond
float16's range are an error.
"""

import argparse
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from zoo import exporters


def halved(model, least):
    """A model whose large float32 initializers are float16 with a Cast behind them."""
    graph, casts = model.graph, []
    for tensor in graph.initializer:
        values = numpy_helper.to_array(tensor)
        if tensor.data_type != TensorProto.FLOAT or values.size < least:
            continue
        rounded = values.astype(np.float16)
        if not np.isfinite(rounded).all():
            raise exporters.ExportError(f"{tensor.name} has values beyond float16's range")
        casts.append(helper.make_node("Cast", [f"{tensor.name}/half"], [tensor.name], to=TensorProto.FLOAT))
        tensor.CopyFrom(numpy_helper.from_array(rounded, f"{tensor.name}/half"))
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    onnx.checker.check_model(model)
    return model


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="the ONNX file to read")
    parser.add_argument("out", help="the ONNX file to write")
    parser.add_argument("--least", type=int, default=64, help="values of the smallest tensor to round (default %(default)s)")
    arguments = parser.parse_args(argv)
    try:
        model = halved(onnx.load(arguments.model), arguments.least)
        onnx.save(model, arguments.out)
    except (exporters.ExportError, OSError) as problem:
        print(f"half_weights.py: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    with np.errstate(over="ignore"):
        sys.exit(main())
