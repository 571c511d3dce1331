"""Tests of the comparison with PyTorch and of the generated tables."""

import argparse
import contextlib
import copy
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

from bench import precision_table, quantised_table, quick_table
from verify import documents, verifiers

try:
    import numpy as np

    from verify import models_table, verification
    missing_numpy = None
except ImportError as problem:
    missing_numpy = f"no numpy here: {problem}"

try:
    import torch
    from torch import nn

    from paper.architectures import keep_off_kinks
    missing_torch = None
except ImportError as problem:
    missing_torch = f"no PyTorch here: {problem}"

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    import onnxruntime
    missing_onnx = None
except ImportError as problem:
    missing_onnx = f"no onnx or onnxruntime here: {problem}"


try:
    from verify import sweep
    torchvision = sweep.Torchvision()
    missing_torchvision = None
except ImportError as problem:
    missing_torchvision = f"no torchvision here: {problem}"


class Documents(unittest.TestCase):
    def test_a_table_escapes_bars(self):
        self.assertEqual(documents.table(["a", "b"], [["x|y", 3]]), "| a | b |\n| --- | --- |\n| x\\|y | 3 |")

    def test_only_the_block_changes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "doc.md"
            path.write_text("head\n<!-- begin one -->\nold\n<!-- end one -->\ntail\n<!-- begin two -->\nkept\n<!-- end two -->\n")
            documents.replace_block(path, "one", "new\nlines\n")
            self.assertEqual(path.read_text(), "head\n<!-- begin one -->\nnew\nlines\n<!-- end one -->\ntail\n"
                                               "<!-- begin two -->\nkept\n<!-- end two -->\n")
            with self.assertRaisesRegex(ValueError, "no block"):
                documents.replace_block(path, "three", "x")

    def test_the_models_document_has_its_blocks(self):
        text = (models_table.ROOT / "docs" / "measured" / "models.md").read_text()
        for name in ("models", "torchvision"):
            self.assertIn(f"<!-- begin {name} -->", text)
            self.assertIn(f"<!-- end {name} -->", text)


class Quick(unittest.TestCase):
    def cell(self, verdicts, forward, backward):
        return {"model": "net", "attack": "aa", "norm": "linf", "epsilon": 8 / 255, "n": len(verdicts), "verdicts": verdicts, "images": "same",
                "accuracy": verdicts.count("1") / len(verdicts), "steps": [{"forward": forward, "backward": backward}] * 2}

    def test_verdicts_and_passes_are_compared(self):
        standard = {"key": self.cell("1100" * 100, 2000, 1000)}
        rows, failures = quick_table.compare(standard, {"key": self.cell("1100" * 99 + "0110", 70, 70)})
        self.assertEqual(rows, [["net", "no", "linf", "8/255", 400, "50.0 %", "50.0 %", 1, 1, "21.4"]])
        self.assertEqual(failures, [])
        _, failures = quick_table.compare(standard, {"key": self.cell("1100" * 100, 80, 80)})
        self.assertEqual(len(failures), 1)
        missed = {"key": self.cell("1100" * 98 + "1111" * 2, 10, 10)}
        self.assertEqual([len(quick_table.compare(standard, missed, chosen)[1]) for chosen in (False, True)], [1, 0])
        with self.assertRaisesRegex(ValueError, "same images"):
            quick_table.compare(standard, {"key": {**self.cell("1", 1, 1), "images": "others"}})


