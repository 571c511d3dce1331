"""Tests of fit.py, on a few images through a bundled network."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest

try:
    import numpy as np
    import onnx
    import torch
    from onnx import reference
    from torch.nn import functional

    from zoo import datasets, export, fit, onnx_network, test_train, train
    missing_torch = None
except ImportError as problem:
    missing_torch = f"no PyTorch here: {problem}"

ROOT = pathlib.Path(__file__).resolve().parents[2]
NETWORKS = [str(ROOT / "models" / "zoo" / f"{name}_standard.onnx") for name in ("preact", "wider")]
SMALL = ("--data", "shapes10", "--limit-train", 32, "--batch", 16, "--epochs", 3, "--width", 4)


def evaluator(path):
    """onnx's own evaluator of a file; before opset 14 it mixes a batch's statistics into every normalisation."""
    model = onnx.load(path)
    model.opset_import[0].version = 15
    return reference.ReferenceEvaluator(model)


def command(*arguments):
    return test_train.command(*arguments, main=fit.main)


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

    def test_help(self):
        for main in (fit.main, train.main, export.main):
            code, out, err = test_train.command("--help", main=main)
            self.assertEqual((code, err, out.count("usage: ")), (0, "", 1))

    def test_losses_are_eq_4s(self):
        """An epoch of one batch at a rate of 0 has the losses of that batch."""
        images = datasets.load("shapes10", None, train=True).head(32)
        x = images.images.float() / 255.0
        torch.manual_seed(5)
        folder, settings = self.folder(), ("--architecture", "fcn", *SMALL, "--models", NETWORKS[0], "--seed", 5)
        embedding = fit.new(fit.parse([str(a) for a in (*settings, "--out", folder)])).train()
        with torch.no_grad():
            e = embedding(x)
            logits = onnx_network.OnnxNetwork(NETWORKS[0])(e)
        want = {"cross_entropy": functional.cross_entropy(logits, images.labels).item(),
                "reconstruction": ((e - x) ** 2).sum((1, 2, 3)).mean().item(),
                "accuracy": (logits.argmax(1) == images.labels).float().mean().item(), "epoch": 1}
        code, _, err = command(*settings, "--batch", 32, "--epochs", 1, "--rate", 0, "--out", folder)
        self.assertEqual((code, err), (0, ""))
        for key, value in log(folder)[0].items():
            self.assertAlmostEqual(value / want[key] if want[key] else value + 1.0, 1.0, places=4, msg=key)

    def test_reconstruction_is_weighed_as_sum_or_mean(self):
        """A weight of the mean over 3,072 values fits as a 3,072nd of it does of the sum."""
        folder, rows = self.folder(), []
        for counted, weight in (("mean", 307.2), ("sum", 0.1)):
            code, _, err = command("--architecture", "fcn", *SMALL, "--models", NETWORKS[0], "--reconstruction", counted,
                                   "--weight", weight, "--rate", 1e-4, "--out", folder / counted)
            self.assertEqual((code, err), (0, ""))
            rows.append(log(folder / counted)[-1]["reconstruction"])
        self.assertAlmostEqual(rows[0] / rows[1], 1.0, places=4)

    def test_resumed_fit_is_the_same(self):
        folder = self.folder()
        settings = ("--architecture", "unet", *SMALL, "--models", *NETWORKS, "--draw", "step", "--flip", "--crop", 4,
                    "--optimizer", "adam", "--rate", 0.002, "--schedule", "cosine")
        self.assertEqual(command(*settings, "--keep", 2, "--out", folder / "whole")[0], 0)
        first = fit.Fit(fit.parse([str(a) for a in (*settings, "--out", folder / "parts")]))
        with contextlib.redirect_stdout(io.StringIO()):
            first.log(**first.run_epoch(), epoch=1)
        first.save()
        with open(folder / "parts" / "log.jsonl", "a", encoding="utf-8") as file:  # it ended while it wrote what it did not save
            file.write('{"cross_entropy": 9, "epoch": 2}\n{"cross_ent')
        code, _, err = command(*settings, "--out", folder / "parts")
        self.assertEqual((code, err.count("exists: go on with --resume")), (1, 1))
        code, _, err = command(*settings, "--rate", 0.1, "--resume", "--out", folder / "parts")
        self.assertEqual((code, err.count("--rate 0.002, not 0.1")), (1, 1))
        self.assertEqual(command(*settings, "--resume", "--out", folder / "parts")[0], 0)
        self.assertEqual(log(folder / "parts"), log(folder / "whole"))
        self.assertEqual((folder / "parts" / "embedding.onnx").read_bytes(), (folder / "whole" / "embedding.onnx").read_bytes())
        self.assertTrue((folder / "whole" / "embedding-2.onnx").exists())
        self.assertEqual(len(log(folder / "whole")), 3)

    def test_worst_images(self):
        """One batch at a rate of 0 has the losses of the images that the attack ends at, drawn as the fit draws them."""
        images = datasets.load("shapes10", None, train=True).head(32)
        network = onnx_network.OnnxNetwork(NETWORKS[0])
        for norm, epsilon, steps in (("linf", 0.03, 1), ("l2", 0.5, 3), ("l1", 8.0, 2)):
            settings = ("--architecture", "unet", *SMALL, "--batch", 32, "--epochs", 1, "--rate", 0, "--models", NETWORKS[0],
                        "--objective", "adversarial", "--norm", norm, "--epsilon", epsilon, "--steps", steps)
            folder = self.folder()
            self.assertEqual(command(*settings, "--out", folder)[::2], (0, ""))
            run = fit.Fit(fit.parse([str(a) for a in (*settings, "--out", self.folder())]))
            run.learner.train()
            order = torch.randperm(32, generator=run.generator)
            run.generator.manual_seed(run.arguments.seed)  # the order, then the network, then the start
            torch.randperm(32, generator=run.generator), torch.randint(1, (1,), generator=run.generator)
            x, labels = run.images(order), images.labels[order]
            z = run.worst(network, x, labels)
            d = (z - x).flatten(1)
            size = {"linf": d.abs().max(dim=1).values, "l2": d.norm(dim=1), "l1": d.abs().sum(dim=1)}[norm]
            self.assertLess(size.max().item(), epsilon * (1 + 1e-5))
            with torch.no_grad():
                at, clean = (functional.cross_entropy(network(run.learner(i)), labels).item() for i in (z, x))
            self.assertGreater(at, clean)
            self.assertAlmostEqual(log(folder)[0]["cross_entropy"] / at, 1.0, places=3, msg=norm)

    def test_schedules(self):
        """Epsilon grows after the warm-up, while the weight falls from its start, and then to its end."""
        run = fit.Fit(fit.parse([str(a) for a in (
            "--architecture", "unet", *SMALL, "--epochs", 10, "--models", NETWORKS[0], "--objective", "adversarial", "--warmup", 1,
            "--ramp", 2, "--weight", 0.1, "--weight-start", 1, "--weight-end", 0.001, "--lr-warmup", 0.25, "--out", self.folder())]))
        seen = []
        for run.made in (0, 2, 4, 6, 20):  # two steps an epoch, 20 in all
            seen.append((run.grown(), run.weight()))
        want = [(0, 1), (0, 10 ** (-2 / 6)), (0.5, 10 ** (-4 / 6) * 0.1), (1, 0.001), (1, 0.001)]
        for (grown, weight), (g, w) in zip(seen, want):
            self.assertAlmostEqual(grown, g)
            self.assertAlmostEqual(weight / w, 1.0)
        self.assertEqual([run.factor(step / 20) for step in (0, 2, 4, 5)], [0.2, 0.6, 1.0, 1.0])

    def test_what_else_learns(self):
        """A head of its own and the network itself come out as classifiers, and the latter begins as it was."""
        folder, x = self.folder(), torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(1)).numpy()
        settings = ("--architecture", "unet", *SMALL, "--models", NETWORKS[0], "--objective", "adversarial", "--clip", 1,
                    "--average", 0.9, "--weight", 0, "--optimizer", "adam")

        def answer(path):
            model = onnx.load(path)
            return reference.ReferenceEvaluator(model).run(None, {model.graph.input[0].name: x[:1]})[0]

        for name, rate in (("head", 0.002), ("network", 0.002), ("network", 0)):
            code, _, err = command(*settings, "--learns", name, "--rate", rate, "--out", folder / f"{name}-{rate}")
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(answer(folder / f"{name}-{rate}" / "embedding.onnx").shape, (1, 10))
        same = [answer(path) for path in (NETWORKS[0], folder / "network-0" / "embedding.onnx", folder / "network-0.002" / "embedding.onnx")]
        np.testing.assert_array_equal(same[0], same[1])
        self.assertGreater(abs(same[0] - same[2]).max(), 1e-3)

    def test_what_is_held_back_judges(self):
        """Beside an attack and verdicts by the exported files, which hold the same numbers."""
        folder = self.folder()
        settings = ("--architecture", "unet", *SMALL, "--models", NETWORKS[0], "--optimizer", "adam", "--rate", 0.01, "--epochs", 12,
                    "--reconstruction", "sum", "--objective", "adversarial", "--norm", "linf", "--epsilon", 0.002, "--seed", 1)
        code, _, err = command(*settings, "--limit-train", 264, "--held-out", 64, "--out", folder)
        self.assertEqual((code, err), (0, ""))
        model = onnx.load(folder / "embedding.onnx")
        says = {entry.key: float(entry.value) for entry in model.metadata_props}
        held = datasets.load("shapes10", None, train=True).head(264).split(200)[1]
        x = held.images.numpy().astype(np.float32) / 255.0
        network, embedding = evaluator(NETWORKS[0]), evaluator(folder / "embedding.onnx")

        def answer(of, images):
            return of.run(None, {of.input_names[0]: images})[0]

        def right(images):
            return (answer(network, images).argmax(axis=1) == held.labels.numpy()).mean()

        healed = answer(embedding, x)
        self.assertEqual(says["held_out"], 64)
        self.assertAlmostEqual(says["held_out_alone"], right(x), places=5)
        self.assertAlmostEqual(says["held_out_accuracy"], right(healed), places=5)
        self.assertLessEqual(says["held_out_through"], says["held_out_trained"])
        self.assertLessEqual(says["held_out_trained"], says["held_out_accuracy"])
        self.assertGreater(says["held_out_accuracy"], 0.1)
        self.assertEqual(command(*settings, "--held-out", 32, "--out", folder / "none")[0::2],
                         (1, "fit.py: error: --held-out 32 leaves none of 32 images\n"))

    def test_dimensions_of_another_architecture_are_refused(self):
        code, _, err = command("--architecture", "fcn", *SMALL, "--models", NETWORKS[0], "--refine", 1, "--out", self.folder())
        self.assertEqual((code, err), (1, "fit.py: error: --stages, --refine and --coarse are for --architecture unet\n"))

    def test_what_diverges_is_not_kept(self):
        folder = self.folder()
        code, _, err = command("--architecture", "unet", *SMALL, "--models", NETWORKS[0], "--rate", 1e30, "--out", folder)
        self.assertEqual((code, "is no number any more in epoch " in err), (1, True), err)
        self.assertFalse((folder / "embedding.onnx").exists())

    def test_networks_take_normalised_images(self):
        x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
        mean, std = [0.4, 0.5, 0.6], [0.2]
        network, plain = onnx_network.OnnxNetwork(NETWORKS[0], mean, std), onnx_network.OnnxNetwork(NETWORKS[0])
        by_hand = (x - torch.tensor(mean)[:, None, None]) / 0.2
        for ask in ("forward", "features"):
            self.assertTrue(torch.equal(getattr(network, ask)(x), getattr(plain, ask)(by_hand)), ask)
        run = fit.Fit(fit.parse([str(a) for a in ("--architecture", "unet", *SMALL, "--models", NETWORKS[0], "--mean", *mean,
                                                  "--std", *std, "--out", self.folder())]))
        self.assertTrue(torch.equal(run.networks[0](x), network(x)))

    def test_what_an_embedding_does_to_test_images(self):
        """Beside the same four numbers by another program: of the kept file, image by image, in NumPy."""
        folder = self.folder()
        settings = ("--architecture", "unet", "--stages", 2, "--refine", 1, *SMALL, "--models", NETWORKS[0], "--optimizer", "adam",
                    "--rate", 0.002)
        self.assertEqual(command(*settings, "--keep", 2, "--test", 12, "--out", folder / "a")[0], 0)
        self.assertEqual(command(*settings, "--keep", 2, "--out", folder / "b")[0], 0)
        entries = log(folder / "a")
        self.assertEqual(["test" in entry for entry in entries], [False, True, True])
        self.assertEqual([{k: v for k, v in e.items() if k != "test"} for e in entries], log(folder / "b"))  # draws nothing
        test = datasets.load("shapes10", None, train=False).head(12)
        judge = fit.Judge(onnx_network.OnnxNetwork(NETWORKS[0]), test, torch.device("cpu"))
        self.assertLessEqual((judge.attacked - judge.clean).abs().max().item(), 8 / 255 + 1e-6)
        self.assertEqual(sum(node.op_type == "Conv" for node in onnx.load(folder / "a" / "embedding-2.onnx").graph.node), 7)
        embedding, classifier = evaluator(folder / "a" / "embedding-2.onnx"), evaluator(NETWORKS[0])

        def answers(evaluator, images):
            name = evaluator.input_names[0]
            return np.concatenate([evaluator.run(None, {name: x[None].numpy()})[0] for x in images])

        clean, attacked = answers(embedding, judge.clean), answers(embedding, judge.attacked)

        def right(images):
            return (answers(classifier, torch.from_numpy(images)).argmax(1) == test.labels.numpy()).mean()

        given = (judge.attacked - judge.clean).numpy()
        want = {"clean": right(clean), "attacked": right(attacked),
                "moved": np.mean([((a - b) ** 2).sum() for a, b in zip(clean, judge.clean.numpy())]),
                "passed": np.mean([np.sqrt(((a - b) ** 2).sum() / (d**2).sum()) for a, b, d in zip(attacked, clean, given)])}
        for key, value in want.items():
            self.assertLess(abs(entries[1]["test"][key] - value), 1e-3 * max(1.0, value), key)

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
                (("--architecture", "mlp-ae", "--at", "last", "--test", 5), "--test is for --at input"),
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
