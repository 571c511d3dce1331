#!/usr/bin/env python3
"""Writes a network in the forms that ONNX Runtime's quantiser makes of it, and as float16: OUT/NAME-FORM.onnx.

    python3 scripts/zoo/quantise.py model.onnx --images data/cifar-10-batches-bin/data_batch_1.bin --out quantised
        [--mean 0.485 0.456 0.406 --std 0.229 0.224 0.225] [--form qdq ...] [--selfheal selfheal]

With --test a config goes beside them, OUT/NAME.yaml: the network and its forms attacked on 500 of those images in three
norms, each judged on what was made on each. scripts/bench/quantised_table.py makes the table of its run. The suite NAME-square has
Square ask the forms about the first 100.

With --selfheal that program answers for 20 images by each file, and so does ONNX Runtime here: the logits must be the same
to the last bit, in the networks' own precision.

The ranges of activations are those on the first 100 images, of CIFAR-10's binary format or an .npz with `x` and `y`. docs/quantised.md
tells the forms apart.
"""

import argparse
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime
from onnxruntime import quantization
from onnxruntime.quantization import QuantFormat, QuantType, shape_inference

from zoo import datasets


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


def format_of(path):
    return "npz" if path.suffix == ".npz" else "cifar10-bin"


CONFIG = """\
# {stem} and what ONNX Runtime's quantiser makes of it, as scripts/zoo/quantise.py wrote them:
#   selfheal run --config {stem}.yaml --out results/{stem}
version: 1
seed: 0
default_suites: [{stem}]

datasets:
  test: {{format: {format}, path: {test}, limit: 500}}
  few: {{format: {format}, path: {test}, limit: 100}}

models:
{models}

attacks:
  linf: {{kind: autoattack, version: quick, norm: linf, epsilon: {linf}}}
  l2: {{kind: autoattack, version: quick, norm: l2, epsilon: {l2}}}
  l1: {{kind: autoattack, version: quick, norm: l1, epsilon: {l1}}}
  square-linf: {{kind: square, norm: linf, epsilon: {linf}, queries: 1000}}
  square-l2: {{kind: square, norm: l2, epsilon: {l2}, queries: 1000}}
  square-l1: {{kind: square, norm: l1, epsilon: {l1}, queries: 1000}}

suites:
  {stem}:
    title: {stem}, images made on each network and given to each
    dataset: test
    models: [{names}]
    attacks: [linf, l2, l1]
    mode: transfer
    pairs: [{pairs}]
  {stem}-square:
    title: {stem}'s forms, by answers alone
    dataset: few
    models: [{forms}]
    attacks: [square-linf, square-l2, square-l1]
"""


def config(a, names):
    """The config of a network and its forms."""
    stem, numbers = a.model.stem, lambda values: ", ".join(f"{v:g}" for v in values)
    taken = "" if (a.mean, a.std) == ([0.0], [1.0]) else f", preprocess: {{mean: [{numbers(a.mean)}], std: [{numbers(a.std)}]}}"
    paths = {stem: os.path.relpath(a.model, a.out), **{name: f"{name}.onnx" for name in names}}
    linf, l2, l1 = a.epsilon
    return CONFIG.format(
        stem=stem, format=format_of(a.test), test=os.path.relpath(a.test, a.out),
        linf=linf, l2=l2, l1=l1, names=", ".join(paths), forms=", ".join(names), pairs=", ".join(f"[{stem}, {name}]" for name in names),
        models="\n".join(f"  {name}: {{path: {path}{taken}}}" for name, path in paths.items()))


def apart(program, path, raw, images, flags):
    """The largest difference between a program's logits and ONNX Runtime's, one image at a time."""
    o = onnxruntime.SessionOptions()
    o.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, o, providers=["CPUExecutionProvider"])
    taken = session.get_inputs()[0]
    kind = np.float16 if "float16" in taken.type else np.float32
    with tempfile.TemporaryDirectory() as scratch:
        data = pathlib.Path(scratch) / "images.npz"
        np.savez(data, x=raw, y=np.zeros(len(raw), np.int64))
        lines = subprocess.run([program, "predict", path, "--data", data, "--json", *flags], check=True,
                               stdout=subprocess.PIPE, text=True).stdout.splitlines()
    there = np.array([json.loads(line)["logits"] for line in lines], np.float32)
    here = np.concatenate([session.run(None, {taken.name: image[None].astype(kind)})[0] for image in images])
    return np.abs(there - here.astype(np.float32)).max()


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--images", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--mean", type=float, nargs="+", default=[0.0])
    parser.add_argument("--std", type=float, nargs="+", default=[1.0])
    parser.add_argument("--form", choices=FORMS, nargs="+", default=list(FORMS))
    parser.add_argument("--test", type=pathlib.Path)
    parser.add_argument("--epsilon", nargs=3, default=["8/255", "0.5", "12"], metavar=("LINF", "L2", "L1"))
    parser.add_argument("--selfheal", metavar="PROGRAM")
    a = parser.parse_args(argv)
    logging.disable(logging.WARNING)
    mean, std = (np.array(v, np.float32)[:, None, None] for v in (a.mean, a.std))
    _, raw, _ = datasets.of_config({"path": a.images, "format": format_of(a.images)}, 100)
    images = (raw - mean) / std
    flags = [flag for name in ("mean", "std") for flag in ("--" + name, ",".join(map(str, getattr(a, name))))]
    wrong = 0
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
            found = f"{target}: {target.stat().st_size / 1e6:.2f} MB"
            if a.selfheal:
                off = apart(a.selfheal, target, raw[:20], images[:20], flags)
                wrong += off > 0
                found += f", logits {off:.2g} apart"
            print(found, flush=True)
    if a.test:
        written = a.out / f"{a.model.stem}.yaml"
        written.write_text(config(a, [f"{a.model.stem}-{form}" for form in a.form]))
        print(written)
    if wrong:
        sys.exit(f"{wrong} of {len(a.form)} forms are answered otherwise than by ONNX Runtime {onnxruntime.__version__}")


if __name__ == "__main__":
    main()
