"""Tests of the comparison with the reference AutoAttack: both sides are played by small programs."""

import contextlib
import importlib.util
import io
import json
import pathlib
import stat
import sys
import tempfile
import types
import unittest
from unittest import mock

try:
    import numpy as np

    from bench import autoattack
    from verify.verification import Failed
    missing = None
except ImportError as problem:
    missing = f"no numpy here: {problem}"

missing_yaml = None if importlib.util.find_spec("yaml") else "no PyYAML here"

try:
    import torch
    from torch import nn
    from torch.nn import functional

    from paper.architectures import ARCHITECTURES, keep_off_kinks, random_weights
    from zoo import datasets, exporters
    from onnx import TensorProto, helper, numpy_helper
    import onnx
    from bench import reference_attack
    from zoo.onnx_network import OnnxNetwork, Unsupported
    missing_torch = None
except ImportError as problem:
    missing_torch = f"no PyTorch or onnx here: {problem}"

CONFIG = """
version: 1
seed: 3
datasets:
  test: {format: npz, path: test.npz, limit: 6}
models:
  net: {path: net.onnx, preprocess: {mean: 0.5, std: [0.25, 0.25, 0.5]}}
  probable: {path: net.onnx, output: probabilities}
attacks:
  aa: {kind: autoattack, version: standard, norm: linf, epsilon: 8/255}
  several: {kind: autoattack, norm: l2, epsilon: [0.5, 1]}
  plus: {kind: autoattack, version: plus, norm: linf, epsilon: 8/255}
  pgd: {kind: pgd, norm: linf, epsilon: 8/255}
suites:
  main: {dataset: test, models: [net], controls: [], attacks: [none, aa, pgd, plus, several]}
  other: {dataset: test, models: [net], attacks: [pgd]}
  probable: {dataset: test, models: [probable], attacks: [aa]}
"""

# AutoAttack's interface and its log: the first image that is right is broken by the second component.
AUTOATTACK = '''
class AutoAttack:
    def __init__(self, model, norm, eps, version, device, seed):
        assert (norm, version, device, seed) == ("Linf", "standard", "cpu", 3) and abs(eps - 8 / 255) < 1e-9, (norm, eps, version, seed)
        print("a line on standard output")
        self.model = model
    def run_standard_evaluation(self, x, y):
        right = (self.model(x).argmax(1) == y).nonzero()[:, 0]
        accuracy = len(right) / len(x)
        self.logger.log(f"initial accuracy: {accuracy:.2%}")
        self.logger.log(f"robust accuracy after APGD-CE: {accuracy:.2%} (total time 0.0 s)")
        self.logger.log(f"robust accuracy after APGD-T: {accuracy - SHORTFALL / len(x):.2%} (total time 0.1 s)")
        x = x.clone()
        x[right[0]] = 1 - x[right[0]]
        return x
'''

# selfheal's part: what is given by SCRIPT, after a look at the command line.
SELFHEAL = '''
import json, pathlib, sys
arguments = sys.argv[1:]
out = pathlib.Path(arguments[arguments.index("--out") + 1])
sets = dict(a.removeprefix("--set=").split("=", 1) for a in arguments if a.startswith("--set="))
assert sets["suites.main.controls"] == "[]" and sets["suites.main.models"] == '["net"]', sets
assert arguments[arguments.index("--limit") + 1] == "5" and arguments[arguments.index("--workers") + 1] == "1", arguments
saved = json.loads(sets["suites.main.save_adversarial"])
attacks = json.loads(sets["suites.main.attacks"])
part = json.load(open(pathlib.Path(__file__).with_suffix(".json")))
cells = [{"attack": "none", "accuracy": part["clean"], "verdicts": "", "steps": []}]
for attack in attacks:
    cells.append({"attack": attack, "accuracy": part["robust"], "verdicts": part["verdicts"],
                  "steps": [{"attack": "apgd-ce", "robust": part["clean"], "seconds": 0.5 if saved else 0.25},
                            {"attack": "apgd-t", "robust": part["robust"], "seconds": 0.5 if saved else 0.25}],
                  **({} if saved or not part["modes"] else {"verdict_only": True})})
json.dump({"environment": {"selfheal": "9.9", "onnxruntime": "1.2.3"}, "cells": cells}, open(out / "results.json", "w"))
with open(out / "records.jsonl", "w") as lines:
    for image, margin in part["margins"].items():
        lines.write(json.dumps({"image": int(image), "margin": margin}) + "\\n")
'''


