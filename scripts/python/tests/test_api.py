"""attack, certify, run, check and control."""

import functools
import gc
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime
import pytest

import selfheal
from selfheal import _arrays, _program
from selfheal._progress import Progress

from .conftest import ROOT, ZOO, read


def test_attack(attacked, images):
    x, y = images[0].astype(np.float32) / 255, images[1]
    assert attacked.adversarial.dtype == np.float32 and attacked.adversarial.shape == x.shape
    assert np.abs(attacked.adversarial - x).max() <= 8 / 255 * (1 + 1e-5)
    assert 0 < attacked.robust_accuracy < attacked.clean_accuracy <= 1
    assert attacked.verdicts.sum() == attacked.robust_accuracy * len(y)
    described = attacked.results["attacks"]["aa-quick"]["components"]
    assert [c["kind"] for c in described] == ["apgd-ce", "apgd-dlr", "apgd-t"]
    assert [c["attack"] for c in attacked.components] == ["apgd-ce", "apgd-margin", "apgd-logit-difference"]
    assert attacked.report().read_text().startswith("<!DOCTYPE html>")
    table = attacked.to_pandas()
    assert list(table["verdict"]) == list(attacked.verdicts) and list(table["label"]) == list(y)
    assert repr(attacked).startswith("Result(autoattack-quick/3, linf 8/255: ")
    assert set(selfheal.Run(attacked.folder).to_pandas()["attack"]) == {"none", "aa-quick"}


def test_the_judge_is_right(attacked, network, images):
    """What the program says of its adversarial images is what ONNX Runtime answers."""
    session = onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"])
    answers = session.run(None, {session.get_inputs()[0].name: attacked.adversarial})[0].argmax(axis=1)
    assert list(answers == images[1]) == list(attacked.verdicts == 1)
    assert list(answers) == list(attacked.answers)


def test_targets_and_union(network, images):
    """A target is the only class that breaks an image; a union stands where all results do."""
    x, y = images
    found = selfheal.attack(
        network, x, y, norm="L2", eps=1, version="pgd", parameters={"steps": 10, "target": "next"}, strength="full"
    )
    reached = found.answers == (y + 1) % 10
    changed = np.abs(found.adversarial - x.astype(np.float32) / 255).reshape(len(y), -1).max(axis=1) > 0
    assert reached.any() and list(changed) == list(reached & changed) and not found.verdicts[reached].any()
    same = {"steps": 10, "target": (y + 1) % 10}  # one an image
    again = selfheal.attack(network, x, y, norm="L2", eps=1, version="pgd", parameters=same, strength="full")
    assert np.array_equal(again.adversarial, found.adversarial) and list(again.verdicts) == list(found.verdicts)
    any_class = selfheal.attack(network, x, y, norm="L2", eps=1, version="pgd", parameters={"steps": 10})
    both = selfheal.union(found, any_class)
    assert list(both) == list(found.verdicts & any_class.verdicts) and both.sum() < found.verdicts.sum()
    with pytest.raises(selfheal.UsageError, match="different images"):
        selfheal.union(found, selfheal.attack(network, x[:4], y[:4], eps=0.1, version="fgsm"))
    with pytest.raises(selfheal.UsageError, match="target must be a class's number"):
        selfheal.attack(network, x, y, eps=0.1, version="fgsm", parameters={"target": "first"})
    with pytest.raises(selfheal.UsageError, match=f"target must be {len(y)} whole numbers, one an image"):
        selfheal.attack(network, x, y, eps=0.1, version="fgsm", parameters={"target": y[:2]})
    with pytest.raises(selfheal.UsageError, match="target 10 of image 0"):
        selfheal.attack(network, x, y, eps=0.1, version="fgsm", parameters={"target": y + 10})


