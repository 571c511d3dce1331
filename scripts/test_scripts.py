"""Tests of the zoo's scripts and of the committed files: python3 -m unittest discover -s scripts."""

import io
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ZOO = HERE.parent / "models" / "zoo"
sys.path.insert(0, str(HERE))

try:
    import numpy as np
    import shapes10
except ImportError as missing:
    np, numpy_missing = None, str(missing)

try:
    import torch
    import attacks
    import export
    import networks
except ImportError as missing:
    torch, torch_missing = None, str(missing)

try:
    import onnx
except ImportError as missing:
    onnx, onnx_missing = None, str(missing)

try:
    import onnxruntime
except ImportError:
    onnxruntime = None

ALLOWED_OPERATORS = {
    "Conv", "ConvTranspose", "BatchNormalization", "Relu", "Elu", "Sigmoid", "Tanh", "Add", "Sub", "Mul", "Div",
    "Gemm", "MatMul", "MaxPool", "AveragePool", "GlobalAveragePool", "ReduceMean", "Resize", "Reshape", "Flatten",
    "Transpose", "Concat", "Softmax", "Constant", "Identity",
}
STATES = {
    "preact_standard": ("input", "logits", (3, 32, 32)),
    "preact_robust": ("input", "logits", (3, 32, 32)),
    "input_ae": ("state", "embedding", (3, 32, 32)),
    "hidden_ae": ("state", "embedding", (64,)),
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
            images, labels = shapes10.read_records(ZOO / "shapes10" / f"{name}.bin")
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
            self.assertEqual(dimensions[0].dim_param, "batch")
            self.assertEqual(tuple(d.dim_value for d in dimensions[1:]), shape)
            self.assertLessEqual({node.op_type for node in model.graph.node}, ALLOWED_OPERATORS)
        total = sum(path.stat().st_size for path in ZOO.rglob("*") if path.is_file())
        self.assertLess(total, 3.9 * 2**20)


@unittest.skipIf(torch is None or onnxruntime is None, "torch or onnxruntime is missing")
class Export(unittest.TestCase):
    def test_exported_network_computes_what_torch_computes(self):
        torch.manual_seed(5)
        for network, shape in ((networks.PreActivationResNet(), (3, 32, 32)),
                               (networks.InputAutoEncoder(), (3, 32, 32)), (networks.HiddenAutoEncoder(), (64,))):
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


if __name__ == "__main__":
    unittest.main()
