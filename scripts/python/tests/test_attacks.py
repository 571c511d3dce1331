"""Python's attacks beside the command line's, functions instead of networks, and files instead of arrays."""

import fractions
import functools
import itertools
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import types

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
    if version == "corruption":  # of images that are large enough
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


BLIND = [
    ("square", "Linf", 4 / 255, {"queries": 60}),
    ("custom", "Linf", 4 / 255, {"components": [{"kind": "square", "queries": 40}]}),
    ("hop-skip-jump", "L2", None, {"queries": 150}),
    ("rays", None, 0.02, {"queries": 100}),
    ("spatial", None, None, {"queries": 12}),
    ("smoothing", None, [0.01, 0.05], {"n": 100, "n0": 20, "sigma": 0.05}),
]


@pytest.mark.parametrize("row", BLIND, ids=named)
def test_function(row, tiny, few):
    """A function of NumPy arrays is attacked as the network that it calls: the same verdicts and images."""
    version, norm, eps, parameters = row
    options = {"version": version, "norm": norm, "eps": eps, "parameters": parameters, "progress": False, "seed": 1}
    network = selfheal.attack(tiny, *few, **options)
    asked = []

    def scores(x):
        asked.append(len(x))
        return answers(tiny, x)

    found = selfheal.attack(scores, *few, **options, batch=5)
    assert max(asked) <= 12 and (version == "spatial" or len(asked) < sum(asked) / 2)  # in batches
    assert list(found.results["models"]) == ["scores"]
    assert np.array_equal(found.verdicts, network.verdicts) and np.array_equal(found.answers, network.answers)
    if version not in ("square", "custom"):  # a label is enough
        labels = selfheal.attack(lambda x: answers(tiny, x).argmax(1), *few, **options)
        assert np.array_equal(labels.verdicts, network.verdicts)
    if version == "smoothing":
        assert np.array_equal(found.radii, network.radii)
    else:
        assert np.array_equal(found.adversarial, network.adversarial)
        assert [c["forward"] for c in found.components] == [c["forward"] for c in network.components]


def test_functions_answers(tiny, few):
    """Probabilities, names of classes, and labels that y does not have."""
    options = {"version": "square", "eps": 4 / 255, "parameters": {"queries": 30}, "progress": False}
    plain = selfheal.attack(tiny, *few, **options)

    def softmax(x):
        z = np.exp(answers(tiny, x).astype(np.float64))
        return z / z.sum(axis=1, keepdims=True)

    assert list(selfheal.attack(softmax, *few, probabilities=True, **options).verdicts) == list(plain.verdicts)
    names = [f"class {k}" for k in range(10)]
    options = {"version": "rays", "eps": 0.05, "parameters": {"queries": 60}, "progress": False}
    plain = selfheal.attack(tiny, *few, **options)

    def named(x):
        return [names[k] for k in answers(tiny, x).argmax(1)]

    found = selfheal.attack(named, few[0], [names[k] for k in few[1]], classes=names, **options)
    assert list(found.verdicts) == list(plain.verdicts)
    one = few[1] == few[1][-1]  # of one class, so that others come as a surprise
    with pytest.raises(selfheal.UsageError, match=r"the function answers class 9, and 2 classes are known; pass how"):
        selfheal.attack(lambda x: 9 * (x != few[0][-1]).any((1, 2, 3)), few[0][-1:], [0], **options)
    known = selfheal.attack(lambda x: answers(tiny, x).argmax(1), few[0][one], few[1][one], classes=10, **options)
    assert list(known.verdicts) == list(plain.verdicts[one])


def test_function_continues(tiny, few, tmp_path):
    """The same function is left as it is in out=; another one is refused, and nobody else can ask it."""
    asked = []

    def scores(x, scale=1.0):
        asked.append(len(x))
        return scale * answers(tiny, x)

    options = {"version": "square", "eps": 4 / 255, "parameters": {"queries": 30}, "progress": False,
               "out": tmp_path / "out"}  # fmt: skip
    first = selfheal.attack(scores, *few, **options)
    asked.clear()
    assert selfheal.attack(scores, *few, **options).results == first.results and sum(asked) == N
    with pytest.raises(selfheal.UsageError, match="holds another run"):
        selfheal.attack(functools.partial(scores, scale=2.0), *few, **options)
    with pytest.raises(selfheal.UsageError, match="stands for a function of the program that asked for these results"):
        try:
            _program.output(["verify", str(tmp_path / "out")])
        except selfheal.SelfhealError as problem:
            raise selfheal.UsageError(str(problem)) from None