def test_failed_gradients(network, images, attacked):
    """A network that rounds its pixels has no gradients: its accuracy is told as an upper bound."""
    onnx = pytest.importorskip("onnx")
    model = onnx.load(network)
    name = model.graph.input[0].name
    for node in model.graph.node:
        node.input[:] = ["coarse" if read == name else read for read in node.input]
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(16, np.float32), "levels"))
    for op, inputs, output in (
        ("Div", ["whole", "levels"], "coarse"),
        ("Floor", ["up"], "whole"),
        ("Mul", [name, "levels"], "up"),
    ):
        model.graph.node.insert(0, onnx.helper.make_node(op, inputs, [output]))
    found = selfheal.attack(model, *images, eps=1 / 255, version="apgd-ce", progress=False)
    assert found.planted is None or found.planted["found"] < found.planted["n"]
    assert found.gradient_failures == found.verdicts.sum() > 0 == attacked.gradient_failures
    assert f"at most {100 * found.robust_accuracy:.1f} %" in repr(found) and "gradients failed on" in repr(found)
    assert "at most" not in repr(attacked)


REAL = pathlib.Path(os.environ.get("SELFHEAL_REAL", ROOT.parent / "shared" / "real"))


@pytest.mark.parametrize(
    "network, data, eps, version",
    [
        (ZOO / "preact_robust.onnx", ZOO / "shapes10" / "test.bin", 8, "quick"),
        (ZOO / "preact_standard.onnx", ZOO / "shapes10" / "test.bin", 8, "standard"),  # all fall at once
        (REAL / "resnet_2b.onnx", REAL / "cifar10-test-1000.bin", 2, "standard"),
    ],
    ids=lambda value: getattr(value, "stem", str(value)),
)
def test_command_line_agrees(network, data, eps, version, tmp_path):
    """The same attack by the command, without Python in between: the same verdicts and passes, the same last line."""
    if not network.exists():
        pytest.skip(f"there is no {network}")
    x, y = read(data, 20)
    normal = {"mean": (0.4914, 0.4822, 0.4465), "std": (0.2471, 0.2435, 0.2616)} if network.parent == REAL else {}
    found = selfheal.attack(network, x, y, eps=eps / 255, version=version, progress=False, **normal)
    np.savez(tmp_path / "test.npz", x=x, y=y)
    command = [pathlib.Path(sys.executable).with_name("selfheal"), "attack", network, "--data", tmp_path / "test.npz"]
    command += ["--norm", "linf", "--epsilon", f"{eps}/255", "--attack", {"standard": "aa"}.get(version, "aa-quick")]
    command += [f"--{name}={','.join(map(str, values))}" for name, values in normal.items()]
    said = subprocess.run([*command, "--out", tmp_path / "out"], check=True, capture_output=True, text=True).stdout
    theirs = selfheal.Run(tmp_path / "out").cells[1]
    assert (
        theirs["verdicts"] == found.attacked["verdicts"] and theirs["verdict_only"] and found.attacked["verdict_only"]
    )
    assert [passes(step) for step in theirs["steps"]] == [passes(step) for step in found.components]
    assert found.summary == said.partition("\nreport: ")[2].partition("\n")[2].strip()
    assert found.summary.startswith("robust accuracy ") and found.summary.endswith(f" {eps}/255, 20 images")
    if network.stem == "preact_standard":
        assert found.clean_accuracy > 0 and found.robust_accuracy == 0 and len(found.components) == 1


def passes(step):
    return step["attack"], step["attacked"], step["forward"], step["backward"]


def test_strengths(attacked, full, network, images):
    """At full strength the verdicts are the same, for more passes; both leave images that the network answers wrong."""
    assert list(full.verdicts) == list(attacked.verdicts)
    assert sum(c["backward"] for c in full.components) > sum(c["backward"] for c in attacked.components)
    assert "verdict_only" not in full.attacked and attacked.attacked["verdict_only"]
    session = onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"])
    for result in (full, attacked):
        answers = session.run(None, {session.get_inputs()[0].name: result.adversarial})[0].argmax(axis=1)
        assert list(answers == images[1]) == list(result.verdicts == 1)
    fell = attacked.verdicts == 0
    assert not np.array_equal(full.adversarial[fell], attacked.adversarial[fell])


