"""Tests of the zoo's scripts and of the committed files."""

import contextlib
import dataclasses
import io
import pathlib
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
ZOO = ROOT / "models" / "zoo"

try:
    import numpy as np
    from zoo import datasets, shapes10
except ImportError as missing:
    np, numpy_missing = None, str(missing)

try:
    import torch
    from zoo import attacks, export, networks, onnx_network, train_zoo, training
except ImportError as missing:
    torch, torch_missing = None, str(missing)

try:
    import onnx
    from paper import half_weights
except ImportError as missing:
    onnx, onnx_missing = None, str(missing)

try:
    import onnxruntime
except ImportError:
    onnxruntime = None

ALLOWED_OPERATORS = {
    "Conv", "ConvTranspose", "BatchNormalization", "Relu", "Elu", "Sigmoid", "Tanh", "Add", "Sub", "Mul", "Div",
    "Gemm", "MatMul", "MaxPool", "AveragePool", "GlobalAveragePool", "ReduceMean", "Resize", "Reshape", "Flatten",
    "Transpose", "Concat", "Softmax", "Constant", "Identity", "MaxUnpool", "Exp", "Clip",
}
IMAGE = (3, 32, 32)
CLASSIFIERS = [f"{name}_{kind}" for name in ("preact", "wider", "wide", "efficientnet") for kind in ("standard", "robust")]
STATES = {
    **{name: ("input", "logits", IMAGE) for name in CLASSIFIERS},
    **{name: ("state", "embedding", IMAGE) for name in ("input_ae", "input_segnet", "input_denoising", "input_noise")},
    **{name: ("state", "embedding", (64,)) for name in ("hidden_ae", "hidden_64")},
}


@unittest.skipIf(np is None, "numpy is missing")
class Shapes10(unittest.TestCase):
    def test_same_seed_same_images(self):
        first, labels = shapes10.generate(7, 60)
        again, _ = shapes10.generate(7, 60)
        other, _ = shapes10.generate(8, 60)
        self.assertTrue(np.array_equal(first, again))
        self.assertFalse(np.array_equal(first, other))
        self.assertEqual((first.shape, first.dtype), ((60, 3, 32, 32), np.uint8))
        self.assertEqual(np.bincount(labels, minlength=10).tolist(), [6] * 10)

    def test_every_shape_has_a_visible_interior(self):
        masks = shapes10.shape_masks(np.random.default_rng(3), np.arange(200) % 10)
        inside = masks.mean(axis=(1, 2, 3))
        self.assertGreater(inside.min(), 0.02)
        self.assertLess(inside.max(), 0.5)

    def test_committed_images_come_from_the_generator(self):
        for name, seed, count in (("test", 2, 256), ("train", 3, 400)):
            images, labels = datasets.read_records(datasets.SHAPES10 / f"{name}.bin")
            drawn, drawn_labels = shapes10.generate(seed, count)
            self.assertTrue(np.array_equal(labels, drawn_labels))
            difference = np.abs(images.astype(int) - drawn.astype(int))
            self.assertLessEqual(difference.max(), 1, "sine and cosine may differ in the last bit, no more")
            self.assertLess((difference > 0).mean(), 1e-3)


@unittest.skipIf(torch is None, "torch is missing")
class Attacks(unittest.TestCase):
    def test_projections_stay_inside_and_leave_inner_points_alone(self):
        torch.manual_seed(0)
        size = {"linf": lambda d: d.abs().amax(1), "l2": lambda d: d.norm(dim=1), "l1": lambda d: d.abs().sum(1)}
        for norm, epsilon in attacks.EPSILONS.items():
            delta = torch.randn(4, 3, 8, 8)
            projected = attacks.project(delta, norm, epsilon)
            self.assertLessEqual(size[norm](projected.flatten(1)).max().item(), epsilon * 1.0001)
            inner = projected * 0.5
            self.assertTrue(torch.allclose(attacks.project(inner, norm, epsilon), inner, atol=1e-7))


@unittest.skipIf(onnx is None, "onnx is missing")
class CommittedNetworks(unittest.TestCase):
    def test_names_batch_operators_and_size(self):
        for name, (input_name, output_name, shape) in STATES.items():
            model = onnx.load(str(ZOO / f"{name}.onnx"))
            onnx.checker.check_model(model)
            self.assertEqual([model.graph.input[0].name, model.graph.output[0].name], [input_name, output_name])
            dimensions = model.graph.input[0].type.tensor_type.shape.dim
            self.assertTrue(dimensions[0].dim_param)
            self.assertEqual(tuple(d.dim_value for d in dimensions[1:]), shape)
            self.assertLessEqual({node.op_type for node in model.graph.node}, ALLOWED_OPERATORS)
        total = sum(path.stat().st_size for path in ZOO.rglob("*") if path.is_file())
        self.assertLess(total, 5.9 * 2**20)