class Quantised(unittest.TestCase):
    def results(self, given):
        """A network that is left half of 8 images, and a form that is left as many by itself and so many by the network's images."""
        cells = []
        for model in ("net", "net-qdq"):
            cells.append({"model": model, "n": 8, "accuracy": 1, "verdicts": "1" * 8})
            for norm in quantised_table.NORMS:
                for source in ("net", "net-qdq"):
                    left = given if (model, source) == ("net-qdq", "net") else 4
                    cells.append({"model": model, "source": source, "norm": norm, "epsilon": 2 / 255 if norm == "linf" else 0.5, "accuracy": left / 8,
                                  "verdicts": "1" * left + "0" * (8 - left)})
        return {"suites": [{"models": ["net", "net-qdq"], "pairs": [["net", "net-qdq"]]}], "cells": cells}

    def test_own_attacks_and_given_images_stand_beside_each_other(self):
        rows, failures = quantised_table.rows(self.results(6), {})
        self.assertEqual(rows, [["net (2/255, 0.5, 0.5)", 8, "100.0", "50.0", "50.0", "50.0", None],
                                ["net-qdq", 8, "100.0", "50.0 → 75.0", "50.0 → 75.0", "50.0 → 75.0", 1.0]])
        self.assertEqual(failures, [])
        self.assertEqual(len(quantised_table.rows(self.results(3), {})[1]), 3)
        square = {("net-qdq", "l2"): "0101", ("net-qdq", "l1"): "1111"}  # of the first four, the first network is left all
        self.assertEqual(len(quantised_table.rows(self.results(6), square)[1]), 1)

    def test_the_exact_test(self):
        self.assertAlmostEqual(quantised_table.exact("1" * 6 + "0" * 4, "0" * 10), 2 / 64)
        self.assertEqual(quantised_table.exact("10", "01"), 1)


class Verifiers(unittest.TestCase):
    ROWS = ["family,network,property,seconds,selfheal,selfheal took,other,other took", "f,a/n.onnx,p.vnnlib,30,unsat,1.00,timeout,30.0",
            "f,n.onnx,q.vnnlib,30,sat,3.00,sat,2.00", "g,n.onnx,p.vnnlib,30,timeout,30.0,error,0"]

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.answers = pathlib.Path(self.folder.name) / "answers.csv"
        self.answers.write_text("\n".join(self.ROWS) + "\n")

    def said(self, *arguments):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            code = verifiers.main([*map(str, arguments)])
        return code, out.getvalue()

    def test_the_table_counts_what_is_decided(self):
        code, text = self.said("table", self.answers)
        self.assertEqual(code, 0)
        self.assertIn("| f | 2 | 2 (1 unsat, 1 sat) | 2.0 s | 1 (0 unsat, 1 sat) | 2.0 s |", text)
        self.assertIn("| g | 1 | 0 (0 unsat, 0 sat) | — | 0 (0 unsat, 0 sat) | — |", text)
        self.assertIn("| all | 3 | 2 |  | 1 |  |", text)

    def test_contradictions_are_named_and_the_most_are_believed(self):
        one, two = (self.answers.with_name(name) for name in ("one.csv", "two.csv"))
        one.write_text("f,./b/n.onnx,./b/p.vnnlib.gz,1,violated,1\nother,n.onnx,q.vnnlib,1,unsat,1\n")
        two.write_text("f,n.onnx,p.vnnlib,1,UNSAT,1\nf,n.onnx,p2.vnnlib,1,sat,1\n")
        code, text = self.said("published", self.answers, one)
        self.assertEqual(code, 1)
        self.assertIn("2 of 3 answers compared, 1 against the most\na/n.onnx p.vnnlib: selfheal unsat, otherwise one of 1", text)
        three = self.answers.with_name("three.csv")
        three.write_text(two.read_text())
        code, text = self.said("published", self.answers, one, two, three)
        self.assertEqual(code, 0)
        self.assertIn("otherwise one of 3", text)