def test_tasks(tiny):
    """The numbers that a network gives are right where they lie within a tolerance of y, clean and attacked."""
    x = np.random.default_rng(3).random((12, 3, 8, 8), dtype=np.float32)
    session = onnxruntime.InferenceSession(tiny, providers=["CPUExecutionProvider"])
    y = session.run(None, {"x": x})[0]
    y[:, 2] += np.linspace(0, 0.5, 12)
    found = selfheal.attack(tiny, x, y, eps=0.01, version="pgd", task={"kind": "regression", "tolerance": 0.4})
    off = abs(session.run(None, {"x": found.adversarial})[0] - y).max(axis=1)
    assert found.clean_accuracy == 9 / 12 and list(off <= 0.4) == list(found.verdicts == 1)
    assert 0 < found.robust_accuracy < 9 / 12
    labels = session.run(None, {"x": x})[0] > 0
    tags = selfheal.attack(tiny, x, labels, eps=1e-6, version="pgd", task={"kind": "multilabel"})
    assert tags.clean_accuracy == 1
    with pytest.raises(selfheal.UsageError, match="a row of numbers for each of 12 images"):
        selfheal.attack(tiny, x, y[:3], eps=0.05, task={"kind": "regression", "tolerance": 0.4})


@pytest.mark.parametrize("form", ["bytes", "proto", "float32"])
def test_forms(form, attacked, network, images):
    """The network and the images in other forms give the same verdicts."""
    given, x = network, images[0]
    if form == "bytes":
        given = network.read_bytes()
    elif form == "proto":
        onnx = pytest.importorskip("onnx")
        given = onnx.load(network)
    else:
        x = x.astype(np.float32) / 255
    found = selfheal.attack(given, x, images[1], eps=8 / 255, version="quick", progress=False)
    assert list(found.verdicts) == list(attacked.verdicts)
    assert np.array_equal(found.adversarial, attacked.adversarial)
    folder, report = found.folder, found.report()
    del found
    gc.collect()
    assert report.is_file()  # as long as something needs it
    del report
    gc.collect()
    assert not folder.parent.exists() if folder.name == "results" else not folder.exists()


def test_parameters(network, images):
    found = selfheal.attack(
        network, *images, norm="L2", eps=0.5, version="pgd", parameters={"steps": 3}, seed=7, progress=False
    )
    assert found.results["attacks"]["pgd"]["parameters"]["steps"] == 3
    assert found.attacked["norm"] == "l2" and found.results["seed"] == 7


def test_normalisation(network, images):
    """mean and std go into the network: what undoes them gives the same logits."""
    plain = selfheal.attack(network, *images, eps=1e-3, version="fgsm", progress=False)
    same = selfheal.attack(network, *images, eps=1e-3, version="fgsm", mean=0.0, std=(1, 1, 1), progress=False)
    other = selfheal.attack(network, *images, eps=1e-3, version="fgsm", mean=(0.5, 0.5, 0.5), std=0.2, progress=False)
    assert plain.clean["verdicts"] == same.clean["verdicts"] != other.clean["verdicts"]


def test_closing_lines(monkeypatch, tmp_path, capsys):
    """The lines that close the program's output are returned, and printed where progress is."""
    program = tmp_path / "program"
    program.write_text(
        f"#!{sys.executable}\nimport json, sys\nprint('| a table |')\n"
        "print(json.dumps({'msg': 'answered', 'lines': ['the answer', 'its second line']}), file=sys.stderr)"
    )
    program.chmod(0o755)
    monkeypatch.setattr(_program, "PROGRAM", program)
    assert _program.call(["run"]) == "the answer\nits second line"
    assert capsys.readouterr().err == "the answer\nits second line\n"
    assert _program.call(["run"], progress=False) and capsys.readouterr().err == ""


class OnAGPU:
    """A tensor as far as this package looks, which must be moved before its values can be read."""

    dtype, is_meta = "torch.float32", False

    def __init__(self, values, moved=False):
        self.values, self.moved = values, moved

    def detach(self):
        return OnAGPU(self.values)

    def cpu(self):
        return OnAGPU(self.values, moved=True)

    def numpy(self):
        if not self.moved:
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        return self.values


def test_tensors_are_moved(images):
    x, y = _arrays.pair(OnAGPU(images[0].astype(np.float64) / 255), OnAGPU(images[1]))
    assert np.array_equal(x, images[0].astype(np.float32) / np.float32(255)) and np.array_equal(y, images[1])


