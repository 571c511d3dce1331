"""Tests of the architectures, the exporters, skeletons and export.py's command line."""

import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SKELETONS = HERE.parents[1] / "models" / "zoo" / "skeletons"

try:
    import numpy as np
    import torch

    from paper.architectures import ARCHITECTURES, random_weights
    from zoo import export, exporters
    missing_torch = None
except ImportError as problem:
    missing_torch = f"no PyTorch here: {problem}"

try:
    import onnx
    from onnx import numpy_helper
    missing_onnx = None
except ImportError as problem:
    missing_onnx = f"no onnx here: {problem}"

try:
    import onnxruntime
    missing_runtime = None
except ImportError as problem:
    missing_runtime = f"no onnxruntime here: {problem}"

# Narrow networks that together use every layer of the full ones.
NARROW = {"rn-18": {"width": 4}, "rn-50": {"width": 4}, "resnet-20": {"width": 4}, "wrn-28-8": {"width": 1},
          "efficientnet-b0": {}, "fcn": {"width": 4}, "unet": {"width": 4}, "segnet": {"width": 4},
          "autoencoder": {"features": 32, "code": 20}, "denoising-autoencoder": {"width": 4}}

DYNAMO = ("rn-18", "segnet", "autoencoder")  # enough for an exporter that takes seconds a network
OPSET = {"torchscript": 13, "dynamo": 18}


def narrow(name, seed=3):
    architecture = ARCHITECTURES[name]
    shape = architecture.input_shape(**NARROW[name])
    return random_weights(architecture.build(**NARROW[name]), shape, seed, calibration_batch=16), shape


