"""Tests of fit.py, on a few images through a bundled network."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

try:
    import onnx
    import torch
    from onnx import reference
    from torch.nn import functional

    import datasets
    import fit
    import onnx_network
    missing_torch = None
except ImportError as problem:
    missing_torch = f"no PyTorch here: {problem}"

ROOT = HERE.parent
NETWORKS = [str(ROOT / "models" / "zoo" / f"{name}_standard.onnx") for name in ("preact", "wider")]
SMALL = ("--data", "shapes10", "--limit-train", 32, "--batch", 16, "--epochs", 3, "--width", 4)


def command(*arguments):
    """fit.main's exit code, standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = fit.main([str(argument) for argument in arguments])
        except SystemExit as leaving:
            code = leaving.code
    return code, out.getvalue(), err.getvalue()


def log(folder):
    """Epochs as log.jsonl has them, without their seconds."""
    entries = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{key: value for key, value in entry.items() if key != "seconds"} for entry in entries]


@unittest.skipIf(missing_torch, missing_torch)
class Fitting(unittest.TestCase):
    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return pathlib.Path(folder.name)

    def test_losses_are_eq_4s(self):
        """At a rate of 0 an epoch's means are those of one pass over its images."""
        folder = self.folder()
        for counted, weight in (("mean", 3072.0), ("sum", 1.0)):
            out = folder / counted
            code, _, err = command("--architecture", "fcn", *SMALL, "--models", NETWORKS[0], "--rate", 0, "--epochs", 1,
                                   "--reconstruction", counted, "--weight", weight, "--out", out)
            self.assertEqual((code, err), (0, ""))
            images = datasets.load("shapes10", None, train=True).head(32)
            x = images.images.float() / 255.0
            embedding = onnx_network.OnnxNetwork(out / "embedding.onnx")
            fitted = fit.Fit(fit.parse([str(a) for a in ("--architecture", "fcn", *SMALL, "--models", NETWORKS[0], "--weight",
                                                         weight, "--reconstruction", counted, "--out", folder / "again")]))
            fitted.embedding.train()
            with torch.no_grad():
                e = fitted.embedding(x)
                loss, weighed, squares, _ = fitted.losses(fitted.networks[0], x, images.labels)
                logits = fitted.networks[0](e)
            self.assertAlmostEqual(loss.item(), functional.cross_entropy(logits, images.labels).item(), places=5)
            self.assertAlmostEqual(squares.item(), ((e - x) ** 2).flatten(1).sum(1).mean().item(), places=3)
            self.assertAlmostEqual(weight * weighed.item() / squares.item(), 1.0, places=5)
            self.assertEqual(tuple(embedding(x).shape), tuple(x.shape))

    def test_resumed_fit_is_the_same(self):
        folder = self.folder()
        settings = ("--architecture", "unet", *SMALL, "--models", *NETWORKS, "--draw", "step", "--flip", "--crop", 4,
                    "--optimizer", "adam", "--rate", 0.002, "--schedule", "cosine")
        self.assertEqual(command(*settings, "--keep", 2, "--out", folder / "whole")[0], 0)
        first = fit.Fit(fit.parse([str(a) for a in (*settings, "--out", folder / "parts")]))
        with contextlib.redirect_stdout(io.StringIO()):
            fit.train.log(first.folder, **first.run_epoch(), epoch=1)
        first.save()
        code, _, err = command(*settings, "--out", folder / "parts")
        self.assertEqual((code, err.count("exists: go on with --resume")), (1, 1))
        code, _, err = command(*settings, "--rate", 0.1, "--resume", "--out", folder / "parts")
        self.assertEqual((code, err.count("--rate 0.002, not 0.1")), (1, 1))
        self.assertEqual(command(*settings, "--resume", "--out", folder / "parts")[0], 0)
        self.assertEqual(log(folder / "parts"), log(folder / "whole"))
        self.assertEqual((folder / "parts" / "embedding.onnx").read_bytes(), (folder / "whole" / "embedding.onnx").read_bytes())
        self.assertTrue((folder / "whole" / "embedding-2.onnx").exists())
        self.assertEqual(len(log(folder / "whole")), 3)

    def test_features_behind_an_embedding(self):
        folder = self.folder()
        self.assertEqual(command("--architecture", "fcn", *SMALL, "--models", NETWORKS[0], "--out", folder / "input")[0], 0)
        code, out, err = command("--architecture", "mlp-ae", "--sizes", 64, 24, 10, "--at", "last", "--before",
                                 folder / "input" / "embedding.onnx", *SMALL, "--models", NETWORKS[0], "--precision", "bf16",
                                 "--out", folder / "last")
        self.assertEqual((code, err), (0, ""))
        model = onnx.load(folder / "last" / "embedding.onnx")
        self.assertEqual([d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim][1:], [64])

    def test_wrong_arguments(self):
        folder = self.folder()
        for arguments, message in (
                (("--architecture", "fcn", "--at", "last"), "--at last takes mlp-ae"),
                (("--architecture", "mlp-ae"), "--at last takes mlp-ae"),
                (("--architecture", "fcn", "--before", "e.onnx"), "--before is for --at last"),
                (("--architecture", "fcn", "--models", folder / "none.onnx"), "none.onnx")):
            code, _, err = command("--models", NETWORKS[0], *SMALL, "--out", folder / "out", *arguments)
            self.assertEqual((code, err.count("\n")), (1, 1), err)
            self.assertIn(message, err)


@unittest.skipIf(missing_torch, missing_torch)
class Networks(unittest.TestCase):
    def test_networks_and_embeddings_of_the_papers(self):
        """Of Cast, ConvTranspose, ConstantOfShape and Slices backwards, beside onnx's own evaluator."""
        for name in ("resnet20", "unet"):
            path = ROOT / "docs" / "paper" / "resnet" / "models" / f"{name}.onnx"
            x = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(1))
            model = onnx.load(path)
            want, = reference.ReferenceEvaluator(model).run(None, {model.graph.input[0].name: x.numpy()})
            self.assertLess((onnx_network.OnnxNetwork(path)(x) - torch.from_numpy(want)).abs().max().item(), 1e-4)


if __name__ == "__main__":
    unittest.main()