def test_what_a_function_raises(tiny, few):
    """An exception in the middle ends the program, and is the cause of the call's."""
    asked = []

    def scores(x):
        asked.append(len(x))
        if len(asked) > 5:
            raise KeyError("no more\nqueries")
        return answers(tiny, x)

    with pytest.raises(selfheal.UsageError, match=r"fails on images of .*: KeyError: 'no more.*queries'") as problem:
        selfheal.attack(scores, *few, version="square", eps=4 / 255, progress=False)
    assert isinstance(problem.value.__cause__, KeyError) and "\n" not in str(problem.value)


def test_files(few, tmp_path):
    """Images' files instead of arrays: the same as their pixels, in the order of the list, cropped as asked."""
    image = pytest.importorskip("PIL.Image")
    network, (x, y) = ZOO / "preact_robust.onnx", read(ZOO / "shapes10" / "test.bin", N)
    paths = [tmp_path / f"{k:02} {N - k},\u00e4.png" for k in range(N)]
    for path, pixels in zip(paths, x, strict=True):
        image.fromarray(pixels.transpose(1, 2, 0)).save(path)
    options = {"eps": 8 / 255, "version": "pgd", "parameters": {"steps": 3}, "progress": False}
    plain = selfheal.attack(network, x, y, **options)
    found = selfheal.attack(network, paths, y, **options)
    assert np.array_equal(found.adversarial, plain.adversarial) and list(found.verdicts) == list(plain.verdicts)
    assert list(found.to_pandas()["file"]) == list(map(str, paths))
    turned = selfheal.attack(network, np.array([str(p) for p in paths[::-1]]), y[::-1], **options)
    assert list(turned.clean["verdicts"]) == list(plain.clean["verdicts"])[::-1]
    larger = np.zeros((N, 40, 44, 3), np.uint8)
    larger[:, 4:36, 6:38] = x.transpose(0, 2, 3, 1)
    for path, pixels in zip(paths, larger, strict=True):
        image.fromarray(pixels).save(path)
    cropped = selfheal.attack(network, paths, y, crop=32, out=tmp_path / "out", **options)
    assert np.array_equal(cropped.adversarial, plain.adversarial)
    asked = selfheal.attack(lambda x: answers(network, x), paths, y, crop=32, eps=8 / 255, version="square",
                            parameters={"queries": 20}, progress=False)  # fmt: skip
    assert asked.clean["verdicts"] == plain.clean["verdicts"]
    with pytest.raises(selfheal.UsageError, match=r"x has 3 channels of 44.40 pixels, the model takes 3 of 32.32"):
        selfheal.attack(network, paths, y, **options)


def test_cells(tiny, few):
    """cell finds by any of a field's names, and says what there is."""
    found = selfheal.attack(tiny, *few, version="fgsm", eps=[1 / 255, 4 / 255], progress=False)
    assert found.cell(eps=1 / 255, norm="Linf") == found.attacked[0] == found.each[0].attacked
    assert found.cell(attack="none", control="none") == found.clean == found.each[1].clean
    assert list(found.eps) == [part.eps for part in found.each] == [1 / 255, 4 / 255]
    assert found.each[0].each[0].robust_accuracy == found.robust_accuracy[0]
    for wanted, said in (
        ({"eps": 0.5}, r"0 cells have epsilon=0.5, not one: \(attack='none' epsilon=None\), \(attack='fgsm' eps"),
        ({"attack": "fgsm"}, "2 cells have attack='fgsm', not one"),
        ({"atack": "fgsm"}, "a cell's field must be one of suite, .*, not 'atack'; did you mean 'attack'?"),
        ({}, "3 cells have any fields, not one"),
    ):
        with pytest.raises(selfheal.UsageError, match=said):
            found.cell(**wanted)
    with pytest.raises(selfheal.UsageError, match="fgsm/1 finds no distance"):
        _ = found.distances
    assert "fgsm/1, linf 1/255: " in repr(found) and "%, linf 4/255: " in repr(found)
    assert len(found.cells_to_pandas()) == 3 and len(found.to_pandas()) == 2 * N


