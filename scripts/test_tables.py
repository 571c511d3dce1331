"""Tests of the comparison with PyTorch and of the generated tables."""

import json
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import documents

try:
    import numpy as np

    import models_table
    import verification
    missing_numpy = None
except ImportError as problem:
    missing_numpy = f"no numpy here: {problem}"

try:
    import torch
    from torch import nn
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
        text = (HERE.parent / "docs" / "models.md").read_text()
        for name in ("models", "torchvision"):
            self.assertIn(f"<!-- begin {name} -->", text)
            self.assertIn(f"<!-- end {name} -->", text)


@unittest.skipIf(missing_numpy, missing_numpy)
class Bounds(unittest.TestCase):
    def test_bounds(self):
        good = {"logits": 1e-6, "gradient": 1e-5}
        self.assertTrue(verification.within_bounds(good))
        self.assertFalse(verification.within_bounds({**good, "logits": 2e-4}))
        self.assertFalse(verification.within_bounds({**good, "logits": float("nan")}))
        self.assertFalse(verification.within_bounds({**good, "gradient": 2e-3}))
        self.assertTrue(verification.within_bounds({**good, "gradient": 2e-3, "same_sides": 1e-6}))
        self.assertFalse(verification.within_bounds({**good, "gradient": 2e-3, "same_sides": 2e-3}))
        median = {"logits": 1e-6, "gradient_median": 2e-2, "torch_median": 1e-2, "torch_logits": 1e-6}
        self.assertTrue(verification.as_exact_as_torch(median))
        self.assertFalse(verification.as_exact_as_torch({**median, "torch_median": 1e-3}))
        self.assertFalse(verification.as_exact_as_torch({**median, "logits": 2e-4}))
        self.assertTrue(verification.as_exact_as_torch({**median, "logits": 2e-4, "torch_logits": 1e-4}))

    def test_a_line_of_the_table(self):
        found = {"operators": [{"op": "Conv", "count": 3}, {"op": "Relu", "count": 2}], "segments": [1, 2], "parameters": 11_172_170,
                 "flops": 1_110_000_000, "logits": 1e-6, "gradient": 5e-3, "same_sides": 2e-6, "flipped": 4, "relus": 5_880_000,
                 "torch_gradient": 3e-3}
        self.assertEqual(models_table.line("net", "TorchScript 1.13", 13, found),
                         ["net", "TorchScript 1.13", 13, 5, 2, "11.2 M", "1.11 G", "1.0e-06", "5.0e-03", "2.0e-06 (4 of 5.88 M)", "3.0e-03"])
        self.assertEqual(models_table.line("net", "TorchScript 1.13", 13, {**found, "same_sides": 2e-3})[8], "**5.0e-03**")

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
        done = verification.run([sys.executable, verification.__file__, "compare", str(self.folder)], 120)
        return json.loads(done)

    def test_the_right_gradient_passes_and_a_wrong_one_does_not(self):
        right, wrong = self.compared(), self.compared(1.01)
        self.assertLess(max(right["logits"], right["gradient"], right["torch_gradient"], right["torch_logits"]), 1e-5)
        self.assertAlmostEqual(wrong["gradient"], 0.01, places=4)
        self.assertAlmostEqual(wrong["gradient_median"], 0.01, places=4)
        self.assertFalse(verification.within_bounds(wrong))

    def test_a_flipped_relu_is_recognised_and_a_wrong_rule_is_not_excused(self):
        case = dict(np.load(self.folder / verification.CASE))
        with torch.no_grad():  # move one unit's input to just above nought for the graph, just below for PyTorch
            state = self.network[1](torch.from_numpy(case["x"]).flatten(1))[0, 7].item()
            self.network[1].bias[7] -= state - 1e-4
            onnx.save(gradient_graph(self.network), str(self.folder / verification.GRAPH))
            self.network[1].bias[7] -= 2e-4
        exact = self.network.double()
        x = torch.from_numpy(case["x"]).double()
        _, g = verification.logits_and_gradient(exact, x, torch.from_numpy(case["w"]).double())
        np.savez(self.folder / verification.CASE, **{**case, "g": g.numpy()})
        self.assertGreater(verification.compare(self.folder)["gradient"], verification.GRADIENT_BOUND)
        self.assertEqual(verification.sides(self.folder), {"relus": 80})
        found = verification.gradient_on_sides(exact, self.folder)
        self.assertEqual(found["flipped"], 1)
        self.assertLess(found["same_sides"], 1e-5)
        onnx.save(gradient_graph(self.network.float(), 1.01), str(self.folder / verification.GRAPH))
        verification.sides(self.folder)
        self.assertAlmostEqual(verification.gradient_on_sides(exact, self.folder)["same_sides"], 0.01, places=4)


if __name__ == "__main__":
    unittest.main()
