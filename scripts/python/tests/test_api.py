"""attack, certify, run, check and control."""

import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import numpy as np
import onnxruntime
import pytest

import selfheal
from selfheal import _program
from selfheal._progress import Progress

from .conftest import ROOT, ZOO


def test_attack(attacked, images):
    x, y = images[0].astype(np.float32) / 255, images[1]
    assert attacked.adversarial.dtype == np.float32 and attacked.adversarial.shape == x.shape
    assert np.abs(attacked.adversarial - x).max() <= 8 / 255 * (1 + 1e-5)
    assert 0 < attacked.robust_accuracy < attacked.clean_accuracy <= 1
    assert attacked.verdicts.sum() == attacked.robust_accuracy * len(y)
    described = attacked.results["attacks"]["aa-quick"]["components"]
    assert [c["attack"] for c in attacked.components] == [c["kind"] for c in described]
    assert attacked.report().read_text().startswith("<!DOCTYPE html>")
    table = attacked.to_pandas()
    assert list(table["verdict"]) == list(attacked.verdicts) and list(table["label"]) == list(y)
    assert set(selfheal.Run(attacked.folder).to_pandas()["attack"]) == {"none", "aa-quick"}


def test_the_judge_is_right(attacked, network, images):
    """What the program says of its adversarial images is what ONNX Runtime answers."""
    session = onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"])
    answers = session.run(None, {session.get_inputs()[0].name: attacked.adversarial})[0].argmax(axis=1)
    assert list(answers == images[1]) == list(attacked.verdicts == 1)
    assert list(answers) == list(attacked.answers)


def test_command_line_agrees(attacked, network, images, tmp_path):
    """The same attack by the command, without Python in between."""
    np.savez(tmp_path / "test.npz", x=images[0], y=images[1])
    command = [pathlib.Path(sys.executable).with_name("selfheal"), "attack", network, "--data", tmp_path / "test.npz"]
    attack = ["--norm", "linf", "--epsilon", "8/255", "--attack", "aa-quick", "--out", tmp_path / "out", "--quiet"]
    subprocess.run([*command, *attack], check=True)
    cells = json.loads((tmp_path / "out" / "results.json").read_text())["cells"]
    assert cells[1]["verdicts"] == attacked.attacked["verdicts"]


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
    assert sorted(p.name for p in found.folder.iterdir() if p.is_dir()) == []  # large files do not stay


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


@pytest.mark.parametrize(
    "change, message",
    [
        ({"model": "none.onnx"}, "there is no file none.onnx"),
        ({"model": 3}, "a network is a path, bytes, an onnx.ModelProto or a torch.nn.Module, not int"),
        ({"model": b"no network"}, "model.onnx"),
        ({"norm": "Linfinity"}, "norm must be one of Linf, L2, L1, not 'Linfinity'"),
        ({"version": "standart"}, "standart"),
        ({"eps": -1}, "epsilon"),
        ({"eps": float("nan")}, "epsilon"),
        ({"x": np.zeros((2, 3, 32, 32)) - 1.0}, "x must lie in [0, 1], not from -1 to -1"),
        ({"x": np.full((2, 3, 32, 32), np.nan)}, "x must lie in [0, 1], not from nan to nan"),
        ({"x": np.zeros((2, 32, 32))}, "x must be images [N, C, H, W], not of shape [2, 32, 32]"),
        ({"x": np.zeros((2, 3, 16, 16))}, "16"),
        ({"x": np.zeros((2, 3, 32, 32), int)}, "x must be of floats in [0, 1] or of uint8"),
        ({"y": np.array([1])}, "y must be 2 whole numbers"),
        ({"y": np.array([0.5, 1])}, "y must be 2 whole numbers"),
        ({"y": np.array([1, 12])}, "13 classes"),
        ({"mean": "grey"}, "mean must be a number"),
        ({"parameters": {"stepps": 3}, "version": "pgd"}, "steps"),
    ],
)
def test_mistakes(change, message, network):
    """One line that says what is wrong, as an exception."""
    given = {"model": network, "x": np.zeros((2, 3, 32, 32)), "y": np.array([1, 2]), "eps": 8 / 255, **change}
    with pytest.raises(selfheal.SelfhealError) as problem:
        selfheal.attack(given.pop("model"), given.pop("x"), given.pop("y"), progress=False, **given)
    assert message in str(problem.value)
    assert "\n" not in str(problem.value) and "Traceback" not in str(problem.value)


def test_certify(network, images):
    found = selfheal.certify(network, *images, n=200, eps=[0.1, 0.25], progress=False)
    assert found.radii.shape == (20,) and found.radii.min() == 0 and found.radii.max() > 0.25
    assert found.certified_accuracy(0.1) == found.robust_accuracy == found.attacked["accuracy"]
    assert found.certified_accuracy(0.25) == found.cell(epsilon=0.25)["accuracy"]


CONFIG = f"""
version: 1
datasets: {{shapes: {{format: cifar10-bin, path: {ZOO / "shapes10" / "test.bin"}, limit: 12}}}}
models: {{robust: {{path: {ZOO / "preact_robust.onnx"}}}}}
controls:
  pca: {{solver: {{method: greedy}}, layers: [{{at: input, embedding: {{kind: linear, fit: shapes, rank: 5}}}}]}}
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
import sys, numpy as np, selfheal
records = np.fromfile(sys.argv[2], dtype=np.uint8).reshape(-1, 3073)
x, y = records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].astype(int)
try:
    selfheal.attack(sys.argv[1], x, y, eps=2/255, out=sys.argv[3])
except KeyboardInterrupt:
    sys.exit(77)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
def test_interrupt(network, tmp_path):
    """Ctrl-C stops the program in order, and what was done is kept."""
    arguments = [sys.executable, "-c", SLOW, network, ZOO / "shapes10" / "test.bin", tmp_path / "out"]
    child = subprocess.Popen(arguments, stderr=subprocess.DEVNULL, start_new_session=True)
    journal = tmp_path / "out" / "selfheal-journal"
    for _ in range(600):
        if child.poll() is not None or journal.is_dir():
            break
        time.sleep(0.1)
    time.sleep(1)
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to the whole group
    assert child.wait(60) == 77
    assert journal.is_dir() or (tmp_path / "out" / "results.json").exists()
    left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True, check=False).stdout
    assert left == ""


def test_progress():
    """A component's line is redrawn until it is finished; what is no record is the reason of a breakdown."""
    out = io.StringIO()
    progress = Progress(out)
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
        {"msg": "component progress", **part, "images_done": 5, "images": 10, "seconds_left": 65},
        {"msg": "component finished", **part, "images": 10, "robust": 6, "seconds": 3.2},
        {"msg": "component progress", **part, "images_done": 5, "images": 10},
    ):
        progress.line(json.dumps(record))
    progress.close()
    first, second, third, end = out.getvalue().split("\n")
    assert first == "m clean: 90.0 % of 10 right"
    assert second.startswith("m aa 0.03 apgd-ce:  50%|##########          | 5/10, 7 of 10 stand [01:05 left]\rm aa")
    assert "100%|####################| 10/10, 6 of 10 stand [00:03]" in second and end == ""
    assert third == "m aa 0.03 apgd-ce:  50%|##########          | 5/10, 7 of 10 stand"
    assert progress.error == ""
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