def test_inputs_in_memory(tiny, few, monkeypatch):
    """Where memory has a folder, a call's images, network and results touch no disk; a full one is left alone."""
    call, seen = _program.call, []

    def watched(arguments, *more):
        seen.append(pathlib.Path(arguments[arguments.index("--config") + 1]).parent)
        return call(arguments, *more)

    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_program, "call", watched)
    options = {"version": "fgsm", "eps": 4 / 255, "progress": False}
    first = selfheal.attack(tiny.read_bytes(), *few, **options)
    if _folders.MEMORY.is_dir():
        assert seen[0].parent == first.folder.parent == _folders.MEMORY
    monkeypatch.setattr(_network, "size", lambda network: 2**62)
    again = selfheal.attack(tiny.read_bytes(), *few, **options)
    assert seen[1].parent == pathlib.Path(tempfile.gettempdir())
    assert list(again.verdicts) == list(first.verdicts) and not any(folder.exists() for folder in seen)


def test_readme(tiny, few, tmp_path, monkeypatch):
    """The blocks of the package's page, in its order."""
    monkeypatch.chdir(tmp_path)
    service = types.SimpleNamespace(predict=lambda x: answers(tiny, x).argmax(1))
    known = {"selfheal": selfheal, "model": tiny, "x": few[0], "y": few[1], "service": service}
    blocks = pathlib.Path(__file__).parents[1].joinpath("README.md").read_text().split("```python\n")[1:]
    assert len(blocks) == 5
    for block in blocks:
        exec(block.partition("```")[0], known)
    assert (tmp_path / "report.html").is_file() and known["x_adv"].shape == few[0].shape


CALL = """
import os, signal, sys, threading, time
import numpy as np, onnxruntime, selfheal
signal.signal(signal.SIGINT, signal.default_int_handler)
how, path = sys.argv[1:]
network = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
x = np.random.default_rng(5).random((12, 3, 8, 8), dtype=np.float32)
def scores(x):
    scores.asked += len(x)
    if scores.asked > 2000:
        print("asked", flush=True)
        if how == "fails":
            raise ValueError("enough")
        if how == "exits":
            os._exit(3)
        time.sleep(0.2)
    return network.run(None, {"x": x})[0]
scores.asked = 0
y = network.run(None, {"x": x})[0].argmax(1)
if how == "network":
    print("asked", flush=True)
result = selfheal.attack(path if how == "network" else scores, x, y, version="square" if how != "network" else "pgd",
                         eps=1e-4, parameters={"queries": 100000} if how != "network" else {"steps": 10**7})
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
@pytest.mark.parametrize("how", ["function", "network", "fails", "exits"])
def test_nothing_stays(how, tiny, tmp_path):
    """After Ctrl-C, an exception, and a process that is gone in a question: no program runs on, no folder is left, and
    what is no terminal gets no carriage return."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    child = subprocess.Popen([sys.executable, "-c", CALL, how, tiny], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, env={**os.environ, "TMPDIR": str(temporary), "ORT_DISABLE_TELEMETRY": "1"},
                             start_new_session=True)  # fmt: skip
    assert child.stdout.readline() == "asked\n"
    if how in ("function", "network"):
        time.sleep(2 if how == "network" else 0.3)
        os.killpg(child.pid, signal.SIGINT)
    said = child.communicate(timeout=60)[1]
    assert "\r" not in said and f"{'tiny' if how == 'network' else 'scores'} clean: 100.0 % of 12 right\n" in said
    if how in ("function", "network"):
        assert child.returncode == -signal.SIGINT and "Traceback" not in said
        assert said.endswith("selfheal: stopped; nothing is kept: with out= the same call would continue\n")
    elif how == "fails":
        assert re.search(r"UsageError: the function fails on images of \D+\d+, 3, 8, 8\]: ValueError: enough\n", said)
    until = time.monotonic() + 20
    while (left := running(temporary)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left
    if how == "exits":  # its folders are the next call's to remove
        script = "from selfheal import _folders\n_folders.temporary()"
        subprocess.run([sys.executable, "-c", script], env={**os.environ, "TMPDIR": str(temporary)}, check=True)
    assert not list(temporary.glob("*selfheal*"))


def running(folder):
    """The processes whose command names a folder."""
    found = subprocess.run(["pgrep", "-f", f"selfheal run .*{folder}"], capture_output=True, text=True, check=False)
    return found.stdout.split()