class Precision(unittest.TestCase):
    def cell(self, recipe, verdicts, **more):
        return {"model": "net", "attack": "aa", "norm": "linf", "epsilon": 1.75 / 255, "n": len(verdicts), "verdicts": verdicts,
                "images": "same", "accuracy": verdicts.count("1") / len(verdicts), "recipe": recipe, **more}

    def test_verdicts_are_compared(self):
        exact = {"key": self.cell("aa/1", "1100" * 100)}
        again = {"agreement": {"n": 50, "agree": 49}}
        reduced = {"key": self.cell("aa/1+bf16", "1100" * 99 + "1010", **again)}
        rows, failures = precision_table.compare(exact, reduced)
        self.assertEqual(rows, [["net", "linf", "1.75/255", 400, "50.0 %", "50.0 %", "99.5 %", 1, 1, "50: 49"]])
        self.assertEqual(failures, [])
        for verdicts in ("1010" * 3 + "1100" * 97, "1101" * 3 + "1100" * 97):  # 98.5 % agree; 0.75 points more
            _, failures = precision_table.compare(exact, {"key": self.cell("aa/1+bf16", verdicts, **again)})
            self.assertEqual(len(failures), 1)
        with self.assertRaisesRegex(ValueError, "two precisions"):
            precision_table.compare(exact, {"key": self.cell("aa/2+bf16", "1100" * 100, **again)})


@unittest.skipIf(missing_numpy, missing_numpy)
class Bounds(unittest.TestCase):
    def test_bounds(self):
        good = {"logits": 1e-6, "gradient": 1e-5}
        self.assertTrue(verification.within_bounds(good))
        self.assertFalse(verification.within_bounds({**good, "logits": 2e-4}))
        self.assertFalse(verification.within_bounds({**good, "logits": float("nan")}))
        self.assertFalse(verification.within_bounds({**good, "gradient": 2e-3}))
        torchs = {**good, "torch_logits": 1e-6, "torch_gradient": 1e-5}
        self.assertTrue(verification.as_exact_as_torch(torchs))
        self.assertFalse(verification.as_exact_as_torch({**torchs, "gradient": 2e-3}))
        self.assertFalse(verification.as_exact_as_torch({**torchs, "logits": 2e-4}))
        self.assertTrue(verification.as_exact_as_torch({**torchs, "logits": 2e-4, "torch_logits": 1e-4}))

    def test_a_line_of_the_table(self):
        found = {"operators": [{"op": "Conv", "count": 3}, {"op": "Relu", "count": 2}], "segments": [1, 2], "parameters": 11_172_170,
                 "flops": 1_110_000_000, "logits": 1e-6, "gradient": 5e-6, "torch_gradient": 3e-6}
        self.assertEqual(models_table.line("net", "TorchScript 1.13", 13, found),
                         ["net", "TorchScript 1.13", 13, 5, 2, "11.2 M", "1.11 G", "1.0e-06", "5.0e-06", "3.0e-06"])
        self.assertEqual(models_table.line("net", "TorchScript 1.13", 13, {**found, "gradient": 2e-3})[8], "**2.0e-03**")

    def test_failures_carry_the_programs_last_line(self):
        with self.assertRaisesRegex(verification.Failed, "^the reason$"):
            verification.run([sys.executable, "-c", "import sys; print('noise', file=sys.stderr); sys.exit('the reason')"], 60)
        with self.assertRaisesRegex(verification.Failed, "took more than 1 s"):
            verification.run([sys.executable, "-c", "import time; time.sleep(30)"], 1)