def test_tracebacks_are_short(network, tmp_path):
    """An error that a script does not catch shows the script's line, and none of the package's but the last."""
    script = tmp_path / "script.py"
    script.write_text(f"import selfheal\nselfheal.attack({str(network)!r}, [[1]], [1], eps=1)\n")
    said = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False).stderr
    assert said.count('File "') == 2 and f'File "{script}", line 2' in said
    assert said.endswith("UsageError: x must be images [N, C, H, W], not of shape [1, 1]\n")


def test_without_pandas(attacked, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    for table in (attacked, selfheal.Run(attacked.folder)):
        with pytest.raises(selfheal.UsageError, match="needs pandas, which is not installed: pip install pandas"):
            table.to_pandas()


@pytest.mark.parametrize("centred", [False, True])
def test_auto(centred, network, tmp_path, capsys):
    """mean='auto' takes the preprocessing that the images tell, as the verb init does; for [-1, 1] it names the others
    that are as good."""
    images = read(ZOO / "shapes10" / "test.bin", 256)
    onnx = pytest.importorskip("onnx")
    model = onnx.load(network)
    if centred:  # in front: image = input / 2 + 1 / 2
        name = model.graph.input[0].name
        for node in model.graph.node:
            node.input[:] = ["image" if given == name else given for given in node.input]
        model.graph.initializer.append(onnx.helper.make_tensor("half", onnx.TensorProto.FLOAT, [], [0.5]))
        model.graph.node.insert(0, onnx.helper.make_node("Add", ["halved", "half"], ["image"]))
        model.graph.node.insert(0, onnx.helper.make_node("Mul", [name, "half"], ["halved"]))
        with pytest.raises(
            selfheal.UsageError, match=r"right on 200 of 256: mean=\[0.5\], std=\[0.5\]\); not told apart"
        ):
            selfheal.attack(model, *images, eps=1 / 255, version="fgsm", mean="auto", out=tmp_path / "out")
        return
    found = selfheal.attack(model, *images, eps=1 / 255, version="fgsm", mean="auto", out=tmp_path / "out")
    plain = selfheal.attack(network, *images, eps=1 / 255, version="fgsm", progress=False)
    (described,) = found.results["models"].values()
    assert "preprocess" not in described
    assert "mean='auto': images as they are, in [0, 1]\n" in capsys.readouterr().err
    assert found.clean["verdicts"] == plain.clean["verdicts"]


def test_probabilities_and_classes(network, images, tmp_path):
    """A network that ends in a softmax, and labels by name."""
    onnx = pytest.importorskip("onnx")
    model = onnx.load(network)
    output = model.graph.output[0].name
    for node in model.graph.node:
        node.output[:] = ["scores" if made == output else made for made in node.output]
    model.graph.node.append(onnx.helper.make_node("Softmax", ["scores"], [output], axis=-1))
    names = [f"shape {k}" for k in range(10)]
    x, y = images[0], [names[label] for label in images[1]]
    options = {"eps": 8 / 255, "version": "fgsm", "progress": False}
    found = selfheal.attack(model, x, y, probabilities=True, classes=names, **options)
    plain = selfheal.attack(network, *images, **options)
    assert list(found.verdicts) == list(plain.verdicts) and "shape 3" in found.report().read_text()


MISTAKES = [line.split(" → ") for line in pathlib.Path(__file__).with_name("mistakes.txt").read_text().splitlines()]


@pytest.mark.parametrize("call, message", MISTAKES)
def test_mistakes(call, message, network, images, tmp_path, monkeypatch):
    """One line in the caller's words that says what is wrong, as an exception."""
    monkeypatch.chdir(tmp_path)
    x, y = images[0][:2].astype(np.float32) / 255, images[1][:2]
    attack = functools.partial(selfheal.attack, progress=False, **({} if "eps=" in call else {"eps": 8 / 255}))
    names = {**vars(selfheal), "attack": attack, "network": str(network), "x": x, "y": y, "np": np}
    with pytest.raises(selfheal.SelfhealError) as problem:
        eval(call, names)
    said = str(problem.value)
    assert re.fullmatch(re.escape(message).replace("…", ".*"), said), said
    assert "\n" not in said and "Traceback" not in said and tempfile.gettempdir() not in said


def test_certify(network, images):
    found = selfheal.certify(network, *images, n=200, eps=[0.1, 0.25], progress=False)
    assert found.radii.shape == (20,) and found.radii.min() == 0 and found.radii.max() > 0.25
    assert [found.certified_accuracy(e) for e in found.eps] == list(found.robust_accuracy)
    assert found.certified_accuracy(0.1) == found.attacked[0]["accuracy"] == found.cell(eps=0.1)["accuracy"]
    assert found.certified_accuracy(0.25) == found.cell(epsilon=0.25, norm="L2")["accuracy"]


CONFIG = f"""
version: 1
datasets:
  shapes: {{format: cifar10-bin, path: {ZOO / "shapes10" / "test.bin"}, limit: 12}}
  train: {{format: cifar10-bin, path: {ZOO / "shapes10" / "train.bin"}, limit: 12}}
models: {{robust: {{path: {ZOO / "preact_robust.onnx"}}}}}
controls:
  pca: {{solver: {{method: greedy}}, layers: [{{at: input, embedding: {{kind: linear, fit: train, rank: 5}}}}]}}
attacks: {{pgd: {{kind: pgd, norm: linf, epsilon: 4/255, steps: 3}}}}
suites: {{mine: {{dataset: shapes, models: [robust], controls: [pca], attacks: [pgd], mode: oblivious}}}}
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    return path


def test_run_check_and_control(config, tmp_path):
    run = selfheal.run(config, out=tmp_path / "out", progress=False)
    assert len(run.cells) == 4 and run.cell(defense="pca", attack="pgd")["n"] == 12
    baseline = tmp_path / "baseline.json"
    assert selfheal.check(baseline, run, update=True) is None
    same = selfheal.check(baseline, run)
    assert same and same.outcome == "pass" and len(same.cells) == 4
    again = selfheal.check(baseline, run, models={"robust": ZOO / "preact_robust.onnx"}, out=tmp_path / "again")
    assert again.outcome == "pass" and all(c["change"]["lost"] == c["change"]["won"] == 0 for c in again.cells)
    assert selfheal.Run(tmp_path / "again").cell(defense="pca", attack="pgd")["n"] == 12
    worse = selfheal.run(
        config, out=tmp_path / "worse", sets={"attacks.pgd.epsilon": "4/255", "seed": 9}, progress=False
    )
    assert selfheal.check(baseline, worse).outcome in ("pass", "inconclusive")
    with pytest.raises(selfheal.UsageError, match="steps"):
        other = selfheal.run(config, out=tmp_path / "other", sets={"attacks.pgd.steps": 4}, progress=False)
        selfheal.check(baseline, other)
    healed = selfheal.control(config, model="robust", control="pca")
    x = np.fromfile(ZOO / "shapes10" / "test.bin", dtype=np.uint8).reshape(-1, 3073)[:12, 1:].reshape(-1, 3, 32, 32)
    logits = healed(x / 255)
    cell = run.cell(defense="pca", attack="none")
    assert logits.shape == (12, 10)
    labels = [r["label"] for r in run.records() if r["attack"] == "none" and r["defense"] == "pca"]
    assert [str(int(a == b)) for a, b in zip(logits.argmax(axis=1), labels, strict=True)] == list(cell["verdicts"])


def test_config_mistakes(config, tmp_path):
    with pytest.raises(selfheal.UsageError, match="suites"):
        selfheal.run(config, out=tmp_path / "out", suites=["yours"], progress=False)
    with pytest.raises(selfheal.UsageError, match=re.escape("none.yaml")):
        selfheal.run("none.yaml", out=tmp_path / "out", progress=False)
    with pytest.raises(selfheal.UsageError, match="No such file"):
        selfheal.Run(tmp_path)


SLOW = """
import signal, sys, numpy as np, selfheal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background has it ignored
records = np.fromfile(sys.argv[2], dtype=np.uint8).reshape(-1, 3073)
x, y = records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].astype(int)
selfheal.attack(sys.argv[1], x, y, eps=2/255, out=sys.argv[3])
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
def test_interrupt(network, tmp_path):
    """Ctrl-C stops the program in order: what was done is kept, and one line says how to continue, not a traceback."""
    arguments = [sys.executable, "-c", SLOW, network, ZOO / "shapes10" / "test.bin", tmp_path / "out"]
    child = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, start_new_session=True)
    journal = tmp_path / "out" / "selfheal-journal"
    for _ in range(600):
        if child.poll() is not None or journal.is_dir():
            break
        time.sleep(0.1)
    time.sleep(1)
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to the whole group
    said = child.communicate(timeout=60)[1]
    assert child.returncode == -signal.SIGINT
    assert (
        f"\n{said}".endswith("\nselfheal: stopped; what was finished is kept, and the same call continues\n")
        and "Traceback" not in said
    )
    assert journal.is_dir() or (tmp_path / "out" / "results.json").exists()
    left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True, check=False).stdout
    assert left == ""


