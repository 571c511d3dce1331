"""Python's attacks beside the command line's, functions instead of networks, and files instead of arrays."""

import fractions
import functools
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime
import pytest

import selfheal
from selfheal import _api, _folders, _network, _program

from .conftest import ZOO, read

N, SIDE = 12, 8
SHORT = {"steps": 5}
# An attack: version, norm, eps as the command has it, and parameters.
TABLE = [
    ("standard", "Linf", "8/255", {}),
    ("plus", "L2", "0.1", {}),
    ("rand", "L1", "0.5", {}),
    ("quick", "Linf", "1/255,8/255", {}),
    ("apgd-ce", "L2", "0.1", SHORT),
    ("apgd-dlr", "Linf", "2/255", SHORT),
    ("apgd-t", "L1", "1", SHORT),
    ("fab", "L2", "0.1", SHORT),
    ("fab-t", "Linf", "2/255", SHORT),
    ("square", "Linf", "4/255", {"queries": 60}),
    ("pgd", "Linf", "1/255,2/255,4/255", {"steps": 4, "restarts": 2}),
    ("fgsm", None, "2/255", {}),
    ("deepfool", "L2", "0.1", {}),
    ("mi-fgsm", "Linf", "2/255", SHORT),
    ("bisection", "Linf", "0.2", SHORT),
    ("ddn", None, "0.2", SHORT),
    ("fmn", "L0", "2,10", SHORT),
    ("fmn", "Linf", None, {"steps": 20}),
    ("pdpgd", "L1", None, SHORT),
    ("sigma-zero", None, None, SHORT),
    ("hop-skip-jump", "L2", None, {"queries": 150}),
    ("rays", None, "0.02", {"queries": 100}),
    ("spatial", None, None, {"queries": 12}),
    ("patch", None, None, {"sides": [1, 3], "steps": 4}),
    ("corruption", None, None, {"names": ["fog", "contrast"], "severities": [1, 5]}),
    ("smoothing", None, "0.01,0.05", {"n": 100, "n0": 20, "sigma": 0.05}),
    ("bounds", "Linf", "0.0005", {"method": "crown"}),
    ("bracket", "Linf", None, {"budget": "0.2s"}),
]
VERSIONS = {"standard": "aa", "plus": "aa-plus", "rand": "aa-rand", "quick": "aa-quick"}
SIZE = 3 * SIDE * SIDE
WIDEST = {"Linf": 1, "L2": SIZE**0.5, "L1": SIZE, None: SIZE}  # of norms, for attacks without eps
TIMED = ("proven", "broken")  # of a bracket, whose work is bounded by time
COMPARED = ("image", "label", "verdict", "predicted", "margin", "norm", "distance", "radius", "bound")


@pytest.fixture(scope="module")
def few(tiny):
    """Images and labels of which the network is right on all but two."""
    x = np.random.default_rng(5).random((N, 3, SIDE, SIDE), dtype=np.float32)
    y = answers(tiny, x).argmax(1)
    y[:2] = (y[:2] + 1) % 10
    return x, y


@functools.cache
def session(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def answers(path, x):
    """The network's logits by ONNX Runtime, without the program."""
    return session(path).run(None, {session(path).get_inputs()[0].name: np.asarray(x, dtype=np.float32)})[0]


def test_table_is_whole():
    """The table has every attack of the program."""
    assert {version for version, *_ in TABLE} - set(VERSIONS) == set(_api.kinds()) - {"autoattack"}


def named(row):
    return "-".join(map(str, row[:2]))


@pytest.mark.parametrize("row", TABLE, ids=named)
def test_command_line(row, tiny, few, tmp_path):
    """The same verdicts, answers and distances by the command attack."""
    version, norm, eps, parameters = row
    if version == "corruption":  # of images of 32×32 pixels
        tiny, few = ZOO / "preact_robust.onnx", read(ZOO / "shapes10" / "test.bin", N)
    bounds = [float(fractions.Fraction(e)) for e in (eps or "").split(",") if e]
    found = selfheal.attack(tiny, *few, version=version, norm=norm, eps=bounds or None, parameters=parameters,
                            progress=False, seed=3)  # fmt: skip
    np.savez(tmp_path / "test.npz", x=few[0], y=few[1])
    command = ["attack", str(tiny), "--data", str(tmp_path / "test.npz"), "--out", str(tmp_path / "out"), "--seed", "3"]
    command += ["--attack", VERSIONS.get(version, version)]
    norms = _api.kinds().get(version, {"norms": ["linf"]}).get("norms")
    if norms:
        command += ["--norm", norm.lower() if norm else norms[0]]
        command += ["--epsilon", eps or repr(WIDEST[norm])] * (version != "bracket")
    lists = {key: value if isinstance(value, list) else [value] for key, value in parameters.items()}
    theirs = []
    for values in itertools.product(*lists.values()):
        more = [f"--param={key}={value}" for key, value in zip(lists, values, strict=True)]
        _program.output([*command, *more, *["--force"] * bool(theirs)])
        its = selfheal.Result(tmp_path / "out")
        theirs += [(part, list(part._own_records())) for part in its.each]
    assert len(found.each) == len(theirs) > 0
    for ours, (its, records) in zip(found.each, theirs, strict=True):
        for key in ("verdicts", "attack", "epsilon", "norm", "recipe"):
            assert ours.attacked.get(key) == its.attacked.get(key)
        for one, other in zip(ours._own_records(), records, strict=True):
            assert {key: one.get(key) for key in COMPARED} == {key: other.get(key) for key in COMPARED}
            assert [key in one for key in TIMED] == [key in other for key in TIMED]
    check_arrays(found, few, tiny)


def check_arrays(found, few, tiny):
    """Arrays have an axis for several cells, tables their rows; ONNX Runtime says the same of the images."""
    cells = len(found.each)
    front = (cells,) * (cells > 1)
    assert found.verdicts.shape == found.answers.shape == (*front, N) and np.shape(found.robust_accuracy) == front
    assert np.array_equal(found.verdicts.mean(axis=-1), found.robust_accuracy)
    assert list(found.to_pandas()["verdict"]) == list(np.ravel(found.verdicts))
    assert len(found.cells_to_pandas()) == 1 + cells
    if isinstance(found, selfheal.Certificates):
        assert list(found.results["attacks"]) in (["smoothing"], ["bounds"], ["bracket"])
        for part in found.each:
            if "smoothing" in found.results["attacks"]:
                assert list((part.radii >= part.eps) & (part.radii > 0)) == list(part.verdicts == 1)
            if "bracket" in found.results["attacks"]:
                assert part.eps is None and np.all(part.proven <= part.broken) and part.broken[0] == 0
        return
    assert found.adversarial.shape == (*front, N, *few[0].shape[1:])
    for part in found.each:
        right = answers(tiny, part.adversarial).argmax(1)
        assert list(right == few[1]) == list(part.verdicts == 1) and list(right) == list(part.answers)
        if "distance" in next(part._own_records()):
            assert list(part.distances > part.eps) == list(part.verdicts == 1) and part.distances[0] == 0
