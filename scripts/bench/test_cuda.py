"""Tests of the measurements on a GPU, of the parts that need none: the plan, what is repeated, samples, tables."""

import pathlib
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent

try:
    from bench import cuda
    from bench.autoattack import Case
    from verify.verification import Failed
    missing = None
except ImportError as problem:
    missing = f"no numpy here: {problem}"

try:
    import torch

    from zoo.onnx_network import OnnxNetwork, Unsupported  # noqa: F401
    missing_torch = None
except ImportError as problem:
    missing_torch = f"no PyTorch or onnx here: {problem}"


def case(model, norm, epsilon):
    return Case("c.yaml", "main", model, "aa", epsilon, [], f"{model}.onnx", [0.5], [0.25], {"limit": 4}, norm, 0)


def device(provider):
    def run(case, where, precision):
        return {"flags": "0101", "where": (case.model, where, precision)}
    return types.SimpleNamespace(provider=provider, run=run, doctor=lambda case: {"said": [case.model]},
                                 gradient=lambda *a: {"asked": a}, reference_run=lambda case, precision: {"flags": "0111"})


def arguments(**more):
    return types.SimpleNamespace(**{"precisions": ["f32", "tf32"], "batches": [64], "rounds": 3, "skip": [],
                                    "reference": pathlib.Path("."), **more})


@unittest.skipIf(missing, missing)
class Plan(unittest.TestCase):
    def plan(self, provider="cuda", **more):
        cases = [case("net", "linf", "8/255"), case("net", "l2", "1/2")]
        return cuda.steps(device(provider), cases, arguments(**more), lambda name: f"{name}.onnx")

    def test_the_device_is_measured_in_every_precision_and_the_cpu_once(self):
        plan = self.plan()
        self.assertEqual([s.name for s in plan if s.part == "doctor"], ["net"])
        self.assertEqual([s.name for s in plan if s.part == "agreement"][:3],
                         ["net linf 8/255 cuda f32", "net linf 8/255 cuda tf32", "net linf 8/255 cpu f32"])
        self.assertEqual([s.name for s in plan if s.part == "gradient"],
                         ["rn-18 64 f32", "rn-18 64 tf32", "wrn-28-8 64 f32", "wrn-28-8 64 tf32"])
        asked = next(s for s in plan if s.name == "wrn-28-8 64 tf32").work()["asked"]
        self.assertEqual(asked, ("wrn-28-8.onnx", "wrn-28-8", 64, "tf32", 3))
        self.assertEqual(next(s for s in plan if s.name.endswith("cpu f32")).work()["where"], ("net", "cpu", "f32"))

    def test_the_cpu_alone_has_one_precision(self):
        self.assertEqual([s.name for s in self.plan("cpu") if s.part == "agreement"], ["net linf 8/255 cpu f32", "net l2 1/2 cpu f32"])

    def test_parts_are_left_out(self):
        self.assertEqual({s.part for s in self.plan(skip=["gradient", "doctor"])}, {"agreement", "reference"})
        self.assertNotIn("reference", {s.part for s in self.plan(reference=None)})

    def test_what_is_done_stays_and_what_failed_is_tried_again(self):
        calls, clock = [], iter(range(1000))
        fails = [True]

        def work(name):
            calls.append(name)
            if name == "b" and fails:
                raise Failed(f"{name} broke")
            return {"value": name}
        plan = [cuda.Step("doctor", name, lambda name=name: work(name)) for name in "abc"]
        results, written = {"steps": {}}, []
        cuda.execute(plan, results, 6, lambda: written.append(len(results["steps"]["doctor"])), lambda: next(clock))
        self.assertEqual(results["steps"]["doctor"]["b"], {"error": "b broke"})
        self.assertEqual(results["steps"]["doctor"]["c"], {"error": "the time was over"})
        self.assertEqual(written, [1, 2, 3])
        fails.clear()
        cuda.execute(plan, results, 1000, lambda: None, lambda: next(clock))
        self.assertEqual(calls, ["a", "b", "b", "c"])
        self.assertEqual([row["value"] for row in results["steps"]["doctor"].values()], ["a", "b", "c"])


@unittest.skipIf(missing, missing)
class Tables(unittest.TestCase):
    def test_the_share_is_between_the_first_and_the_last_work(self):
        self.assertEqual(cuda.share("0\n0\n80\n0\n100\n60\n0\n"), 0.6)
        self.assertIsNone(cuda.share("0\n0\n[N/A]\n"))

    def test_every_side_stands_beside_the_device(self):
        ours = {"seconds": 2.0, "process": 3.0, "busy": 0.85, "robust": 0.5, "flags": "0101"}
        text = cuda.tables({"provider": "cuda", "about": "On it.", "steps": {
            "agreement": {"net linf 8/255 cuda f32": ours, "net linf 8/255 cpu f32": {**ours, "flags": "0111"},
                          "net l2 1/2 cuda f32": {"error": "it broke"}},
            "reference": {"net linf 8/255 f32": {"seconds": 5.0, "flags": "0101"}},
            "gradient": {"rn-18 64 f32": {"seconds": 0.004, "pytorch": 0.007}},
            "doctor": {"net": {"said": []}, "other": {"error": "FAIL"}}}})
        self.assertIn("| net linf 8/255 | f32 | 2.00 s | 3.00 s | 85.0 % | 50.0 % | 75.0 % | 5.00 s | **2.5** | 100.0 % |", text)
        self.assertIn("| net l2 1/2 | f32 | it broke |", text)
        self.assertIn("| 64 | f32 | 4.0 ms | 7.0 ms | **1.75** |", text)
        self.assertIn("- net: all checks passed\n- other: FAIL", text)

    def test_pip_takes_packages_from_a_folder_alone(self):
        environment = {}
        cuda.offline(None, environment)
        self.assertEqual(environment, {})
        cuda.offline(HERE, environment)
        self.assertEqual(environment, {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(HERE), "npm_config_offline": "true"})


@unittest.skipIf(missing or missing_torch, missing or missing_torch)
class Moved(unittest.TestCase):
    def test_constants_go_where_the_network_goes(self):
        """A device without memory stands for a GPU: it refuses values that lie elsewhere."""
        from onnx import TensorProto, helper, numpy_helper
        import numpy as np
        import onnx
        import tempfile
        scale, shape = np.float32([[2, 3]]), np.int64([0, 2])
        graph = helper.make_graph(
            [helper.make_node("Mul", ["x", "scale"], ["y"]), helper.make_node("Reshape", ["y", "shape"], ["z"])], "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1, 1, 2])],
            [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["N", 2])],
            [numpy_helper.from_array(scale, "scale"), numpy_helper.from_array(shape, "shape")])
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "net.onnx"
            onnx.save(helper.make_model(graph), path)
            network = OnnxNetwork(path, [0.5], [0.25])
        self.assertEqual(network(torch.ones(1, 1, 1, 2)).tolist(), [[4, 6]])
        moved = network.to("meta")(torch.ones(3, 1, 1, 2, device="meta"))
        self.assertEqual((moved.device.type, tuple(moved.shape)), ("meta", (3, 2)))