def run_of(seconds, flags, **more):
    steps = [{"attack": "apgd-ce", "attacked": 4, "robust": 0.5, "seconds": seconds}]
    return {"clean": 1.0, "steps": steps, "robust": flags.count("1") / 4, "seconds": seconds, "flags": flags, **more}


@unittest.skipIf(missing or missing_yaml, missing or missing_yaml)
class Cases(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.config = self.folder / "config.yaml"
        self.config.write_text(CONFIG)

    def test_a_case_for_every_model_attack_and_epsilon(self):
        cases, left_out = autoattack.read_cases(self.config, ["main"])
        self.assertEqual([(c.model, c.attack, c.norm, c.epsilon, c.settings) for c in cases],
                         [("net", "aa", "linf", "8/255", []), ("net", "several", "l2", "0.5", ["attacks.several.epsilon=0.5"]),
                          ("net", "several", "l2", "1", ["attacks.several.epsilon=1"])])
        self.assertEqual((cases[0].mean, cases[0].std, cases[0].seed), (0.5, [0.25, 0.25, 0.5], 3))
        self.assertEqual((cases[0].file, cases[0].dataset["path"]), (str(self.folder / "net.onnx"), str(self.folder / "test.npz")))
        self.assertEqual([line.split()[1] for line in left_out], ["pgd", "plus"])
        self.assertEqual([c.attack for c in autoattack.read_cases(self.config, ["main"], attacks=["aa"])[0]], ["aa"])

    def test_what_cannot_be_compared_is_refused(self):
        for suite, says in (("nowhere", "no suites.nowhere"), ("other", "no case with AutoAttack"), ("probable", "needs logits")):
            with self.assertRaisesRegex(Failed, says):
                autoattack.read_cases(self.config, [suite])

    def test_recorded_results_are_found_by_norm_epsilon_and_number(self):
        case = autoattack.read_cases(self.config, ["main"])[0][1]
        results = {"what": "x", "net": {"linf": {"epsilon": "0.5", "n": 6}, "l2": {"epsilon": "2/4", "n": 6}}}
        self.assertIs(autoattack.recorded(results, case, 6), results["net"]["l2"])
        with self.assertRaisesRegex(Failed, "of 6 images, not 7"):
            autoattack.recorded(results, case, 7)
        with self.assertRaisesRegex(Failed, "no recorded results with l2 0.75"):
            autoattack.recorded(results, case._replace(epsilon="0.75"), 6)

    def test_figures_are_medians_over_the_rounds(self):
        case = autoattack.read_cases(self.config, ["main"])[0][0]
        sides = {"reference": [run_of(s, "1100") for s in (10.0, 30.0, 14.0)],
                 "full": [run_of(s, "1010", process=s + 1) for s in (1.0, 2.0, 7.0)]}
        row = autoattack.Measured(case, sides)
        self.assertEqual((row.median("reference"), row.median("full", "process"), row.ratio("full")), (14.0, 3.0, 10.0))
        self.assertEqual(row.differing("full"), [1, 2])
        sides["reference"] = sides["reference"][:1]  # recorded
        self.assertEqual(row.ratio("full"), 5.0)
        text = autoattack.report([row], ["full"], "what")
        self.assertIn("| net | linf | 8/255 | 10.0 s | 2.00 s | **5.0** | 3.00 s | 2 of 4 |", text)
        self.assertIn("- net, linf 8/255, full strength: 1, 2", text)
        again = autoattack.as_json([row], "what")
        self.assertEqual(autoattack.recorded(again, case, 4)["seconds"], 10.0)


@unittest.skipIf(missing or missing_yaml or missing_torch, missing or missing_yaml or missing_torch)
class Command(unittest.TestCase):
    """The whole command, with PyTorch's side as it is and stand-ins for AutoAttack and selfheal."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        (self.folder / "config.yaml").write_text(CONFIG)
        generator = np.random.default_rng(5)
        images = generator.integers(0, 256, (9, 4, 4, 3), dtype=np.uint8)
        weight = generator.normal(size=(4, 48)).astype(np.float32)
        nodes = [helper.make_node("Flatten", ["x"], ["flat"]), helper.make_node("Gemm", ["flat", "w"], ["y"], transB=1)]
        save(self.folder / "net.onnx", nodes, {"w": weight}, 2, (3, 4, 4))
        normal = (images.transpose(0, 3, 1, 2) / 255 - 0.5) / np.array([0.25, 0.25, 0.5]).reshape(3, 1, 1)
        logits = normal.reshape(9, 48) @ weight.T
        labels = logits.argmax(1)
        labels[3] = (labels[3] + 1) % 4
        np.savez(self.folder / "test.npz", x=images, y=labels)
        others = np.where(np.arange(4) == labels[:, None], -np.inf, logits).max(1)
        margins = logits[np.arange(9), labels] - others
        self.part = {"clean": 0.8, "robust": 0.4, "verdicts": "00001", "modes": True,
                     "margins": {i: float(m) for i, m in enumerate(margins[:5])}}
        package = self.folder / "reference" / "autoattack"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("SHORTFALL = 1\n" + AUTOATTACK)
        self.program = self.folder / "selfheal"
        self.program.write_text(f"#!{sys.executable}\n{SELFHEAL}")
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)

    def run_command(self, *more):
        """What the command prints on standard output."""
        (self.folder / "selfheal.json").write_text(json.dumps(self.part))
        out, said = io.StringIO(), io.StringIO()
        arguments = ["--config", str(self.folder / "config.yaml"), "--suite", "main", "--attack", "aa", "--images", "5", "--cores", "1",
                     "--selfheal", str(self.program), *more]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
            autoattack.main(arguments)
        return out.getvalue()

    def test_both_sides_in_both_modes(self):
        results = self.folder / "results.json"
        text = self.run_command("--reference", str(self.folder / "reference"), "--json", str(results), "--rounds", "2")
        self.assertIn("medians of 2 rounds", text)
        self.assertIn("selfheal 9.9 with ONNX Runtime 1.2.3", text)
        kept = json.loads(results.read_text())["net"]["linf"]
        self.assertEqual((kept["n"], kept["clean"], kept["robust"], kept["flags"][3]), (5, 0.8, 0.6, "0"))
        self.assertEqual([(s["attack"], s["attacked"], s["robust"]) for s in kept["steps"]], [("apgd-ce", 4, 0.8), ("apgd-t", 4, 0.6)])
        self.assertEqual([kept["selfheal"][mode][1]["seconds"] for mode in ("full", "verdict")], [1.0, 0.5])
        differ = sum(a != b for a, b in zip(kept["flags"], "00001"))
        self.assertEqual(text.count(f"| {5 - differ} of 5 |"), 2)

        again = self.run_command("--reference-results", str(results))
        self.assertIn("AutoAttack as recorded in results.json", again)
        self.assertIn("AutoAttack was not run here: Measured ", again)

    def test_the_document_is_written_and_must_have_its_block(self):
        document = self.folder / "doc.md"
        document.write_text("a\n<!-- begin autoattack -->\nold\n<!-- end autoattack -->\nb\n")
        reference = ["--reference", str(self.folder / "reference"), "--modes", "full"]
        self.run_command("--out", str(document), *reference)
        text = document.read_text()
        self.assertTrue(text.startswith("a\n<!-- begin") and text.endswith("-->\nb\n") and "| net | linf |" in text)
        self.assertNotIn("old", text)
        document.write_text("nothing")
        with self.assertRaisesRegex(SystemExit, "no block named autoattack"):
            self.run_command("--out", str(document), *reference)

    def test_nothing_is_timed_where_the_sides_compute_different_things(self):
        reference = ["--reference", str(self.folder / "reference")]
        with mock.patch.object(autoattack.Bench, "autoattack") as timed:
            exact, self.part["margins"] = self.part["margins"], {i: m * 1.001 for i, m in self.part["margins"].items()}
            with self.assertRaisesRegex(SystemExit, "margins in PyTorch differ"):
                self.run_command(*reference)
            self.part["margins"] = {i + 1: m for i, m in exact.items()}
            with self.assertRaisesRegex(SystemExit, "do not see the same images"):
                self.run_command(*reference)
            self.part["margins"] = {**exact, 0: float("nan")}
            with self.assertRaisesRegex(SystemExit, "margins in PyTorch differ"):
                self.run_command(*reference)
            timed.assert_not_called()

    def test_a_program_without_verdict_only_runs(self):
        self.part["modes"] = False
        with self.assertRaisesRegex(SystemExit, "no verdict-only mode: use --modes full"):
            self.run_command("--reference", str(self.folder / "reference"))

    def test_a_log_that_belies_the_images_is_refused(self):
        package = types.ModuleType("autoattack")
        network = OnnxNetwork(self.folder / "net.onnx", 0.5, [0.25, 0.25, 0.5])
        _, images, labels = map(torch.from_numpy, datasets.of_config({"format": "npz", "path": self.folder / "test.npz"}, 5))
        with mock.patch.dict(sys.modules, autoattack=package), contextlib.redirect_stderr(io.StringIO()):
            exec("SHORTFALL = 1\n" + AUTOATTACK, package.__dict__)
            self.assertEqual(reference_attack.attack(network, images, labels, "linf", 8 / 255, 3)["robust"], 0.6)
            package.SHORTFALL = 0
            with self.assertRaisesRegex(SystemExit, "logged 4 images as robust; 3 of those"):
                reference_attack.attack(network, images, labels, "linf", 8 / 255, 3)


def save(path, nodes, tensors, batch, shape, outputs=None):
    """An ONNX file of input x [batch, *shape] and output y."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [batch, *shape])], [value("y", TensorProto.FLOAT, outputs)],
                              [numpy_helper.from_array(np.asarray(t), name) for name, t in tensors.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))