def test_progress():
    """A component's line is redrawn until it is finished; what is no record is the reason of a breakdown."""
    out, file = io.StringIO(), io.StringIO()
    out.isatty = lambda: True
    progress, plain = Progress(out), Progress(file)
    part = {
        "model": "m",
        "defense": "none",
        "attack": "aa",
        "epsilon": 0.03,
        "component": "apgd-ce",
        "n": 10,
        "robust": 7,
    }
    for record in (
        {"msg": "cell finished", "model": "m", "attack": "none", "accuracy": 0.9, "n": 10},
        {"msg": "component progress", **part, "images_done": 0, "images": 10, "share": 0.25},
        {"msg": "component progress", **part, "images_done": 5, "images": 10, "share": 0.5, "seconds_left": 65},
        {"msg": "component finished", **part, "images": 10, "robust": 6, "seconds": 3.2},
        {"msg": "component progress", **part, "images_done": 5, "images": 10, "share": 0.5},
    ):
        progress.line(json.dumps(record))
        plain.line(json.dumps(record))
    plain.close("the answer")
    assert file.getvalue() == (  # no terminal: what is finished, or comes after a while, and no carriage return
        "m clean: 90.0 % of 10 right\nm aa 0.03 apgd-ce: 100%|####################| 10/10, 6 of 10 stand [00:03]\n"
        "the answer\n"
    )
    progress.close("the answer")
    first, second, third, closing, end = out.getvalue().split("\n")
    assert first == "m clean: 90.0 % of 10 right"
    moved, later, _ = second.split("\r")
    assert moved == "m aa 0.03 apgd-ce:  25%|#####               | 0/10, 7 of 10 stand"
    assert later == "m aa 0.03 apgd-ce:  50%|##########          | 5/10, 7 of 10 stand [at most 01:05 left]"
    assert "100%|####################| 10/10, 6 of 10 stand [00:03]" in second and end == ""
    assert third == "m aa 0.03 apgd-ce:  50%|##########          | 5/10, 7 of 10 stand"
    assert closing == "the answer" and progress.error == ""
    progress.line("panic: at the disco")
    assert progress.error == "panic: at the disco"


def test_progress_in_a_run(network, images, capsys):
    selfheal.attack(network, *images, eps=1e-3, version="fgsm")
    assert "preact_robust fgsm" in capsys.readouterr().err
    selfheal.attack(network, *images, eps=1e-3, version="fgsm", progress=False)
    assert capsys.readouterr().err == ""
    records = []
    selfheal.attack(network, *images, eps=1e-3, version="fgsm", progress=records.append)
    assert records[0]["msg"] == "run started"


def test_library():
    """The program takes the library of the onnxruntime package."""
    found = json.loads(_program.output(["version", "--json"]))
    assert found["onnxruntime"]["version"] == onnxruntime.__version__
    assert found["selfheal"] == selfheal.__version__
    assert pathlib.Path(found["onnxruntime"]["library"]).parent.parent == pathlib.Path(onnxruntime.__file__).parent


def test_no_program(monkeypatch, network, images):
    monkeypatch.setattr(_program, "PROGRAM", ROOT / "none")
    with pytest.raises(selfheal.SelfhealError, match="install the wheel"):
        selfheal.attack(network, *images, eps=0.1, progress=False)