@unittest.skipIf(onnx is None or onnxruntime is None, "onnx or onnxruntime is missing")
class HalfWeights(unittest.TestCase):
    def test_the_network_is_the_one_with_rounded_weights(self):
        source = ZOO / "preact_standard.onnx"
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder, "half.onnx")
            self.assertEqual(half_weights.main([str(source), str(out)]), 0)
            self.assertLess(out.stat().st_size, 0.6 * source.stat().st_size)
            x = np.random.default_rng(3).random((4, 3, 32, 32), np.float32)
            found, rounded = (onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(
                None, {"input": x})[0] for model in (str(out), self.rounded(source)))
        self.assertTrue(np.allclose(found, rounded, rtol=1e-5, atol=1e-5))

    def rounded(self, source):
        model = onnx.load(source)
        for tensor in model.graph.initializer:
            values = onnx.numpy_helper.to_array(tensor)
            if values.dtype == np.float32 and values.size >= 64:
                tensor.CopyFrom(onnx.numpy_helper.from_array(values.astype(np.float16).astype(np.float32), tensor.name))
        return model.SerializeToString()

    def test_a_weight_beyond_float16_is_refused(self):
        model = onnx.load(ZOO / "preact_standard.onnx")
        tensor = max(model.graph.initializer, key=lambda t: len(t.raw_data))
        tensor.CopyFrom(onnx.numpy_helper.from_array(1e6 * onnx.numpy_helper.to_array(tensor), tensor.name))
        with np.errstate(over="ignore"), self.assertRaisesRegex(half_weights.exporters.ExportError, "beyond float16"):
            half_weights.halved(model, 64)


@unittest.skipIf(torch is None or onnx is None, "torch or onnx is missing")
class Networks(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(6)
        self.images = torch.rand(4, *IMAGE)

    def test_every_classifier_ends_in_the_shared_features(self):
        for name, pair in train_zoo.PAIRS.items():
            network = pair.build().eval()
            features = network.features(self.images)
            self.assertEqual(features.shape, (4, networks.FEATURES), name)
            self.assertTrue(torch.equal(network.head(features), network(self.images)), name)
            self.assertLess(4 * sum(p.numel() for p in network.parameters()), 400_000, name)

    def test_a_thawed_network_trains_without_its_original(self):
        original = training.freeze(networks.EfficientNet())
        before = original.head.weight.clone()
        copy = training.thawed(original)
        copy.train()(self.images).square().sum().backward()
        with torch.no_grad():
            copy.head.weight -= copy.head.weight.grad
        self.assertTrue(torch.equal(original.head.weight, before))
        self.assertFalse(torch.equal(copy.head.weight, before))
        self.assertFalse(any(p.requires_grad for p in original.parameters()))

    def test_a_pair_is_trained_exported_and_kept(self):
        pair = train_zoo.PAIRS["wide"]
        short = dataclasses.replace(pair, **{key: (1, 1, 0.1) for key in ("first", "second", "robust")})
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(train_zoo.PAIRS, wide=short), \
                mock.patch.object(train_zoo, "PAIR_POOL", 256), contextlib.redirect_stdout(io.StringIO()):
            train_zoo.Zoo(folder, folder, False).run("wide")
            first = [onnx.load(f"{folder}/wide_{kind}.onnx") for kind in ("standard", "robust")]
            self.assertEqual(len(first[0].graph.node), len(first[1].graph.node))
            self.assertNotEqual(first[0], first[1])
            with mock.patch.object(training, "train_classifier", side_effect=AssertionError("trained anew")):
                train_zoo.Zoo(folder, folder, False).run("wide")
            self.assertEqual(onnx.load(f"{folder}/wide_robust.onnx"), first[1])

    def test_an_onnx_network_gives_features_and_repeats_rows(self):
        for network in (networks.PreActivationResNet(), networks.InputAutoEncoder()):
            network(torch.rand(8, *IMAGE))
            network.eval()
            with tempfile.TemporaryDirectory() as folder, torch.no_grad():
                export.export_classifier(network, f"{folder}/network.onnx")
                read = onnx_network.OnnxNetwork(f"{folder}/network.onnx")
                self.assertTrue(torch.allclose(read(self.images), network(self.images), atol=1e-5))
                self.assertTrue(torch.equal(read.head(read.features(self.images)), read(self.images)))
                if isinstance(network, networks.Classifier):
                    self.assertTrue(torch.allclose(read.features(self.images), network.features(self.images), atol=1e-5))


@unittest.skipIf(torch is None or onnxruntime is None, "torch or onnxruntime is missing")
class Export(unittest.TestCase):
    def test_exported_network_computes_what_torch_computes(self):
        torch.manual_seed(5)
        for network, shape in (*((pair.build(), IMAGE) for pair in train_zoo.PAIRS.values()),
                               (networks.PreActivationResNet(), IMAGE),
                               (networks.InputAutoEncoder(), IMAGE), (networks.HiddenAutoEncoder(), (64,))):
            network(torch.rand(16, *shape))  # moves the batch statistics off their start
            network.eval()
            buffer = io.BytesIO()
            torch.onnx.export(network, torch.rand(2, *shape), buffer, opset_version=export.OPSET,
                              input_names=["x"], dynamic_axes={"x": {0: "batch"}})
            session = onnxruntime.InferenceSession(buffer.getvalue(), providers=["CPUExecutionProvider"])
            state = torch.rand(5, *shape)
            found = session.run(None, {"x": state.numpy()})[0]
            with torch.no_grad():
                self.assertTrue(np.allclose(found, network(state).numpy(), atol=1e-5))

    def test_the_line_of_the_readme_exports(self):
        line, = (line for line in (ROOT / "README.md").read_text().splitlines()
                 if line.startswith("torch.onnx.export("))
        network = networks.PreActivationResNet()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            exec(line, {"torch": torch, "network": network})
            session = onnxruntime.InferenceSession("my.onnx", providers=["CPUExecutionProvider"])
            images = torch.rand(1, *IMAGE)
            found = session.run(None, {session.get_inputs()[0].name: images.numpy()})[0]
            with torch.no_grad():
                self.assertTrue(np.allclose(found, network(images).numpy(), atol=1e-5))