@unittest.skipIf(missing or missing_torch, missing or missing_torch)
class Networks(unittest.TestCase):
    """ONNX files run by PyTorch give what the networks gave that they were exported from."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.path = pathlib.Path(temporary.name) / "net.onnx"
        torch.manual_seed(2)

    def compare(self, network, images, mean=None, std=None):
        scale = torch.tensor(1.0 if std is None else std).reshape(-1, 1, 1)
        keep_off_kinks(network.eval(), (images - (0 if mean is None else mean)) / scale)
        self.path.write_bytes(exporters.export(network, images, "torchscript", 13))
        found = OnnxNetwork(self.path, mean, std)
        x, again = images.clone().requires_grad_(True), images.clone().requires_grad_(True)
        exact, logits = network((x - (0 if mean is None else mean)) / scale), found(again)
        weights = torch.randn_like(exact)
        (exact_gradient,) = torch.autograd.grad((weights * exact).sum(), x)
        (gradient,) = torch.autograd.grad((weights * logits).sum(), again)
        for ours, theirs in ((logits, exact), (gradient, exact_gradient)):
            self.assertLess(float(((ours - theirs).norm() / theirs.norm()).detach()), 1e-4)
        self.assertEqual(found(images[:1]).shape, (1, *exact.shape[1:]))

    def test_architectures(self):
        for name, *normal in (("rn-18", 0.4, [0.2, 0.3, 0.4]), ("efficientnet-b0",)):  # whose weights are made for [0, 1]
            architecture = ARCHITECTURES[name]
            shape = architecture.input_shape()
            self.compare(random_weights(architecture.build(), shape, 1), torch.rand(2, *shape), *normal)

    def test_operators(self):
        class Every(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.norm = nn.Conv2d(4, 6, 3, stride=2, padding=(1, 0), bias=False, groups=2), nn.BatchNorm2d(6)
                self.norm.running_mean.uniform_(), self.norm.running_var.uniform_(0.5, 1.5)
                self.shift = nn.Parameter(torch.rand(6, 1, 1))
                self.last = nn.Linear(12, 5)

            def forward(self, x):
                x = functional.elu(self.norm(self.first(x)), 0.7)
                x = functional.max_pool2d(x, 3, 2, 1) + functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
                x = torch.cat([functional.avg_pool2d(x, 3, 1, 1), x.clamp(-0.2, 0.3).sigmoid() * x - self.shift / 2], 1)
                x = torch.tanh(x.transpose(2, 3)).mean((2, 3))
                return self.last(x.view(x.size(0), -1)) @ torch.eye(5).flip(0)

        self.compare(Every(), torch.rand(3, 4, 11, 9))

    def test_pads(self):
        x = torch.rand(2, 3, 4, 5)
        for mode, known in (("constant", "constant"), ("reflect", "reflect"), ("edge", "replicate")):
            pads = {"pads": np.array([0, 0, 1, 0, 0, 0, 2, 3]), "value": np.array(0.5, np.float32)}
            save(self.path, [helper.make_node("Pad", ["x", "pads", "value"], ["y"], mode=mode)], pads, "N", (3, 4, 5))
            exact = functional.pad(x, (0, 3, 1, 2), known, 0.5) if mode == "constant" else functional.pad(x, (0, 3, 1, 2), known)
            self.assertTrue(torch.equal(OnnxNetwork(self.path)(x), exact), mode)

    def test_lopsided_padding(self):
        x, weight = torch.rand(2, 3, 6, 6) - 2, torch.rand(4, 3, 3, 3)
        padded = functional.pad(x, (0, 1, 0, 1))
        window = {"kernel_shape": [3, 3], "pads": [0, 0, 1, 1], "strides": [2, 2]}
        save(self.path, [helper.make_node("Conv", ["x", "w"], ["y"], **window)], {"w": weight.numpy()}, "N", (3, 6, 6))
        self.assertTrue(torch.allclose(OnnxNetwork(self.path)(x), functional.conv2d(padded, weight, stride=2)))
        save(self.path, [helper.make_node("MaxPool", ["x"], ["y"], **window)], {}, "N", (3, 6, 6))
        self.assertTrue(torch.equal(OnnxNetwork(self.path)(x), functional.max_pool2d(x, 3, 2, ceil_mode=True)))
        save(self.path, [helper.make_node("AveragePool", ["x"], ["y"], count_include_pad=1, **window)], {}, "N", (3, 6, 6))
        self.assertTrue(torch.allclose(OnnxNetwork(self.path)(x), functional.avg_pool2d(padded, 3, 2)))
        save(self.path, [helper.make_node("AveragePool", ["x"], ["y"], **window)], {}, "N", (3, 6, 6))
        with self.assertRaisesRegex(Unsupported, "pads differ"):
            OnnxNetwork(self.path)(x)

    def test_a_fixed_batch_becomes_free(self):
        nodes = [helper.make_node("Reshape", ["x", "shape"], ["flat"]), helper.make_node("MatMul", ["flat", "w"], ["y"])]
        weight = np.arange(24, dtype=np.float32).reshape(12, 2)
        save(self.path, nodes, {"w": weight, "shape": np.array([1, 12])}, 1, (3, 2, 2))
        images = torch.rand(5, 3, 2, 2)
        self.assertTrue(torch.allclose(OnnxNetwork(self.path)(images), images.reshape(5, 12) @ torch.from_numpy(weight)))

    def test_slices(self):
        x = torch.rand(2, 3, 6, 6)
        values = {"starts": np.array([1, 0]), "ends": np.array([-1, 9223372036854775807]), "axes": np.array([1, 3]),
                  "steps": np.array([1, 2])}
        save(self.path, [helper.make_node("Slice", ["x", *values], ["y"])], values, "N", (3, 6, 6))
        self.assertTrue(torch.equal(OnnxNetwork(self.path)(x), x[:, 1:-1, :, ::2]))
        values |= {"starts": np.array([1, -1]), "ends": np.array([-1, -9223372036854775807]), "steps": np.array([1, -1])}
        save(self.path, [helper.make_node("Slice", ["x", *values], ["y"])], values, "N", (3, 6, 6))
        self.assertTrue(torch.equal(OnnxNetwork(self.path)(x), x[:, 1:-1].flip(3)))

    def test_unknown_operators_are_all_named(self):
        nodes = [helper.make_node("Erf", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Acos", ["b"], ["y"])]
        save(self.path, nodes, {}, 1, (3, 2, 2))
        with self.assertRaisesRegex(Unsupported, "no rule for Acos, Erf$"):
            OnnxNetwork(self.path)