def command(*arguments):
    """export.main's exit code, standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = export.main([str(argument) for argument in arguments])
        except SystemExit as leaving:
            code = leaving.code
    return code, out.getvalue(), err.getvalue()


@unittest.skipIf(missing_torch, missing_torch)
class Architectures(unittest.TestCase):
    def test_parameters_are_those_of_the_papers(self):
        published = {  # with the papers' class counts
            ("rn-18", 10): 11_172_170, ("resnet-20", 10): 269_722, ("resnet-32", 10): 464_154,
            ("wrn-28-10", 10): 36_479_194, ("wrn-34-10", 10): 46_160_474,
            ("efficientnet-b0", 1000): 5_288_548, ("efficientnet-b1", 1000): 7_794_184, ("efficientnet-b2", 1000): 9_109_994,
        }
        for (name, classes), count in published.items():
            network = ARCHITECTURES[name].build(classes=classes)
            self.assertEqual(sum(parameter.numel() for parameter in network.parameters()), count, name)

    def test_efficientnet_computes_what_torchvision_computes(self):
        try:
            import torchvision
        except ImportError as problem:
            self.skipTest(f"no torchvision here: {problem}")
        for variant in ("b0", "b2"):
            theirs = getattr(torchvision.models, f"efficientnet_{variant}")(num_classes=7).eval()
            ours, shape = ARCHITECTURES[f"efficientnet-{variant}"].build(classes=7), (3, 64, 64)
            random_weights(ours, shape, 1, calibration_batch=8)
            theirs.load_state_dict(dict(zip(theirs.state_dict(), ours.state_dict().values())))  # same order of layers
            x = torch.rand(2, *shape)
            with torch.no_grad():
                self.assertTrue(torch.allclose(ours(x), theirs(x), rtol=1e-4, atol=1e-5), variant)

    def test_random_weights_keep_activations_of_order_one(self):
        for name in NARROW:
            network, shape = narrow(name)
            with torch.no_grad():
                deviation = float(network(torch.rand(8, *shape, generator=torch.Generator().manual_seed(9))).std())
            self.assertGreater(deviation, 0.02, name)
            self.assertLess(deviation, 50, name)

    def test_running_statistics_are_near_the_true_ones_but_off_them(self):
        for name in ("rn-18", "efficientnet-b0", "autoencoder"):
            network, shape = narrow(name)
            shifts, ratios = [], []

            def look(norm, inputs):
                variance, mean = torch.var_mean(inputs[0].transpose(0, 1).flatten(1), dim=1)
                shifts.append(((mean - norm.running_mean).abs() / norm.running_var.sqrt()).median())
                ratios.append((variance / norm.running_var).log().abs().median())
            for module in network.modules():
                if isinstance(module, (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d)):
                    module.register_forward_pre_hook(look)
            with torch.no_grad():
                network(torch.rand(64, *shape, generator=torch.Generator().manual_seed(9)))
            for found, low, high in ((shifts, 0.05, 0.6), (ratios, 0.1, 1.2)):
                middle = float(torch.stack(found).median())
                self.assertGreater(middle, low, name)
                self.assertLess(middle, high, name)

    def test_random_weights_are_seeded_and_none_is_trivial(self):
        first, again, other = (narrow("rn-18", seed)[0].state_dict() for seed in (3, 3, 4))
        for key, value in first.items():
            self.assertTrue(torch.equal(value, again[key]), key)
            if value.is_floating_point():
                self.assertFalse(torch.equal(value, other[key]), key)
                self.assertGreater(float(value.std()), 0.0, key)

    def test_an_option_of_another_architecture_is_refused(self):
        with self.assertRaisesRegex(ValueError, "no option features"):
            ARCHITECTURES["rn-18"].build(features=3)

    def test_embeddings_keep_the_shape(self):
        for name in ("fcn", "unet", "segnet", "autoencoder", "denoising-autoencoder"):
            network, shape = narrow(name)
            self.assertEqual(network(torch.rand(2, *shape)).shape, (2, *shape), name)


@unittest.skipIf(missing_torch or missing_onnx or missing_runtime, missing_torch or missing_onnx or missing_runtime)
class Exporters(unittest.TestCase):
    def check(self, name, exporter, opset, symbolic):
        network, shape = narrow(name)
        data = exporters.export(network, torch.rand(2, *shape), exporter, opset, symbolic=symbolic)
        onnx.checker.check_model(onnx.load_model_from_string(data))
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        x = torch.rand(5 if symbolic else 2, *shape)
        found = session.run(None, {"input": x.numpy()})[0]
        with torch.no_grad():
            wanted = network(x).numpy()
        error = np.abs(found - wanted).max() / np.abs(wanted).max()
        self.assertLess(error, 1e-4, f"{name}, {exporter}, opset {opset}, symbolic batch {symbolic}")

    def test_exported_networks_compute_what_torch_computes(self):
        for exporter in exporters.available():
            for name in DYNAMO if exporter == "dynamo" else NARROW:
                self.check(name, exporter, OPSET[exporter], symbolic=True)

    def test_opsets_and_a_fixed_batch(self):
        for exporter in exporters.available():
            supported = exporters.supported_opsets(exporter)
            for opset in (20,) if exporter == "dynamo" else (supported[0], supported[-1]):
                self.check("segnet", exporter, opset, symbolic=False)

    def test_external_data_lies_beside_the_model(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "net.onnx"
            for _ in range(2):  # the second time over the first
                code, _, err = command("--architecture", "rn-18", "--width", 8, "--random", "--external-data", "--out", path)
                self.assertEqual((code, err), (0, ""))
            self.assertEqual({entry.name for entry in path.parent.iterdir()}, {"net.onnx", "net.onnx.data"})
            self.assertLess(path.stat().st_size, 40_000)
            self.assertLess(path.with_name("net.onnx.data").stat().st_size, 1_000_000)
            session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
            self.assertEqual(session.run(None, {"input": np.zeros((3, 3, 32, 32), np.float32)})[0].shape, (3, 10))


@unittest.skipIf(missing_torch or missing_onnx, missing_torch or missing_onnx)
class Files(unittest.TestCase):
    def test_segnet_is_written_with_maxunpool_and_without_traces(self):
        for exporter in exporters.available():
            network, shape = narrow("segnet")
            data = exporters.export(network, torch.rand(2, *shape), exporter, OPSET[exporter])
            model = export.anonymous(data)
            kinds = [node.op_type for node in model.graph.node]
            self.assertEqual((kinds.count("MaxPool"), kinds.count("MaxUnpool")), (5, 5))
            self.assertEqual(set(kinds), {"Conv", "Relu", "MaxPool", "MaxUnpool"})
            self.assertNotIn(b".py", model.SerializeToString())
            self.assertEqual(len(kinds), len(onnx.load_model_from_string(data).graph.node))
            if exporter == "dynamo":
                self.assertIn(b".py", data, "the exporter writes no traces any more: scrub() has nothing to do")

    def test_unpooling_windows(self):
        self.assertEqual(exporters.unpool_window([4, 5], [8, 15]), ([2, 3], [2, 3]))
        self.assertEqual(exporters.unpool_window([3, 3], [7, 6]), ([3, 2], [2, 2]))

    def test_a_checkpoint_comes_through(self):
        network, shape = narrow("rn-18")
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            torch.save({"model": network.state_dict(), "epoch": 3}, folder / "net.pt")
            code, out, err = command("--architecture", "rn-18", "--width", 4, "--checkpoint", folder / "net.pt",
                                     "--batch", 1, "--opset", 12, "--out", folder / "net.onnx")
            self.assertEqual((code, err), (0, ""))
            self.assertIn("rn-18, opset 12", out)
            model = onnx.load(str(folder / "net.onnx"))
            self.assertEqual(model.graph.input[0].type.tensor_type.shape.dim[0].dim_value, 1)
            weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
            self.assertTrue(np.array_equal(weights["head.weight"], network.head.weight.detach().numpy()))


@unittest.skipIf(missing_onnx, missing_onnx)
class Skeletons(unittest.TestCase):
    def test_committed_skeletons(self):
        total = 0
        for path in sorted(SKELETONS.glob("*.onnx")):
            total += path.stat().st_size
            model = onnx.load(str(path))
            self.assertEqual([(entry.key, entry.value) for entry in model.metadata_props], [("selfheal.skeleton", "1")])
            weights = [tensor for tensor in model.graph.initializer
                       if tensor.data_type == onnx.TensorProto.FLOAT and int(np.prod(tensor.dims)) > 16]
            self.assertGreater(len(weights), 2, path.name)
            for tensor in weights:
                self.assertFalse(tensor.HasField("raw_data") or tensor.float_data, f"{path.name}: {tensor.name}")
            for tensor in model.graph.initializer:
                if tensor not in weights:
                    numpy_helper.to_array(tensor)  # whole
            self.assertEqual(model.graph.input[0].type.tensor_type.shape.dim[0].dim_param, "batch")
            data = path.read_bytes()
            self.assertFalse(b".py" in data or b"/work" in data, path.name)
        self.assertGreater(total, 0)
        self.assertLess(total, 1_000_000)

    @unittest.skipIf(missing_torch, missing_torch)
    def test_every_architecture_has_one(self):
        self.assertEqual({path.stem for path in SKELETONS.glob("*.onnx") if not path.stem.endswith("-dynamo")}, set(ARCHITECTURES))
        self.assertEqual(len(list(SKELETONS.glob("*-dynamo.onnx"))), 4)

    @unittest.skipIf(missing_torch, missing_torch)
    def test_weights_of_resnets_are_all_there(self):
        for name in ("rn-18", "wrn-28-8"):
            model = onnx.load(str(SKELETONS / f"{name}.onnx"))
            network = ARCHITECTURES[name].build()
            # The exporter folds BatchNormalization into the Conv before it: weight and bias in place of five tensors.
            kept = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
            for key, value in network.state_dict().items():
                if key in kept:
                    self.assertEqual(kept[key], tuple(value.shape), key)
            self.assertIn("head.weight", kept)
            convolutions = sum(isinstance(module, torch.nn.Conv2d) for module in network.modules())
            self.assertEqual(sum(node.op_type == "Conv" for node in model.graph.node), convolutions)
            self.assertEqual(sum(len(dims) == 4 for dims in kept.values()), convolutions)

    @unittest.skipIf(missing_torch, missing_torch)
    def test_a_skeleton_is_the_graph_of_the_whole_model(self):
        with tempfile.TemporaryDirectory() as folder:
            bare, whole = pathlib.Path(folder) / "bare.onnx", pathlib.Path(folder) / "whole.onnx"
            arguments = ("--architecture", "fcn", "--width", 4, "--seed", 5)
            self.assertEqual(command(*arguments, "--skeleton", "--out", bare)[0], 0)
            self.assertEqual(command(*arguments, "--random", "--out", whole)[0], 0)
            bare, whole = onnx.load(str(bare)), onnx.load(str(whole))
        self.assertEqual(bare.graph.node, whole.graph.node)
        self.assertEqual([(tensor.name, list(tensor.dims), tensor.data_type) for tensor in bare.graph.initializer],
                         [(tensor.name, list(tensor.dims), tensor.data_type) for tensor in whole.graph.initializer])
        self.assertEqual(sum(len(tensor.raw_data) + len(tensor.float_data) for tensor in bare.graph.initializer
                             if np.prod(tensor.dims) > 16), 0)
        self.assertNotIn("Identity", {node.op_type for node in bare.graph.node}, "equal weights were merged")
        self.assertFalse(whole.metadata_props)


@unittest.skipIf(missing_torch, missing_torch)
class CommandLine(unittest.TestCase):
    def test_errors_are_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "net.onnx"
            other = pathlib.Path(folder) / "other.pt"
            torch.save(narrow("rn-50")[0].state_dict(), other)
            text = pathlib.Path(folder) / "text.pt"
            text.write_text("no checkpoint")
            rn18 = ("--architecture", "rn-18", "--out", out)
            cases = (
                ((), "--architecture is missing"),
                (("--architecture", "rn-19", "--random", "--out", out), "no architecture rn-19"),
                (rn18, "--checkpoint FILE or --random"),
                (("--architecture", "rn-18", "--random"), "--out is missing"),
                ((*rn18, "--random", "--features", 3), "rn-18 has no --features, only --classes, --width"),
                ((*rn18, "--random", "--opset", 10), "10 is not an opset from 11 to 20"),
                ((*rn18, "--random", "--batch", "two"), "two is not a positive whole number"),
                ((*rn18, "--random", "--bogus"), "unrecognized arguments"),
                ((*rn18, "--random", "--checkpoint", other), "not allowed with argument"),
                ((*rn18, "--skeleton", "--checkpoint", other), "--skeleton keeps no weights"),
                ((*rn18, "--checkpoint", "/nowhere/x.pt"), "No such file"),
                ((*rn18, "--checkpoint", text), "cannot be read as plain tensors"),
                ((*rn18, "--width", 4, "--checkpoint", other), "of another network: it lacks"),
                (("--architecture", "rn-18", "--random", "--out", "/nowhere/x.onnx"), "the folder /nowhere does not exist"),
                (("--architecture", "segnet", "--width", 4, "--random", "--image-size", 40, "--out", out), "does not take inputs"),
                (("--architecture", "autoencoder", "--random", "--image-size", 40, "--out", out), "has no --image-size"),
            )
            if "dynamo" not in exporters.available():
                cases += (((*rn18, "--width", 4, "--random", "--exporter", "dynamo"), "has no dynamo exporter"),)
            for arguments, message in cases:
                if message.startswith("rn-18 has") or missing_onnx is None or "--opset" in arguments:
                    code, _, err = command(*arguments)
                    self.assertGreater(code, 0, arguments)
                    self.assertTrue(err.startswith("export.py: error: ") and err.count("\n") == 1, err)
                    self.assertIn(message, err)
                    self.assertFalse(out.exists(), arguments)

    def test_list_names_every_architecture(self):
        code, out, _ = command("--list")
        self.assertEqual(code, 0)
        for name in ARCHITECTURES:
            self.assertIn(f"{name} ", out)

    def test_without_pytorch_the_script_says_so(self):
        # -S and -I hide the installed packages, whatever interpreter runs the tests.
        done = subprocess.run([sys.executable, "-I", "-S", str(HERE / "export.py"), "--list"], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stderr, "export.py: error: No module named 'torch'; see scripts/requirements.txt\n")