def gradient_graph(network, scale=1.0):
    """What `selfheal grad` would write for Flatten-Linear-ReLU-Linear on [N, 3, 2, 2]; dx times `scale`."""
    _, first, _, second = network
    tensors = {"w1": first.weight, "b1": first.bias, "w2": second.weight, "b2": second.bias}
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w1", "b1"], ["h"], transB=1),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "w2", "b2"], ["y"], transB=1),
        helper.make_node("Gemm", ["cotangent", "w2"], ["dr"], alpha=scale),
        helper.make_node("Sign", ["r"], ["side"]),
        helper.make_node("Mul", ["dr", "side"], ["dh"]),
        helper.make_node("Gemm", ["dh", "w1"], ["dflat"]),
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Reshape", ["dflat", "shape"], ["dx"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "vjp", [value("x", TensorProto.FLOAT, ["N", 3, 2, 2]), value("cotangent", TensorProto.FLOAT, ["N", 4])],
        [value("y", TensorProto.FLOAT, ["N", 4]), value("dx", TensorProto.FLOAT, ["N", 3, 2, 2])],
        [numpy_helper.from_array(tensor.detach().numpy(), name) for name, tensor in tensors.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@unittest.skipIf(missing_numpy or missing_torch or missing_onnx, missing_numpy or missing_torch or missing_onnx)
class Comparison(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(4)
        self.network = nn.Sequential(nn.Flatten(), nn.Linear(12, 40), nn.ReLU(), nn.Linear(40, 4)).eval()
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        verification.write_case(self.network, (3, 2, 2), "torchscript", 13, self.folder, 5)

    def compared(self, scale=1.0):
        onnx.save(gradient_graph(self.network, scale), str(self.folder / verification.GRAPH))
        done = verification.run([sys.executable, verification.__file__, str(self.folder)], 120)
        return json.loads(done)

    def test_the_right_gradient_passes_and_a_wrong_one_does_not(self):
        right, wrong = self.compared(), self.compared(1.01)
        self.assertLess(max(right["logits"], right["gradient"], right["torch_gradient"], right["torch_logits"]), 1e-5)
        self.assertAlmostEqual(wrong["gradient"], 0.01, places=4)
        self.assertFalse(verification.within_bounds(wrong))


@unittest.skipIf(missing_torchvision, missing_torchvision)
class Sweep(unittest.TestCase):
    def test_a_stopped_sweep_is_continued_and_what_failed_is_tried_again(self):
        good = {"side": 64, "nodes": 3, "parameters": 2e6, "logits": 1e-6, "torch_logits": 1e-6, "gradient": 1e-6, "torch_gradient": 1e-6}
        answers, tried = {("torchscript", "1"): good, ("torchscript", "open"): {"failed": "no"}}, []

        def attempt(name, forms, *_):
            for form in forms:
                tried.append((name, *form))
                yield form, answers[form]

        with tempfile.TemporaryDirectory() as folder, mock.patch.object(sweep, "attempt", attempt), \
                contextlib.redirect_stdout(io.StringIO()):
            arguments = argparse.Namespace(library="torchvision", batch=None, results=pathlib.Path(folder, "results"), document=None, selfheal="", timeout=1)
            for answers[("torchscript", "open")] in ({"side": 64, "failed": "no"}, {**good, "gradient": 1e-2}, good,
                                                      {"side": 64, "failed": "late"}):
                records, asked = sweep.sweep(torchvision, ["resnet18"], ["torchscript"], arguments)
            self.assertEqual(tried, [("resnet18", "torchscript", "1")] + 3 * [("resnet18", "torchscript", "open")])
            self.assertEqual(records, sweep.read(arguments.results))
            self.assertEqual([sweep.failure(records[one]) for one in asked], [None, None])
        self.assertEqual(sweep.text(records, torchvision).count("| resnet18 | 64 | torchscript | 17 |"), 2)


@unittest.skipIf(missing_torch, missing_torch)
class Kinks(unittest.TestCase):
    def test_biases_are_moved_off_the_kinks_and_no_further(self):
        torch.manual_seed(4)
        network = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, 40), nn.ReLU(), nn.Linear(40, 4))
        images = torch.rand(8, 3, 4, 4)
        with torch.no_grad():  # one value of every channel onto its kink
            network[0].bias -= network[0](images)[2, :, 1, 1]
        before = copy.deepcopy(network)
        keep_off_kinks(network, images)
        with torch.no_grad():
            for layer, axes in ((0, (0, 2, 3)), (3, (0,))):
                states = network[:layer + 1](images)
                reach = 0.1 * states.std(dim=axes)
                self.assertTrue(((network[layer].bias - before[layer].bias).abs() <= reach).all())
                self.assertTrue((states.abs().amin(dim=axes) > 0.05 * reach).all())
        self.assertTrue(torch.equal(network[5].bias, before[5].bias), "no ReLU reads the last layer")
