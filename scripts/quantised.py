#!/usr/bin/env python3
"""Writes a network in the forms that ONNX Runtime's quantiser makes of it, and as float16: OUT/NAME-FORM.onnx.

    python3 scripts/quantised.py model.onnx --images data/cifar-10-batches-bin/data_batch_1.bin --out quantised
        [--mean 0.485 0.456 0.406 --std 0.229 0.224 0.225] [--form qdq ...]

The ranges of activations are those on the first 100 images, of CIFAR-10's binary format or an .npz with `x`. docs/quantised.md
tells the forms apart.
"""

import argparse
import logging
import pathlib
import tempfile

import numpy as np
import onnx
import onnx.version_converter
from onnxruntime import quantization
from onnxruntime.quantization import QuantFormat, QuantType, shape_inference


def static(kind, activations, weights, per_channel):
    def write(source, target, batches):
        quantization.quantize_static(source, target, batches, quant_format=kind, per_channel=per_channel,
                                     activation_type=activations, weight_type=weights)
    return write


def dynamic(source, target, _):
    quantization.quantize_dynamic(source, target, weight_type=QuantType.QUInt8)


def float16(source, target, _):
    from onnxconverter_common.float16 import convert_float_to_float16
    onnx.save(convert_float_to_float16(onnx.load(source)), target)


INT8, UINT8, INT16 = QuantType.QInt8, QuantType.QUInt8, QuantType.QInt16
FORMS = {
    "qdq": static(QuantFormat.QDQ, INT8, INT8, False),
    "qdq-channel": static(QuantFormat.QDQ, INT8, INT8, True),
    "qdq-16": static(QuantFormat.QDQ, INT16, INT8, True),  # activations of 16 bits
    "qoperator-channel": static(QuantFormat.QOperator, INT8, INT8, True),
    "qoperator-uint8": static(QuantFormat.QOperator, UINT8, UINT8, False),
    "dynamic": dynamic,
    "float16": float16,
}


class Batches(quantization.CalibrationDataReader):
    def __init__(self, name, images):
        self.left = iter([{name: image[None]} for image in images])

    def get_next(self):
        return next(self.left, None)


def read_images(path, count):
    """float32 [N, C, H, W] in [0, 1]."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            x = arrays["x"][:count]
        return x.astype(np.float32) / (255 if x.dtype == np.uint8 else 1)
    records = np.fromfile(path, np.uint8, count=count * 3073).reshape(-1, 3073)
    return records[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / 255


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--images", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--mean", type=float, nargs="+", default=[0.0])
    parser.add_argument("--std", type=float, nargs="+", default=[1.0])
    parser.add_argument("--form", choices=FORMS, nargs="+", default=list(FORMS))
    a = parser.parse_args(argv)
    logging.disable(logging.WARNING)
    mean, std = (np.array(v, np.float32)[:, None, None] for v in (a.mean, a.std))
    images = (read_images(a.images, 100) - mean) / std
    name = onnx.load(a.model, load_external_data=False).graph.input[0].name
    a.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        prepared = pathlib.Path(scratch) / "model.onnx"
        shape_inference.quant_pre_process(a.model, prepared)
        model = onnx.load(prepared)
        if next(o.version for o in model.opset_import if not o.domain) < 13:  # DequantizeLinear has no axis before
            onnx.save(onnx.version_converter.convert_version(model, 13), prepared)
        for form in a.form:
            target = a.out / f"{a.model.stem}-{form}.onnx"
            FORMS[form](a.model if form == "float16" else prepared, target, Batches(name, images))
            print(f"{target}: {target.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
