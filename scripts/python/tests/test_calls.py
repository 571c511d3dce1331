"""Calls beside each other, calls that are killed, and what they leave on the disk."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import onnxruntime
import pytest

import selfheal
from selfheal import _folders, _program

CALL = """
import json, sys
import numpy as np, selfheal
network, data, out, version, steps = sys.argv[1:]
with np.load(data) as arrays:
    x, y = arrays["x"], arrays["y"]
for line in sys.stdin:
    try:
        found = selfheal.attack(network, x, y, eps=8 / 255, version=version, parameters=json.loads(steps), workers=1,
                                progress=False, out=out.replace("N", line.strip()) or None)
        answer = [found.clean["verdicts"], float(np.abs(found.adversarial - x).max())]
    except selfheal.SelfhealError as problem:
        answer = str(problem)
    print(json.dumps(answer), flush=True)
"""
REFUSALS = r"another run .*is writing to this folder; wait for it or choose another out=|holds another run: .*"


def own_images(network, key, of=5):
    """Images, labels and verdicts on them that no other key of so many has."""
    x = np.random.default_rng(key).random((16, 3, 8, 8), dtype=np.float32)
    session = onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"])
    right = np.arange(len(x)) % of != key
    y = session.run(None, {"x": x})[0].argmax(1)
    return x, np.where(right, y, (y + 1) % 10), "".join(str(int(r)) for r in right)


def python(network, data, out="", version="fgsm", steps=None, **environment):
    """A Python whose calls begin with a line each."""
    command = [sys.executable, "-c", CALL, network, data, out, version, json.dumps({"steps": steps} if steps else None)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )


def tree(folder):
    """All that is in a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def test_one_folder(tiny, tmp_path):
    """Ten processes and ten threads that all write to one folder: each has the answer about its own images, or is
    refused. SELFHEAL_TEST_ROUNDS says how often."""
    rounds, callers = int(os.environ.get("SELFHEAL_TEST_ROUNDS", "2")), range(20)
    given = [own_images(tiny, caller % 5) for caller in callers]
    for key in range(5):
        np.savez(tmp_path / f"{key}.npz", x=given[key][0], y=given[key][1])
    processes = [python(tiny, tmp_path / f"{k % 5}.npz", str(tmp_path / "outN")) for k in callers if k % 2]
    answered = refused = 0
    try:
        for number in range(rounds):
            answers, out = {}, tmp_path / f"out{number}"

            def call(caller, answers=answers, out=out):
                x, y, _ = given[caller]
                try:
                    found = selfheal.attack(tiny, x, y, eps=8 / 255, version="fgsm", workers=1, progress=False, out=out)
                    answers[caller] = [found.clean["verdicts"], float(np.abs(found.adversarial - x).max())]
                except selfheal.SelfhealError as problem:
                    answers[caller] = str(problem)

            threads = [threading.Thread(target=call, args=(caller,)) for caller in callers if caller % 2 == 0]
            for process in processes:
                print(number, file=process.stdin, flush=True)
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for caller, process in zip((k for k in callers if k % 2), processes, strict=True):
                answers[caller] = json.loads(process.stdout.readline())
            assert len(answers) == len(callers)
            for caller, answer in answers.items():
                if isinstance(answer, str):
                    assert re.search(REFUSALS, answer), answer
                    refused += 1
                else:
                    assert answer[0] == given[caller][2] and answer[1] <= 8 / 255 * (1 + 1e-5), (number, caller)
                    answered += 1
            assert any(not isinstance(answer, str) for answer in answers.values())
            with np.load(out / "selfheal-input" / "data.npz") as kept:
                winner = next(caller for caller, answer in answers.items() if not isinstance(answer, str))
                assert np.array_equal(kept["x"], given[winner][0]) and np.array_equal(kept["y"], given[winner][1])
            assert not list(out.glob(_folders.OF_CALL + "*"))
    finally:
        for process in processes:
            process.stdin.close()
            process.wait()
    print(f"{rounds} rounds of {len(callers)} calls: {answered} answered, {refused} refused, none foreign")


def test_users_files(tiny, tmp_path, monkeypatch):
    """A folder's own files stay, also those of the names that a call's inputs had; a refused call changes nothing."""
    x, y, _ = own_images(tiny, 0)
    mine = {f"input/{name}": b"mine" for name in ("data.npz", "config.json", "model.onnx")}
    (tmp_path / "input").mkdir()
    for name, text in mine.items():
        (tmp_path / name).write_bytes(text)
    monkeypatch.chdir(tmp_path)
    options = {"eps": 8 / 255, "version": "fgsm", "progress": False, "out": "."}
    done = selfheal.attack(tiny.read_bytes(), x, y, **options)
    before = tree(tmp_path)
    assert mine.items() <= before.items()
    assert {"selfheal-input/config.json", "selfheal-input/data.npz", "selfheal-input/model.onnx"} <= before.keys()
    for other, labels in ((x[:8], y[:8]), (x, (y + 1) % 10), (1 - x, y)):
        with pytest.raises(selfheal.UsageError, match="holds another run"):
            selfheal.attack(tiny.read_bytes(), other, labels, **options)
        assert tree(tmp_path) == before
    assert selfheal.attack(tiny.read_bytes(), x, y, **options).results == done.results
    assert tree(tmp_path) == before
    verified = json.loads(_program.output(["verify", ".", "--json"]))  # by the inputs that were kept
    assert [v["differ"] for v in verified] == [[]]
    monkeypatch.chdir(tmp_path.parent)
    other = tmp_path / "other" / "selfheal-input"
    other.mkdir(parents=True)
    (other / "data.npz").write_bytes(b"mine")
    before = tree(other)
    with pytest.raises(selfheal.UsageError, match=r"data.npz is there, and is no file .*; choose another out="):
        selfheal.attack(tiny, x, y, **{**options, "out": other.parent})
    assert tree(other) == before
    assert tree(other.parent) == {"selfheal-input": None, "selfheal-input/data.npz": b"mine"}
    for network, labels, said in (("none.onnx", y, "there is no file"), (tiny, y + 20, "y has")):
        with pytest.raises(selfheal.UsageError, match=said):
            selfheal.attack(network, x, labels, **{**options, "out": tmp_path / "new"})
        assert not (tmp_path / "new").exists()


def test_other_results(tiny, tmp_path, monkeypatch):
    """Results that somebody else has put there in the meantime are no answer."""
    x, y, _ = own_images(tiny, 0)
    options = {"eps": 8 / 255, "version": "fgsm", "progress": False}
    selfheal.attack(tiny, 1 - x, y, out=tmp_path / "other", **options)
    call = _program.call

    def replaced(*arguments):
        said = call(*arguments)
        (tmp_path / "out" / "results.json").write_bytes((tmp_path / "other" / "results.json").read_bytes())
        return said

    monkeypatch.setattr(_program, "call", replaced)
    with pytest.raises(selfheal.SelfhealError, match="results of other images"):
        selfheal.attack(tiny, x, y, out=tmp_path / "out", **options)


@pytest.mark.parametrize("changed, said", [("data.npz", "x and y have"), ("model.onnx", "the model has")])
def test_changed_inputs(changed, said, tiny, tmp_path, monkeypatch):
    """The program attacks what the call was given, or nothing."""
    x, y, _ = own_images(tiny, 0)
    call = _program.call

    def changing(arguments, *more):
        inputs = pathlib.Path(arguments[arguments.index("--config") + 1]).parent
        if changed == "data.npz":
            np.savez(inputs / changed, x=1 - x, y=y)
        else:
            (inputs / changed).write_bytes(tiny.read_bytes() + b"\x12\x00")  # a producer's name
        return call(arguments, *more)

    monkeypatch.setattr(_program, "call", changing)
    with pytest.raises(selfheal.UsageError, match=f"{said} changed on the disk under the call"):
        selfheal.attack(tiny.read_bytes(), x, y, eps=8 / 255, version="fgsm", progress=False, out=tmp_path / "out")
    assert not (tmp_path / "out" / "selfheal-input").exists()


def children(parent):
    """The numbers of a process's children, by Linux's files."""
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/stat") as file:
                if int(file.read().rpartition(")")[2].split()[1]) == parent:
                    yield int(number)
        except OSError:
            pass


def runs(number):
    try:
        with open(f"/proc/{number}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="processes by Linux's files")
@pytest.mark.parametrize("name", ["TERM", "HUP", "KILL"])
@pytest.mark.parametrize("out", ["", "out"])
def test_orphans(name, out, tiny, tmp_path):
    """The program ends with Python however that ends, and the next call removes what is left behind."""
    x, y, _ = own_images(tiny, 0)
    np.savez(tmp_path / "data.npz", x=x, y=y)
    temporary, out = tmp_path / "temporary", str(tmp_path / out) * bool(out)
    temporary.mkdir()
    process = python(tiny, tmp_path / "data.npz", out, "pgd", 10**7, TMPDIR=str(temporary))
    print(file=process.stdin, flush=True)
    pattern = "out/selfheal-journal" if out else "temporary/*/selfheal-journal"
    until = time.monotonic() + 60
    while not list(tmp_path.glob(pattern)) and time.monotonic() < until:  # the run is under way
        time.sleep(0.05)
    found = list(children(process.pid))
    assert found and list(tmp_path.glob(pattern))
    process.send_signal(getattr(signal, "SIG" + name))
    process.wait()
    until = time.monotonic() + 20
    while any(map(runs, found)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(runs, found))
    left = [*temporary.glob(_folders.OF_PROCESS + "*"), *tmp_path.glob("out/" + _folders.OF_CALL + "*")]
    assert len(left) == 1 + (not out)  # of inputs, and of results without a folder of their own
    process = python(tiny, tmp_path / "data.npz", out, TMPDIR=str(temporary))
    said = process.communicate("\n")[0]
    assert process.returncode == 0 and ("holds another run" in said) == bool(out), said
    assert not list(temporary.iterdir()) and not list(tmp_path.glob("out/" + _folders.OF_CALL + "*"))
    assert not out or (tmp_path / "out" / "selfheal-journal").is_dir()  # which the same call continues


def test_sweep(tmp_path):
    """A folder is removed when its process is dead: not while that lives, and nothing else of its name."""
    live = _folders.Owned(tmp_path, "p-")
    (live.path / "images").write_bytes(b"mine")
    dead = _folders.Owned(tmp_path, "p-")
    (dead.path / "images").write_bytes(b"mine")
    os.close(dead._lock)
    dead.remove.detach()  # as where its process was killed
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / _folders.LOCK).touch()
    for name in ("p-unlocked", "p-empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "p-unlocked" / "images").write_bytes(b"mine")
    (tmp_path / "p-file").write_bytes(b"mine")
    if os.name != "nt":
        (tmp_path / "p-link").symlink_to(elsewhere)
    _folders.sweep(tmp_path, "p-")
    left = {p.name for p in tmp_path.iterdir()}
    assert left - {"p-link"} == {live.path.name, "elsewhere", "p-unlocked", "p-file"}
    assert (elsewhere / _folders.LOCK).exists() and (live.path / "images").exists()
    live.remove()
    assert not live.path.exists()
    _folders.sweep(tmp_path / "absent", "p-")


def test_sweep_while_a_folder_is_made(tmp_path, monkeypatch):
    """A call that has not locked its folder yet when another one takes that for a dead process's makes a new one."""
    lock, removed = _folders.lock, []

    def swept(file):
        monkeypatch.setattr(_folders, "lock", lock)
        with monkeypatch.context() as slow:
            slow.setattr(_folders.shutil, "rmtree", lambda folder, **_: removed.append(folder))
            _folders.sweep(tmp_path, "p-")
        return lock(file)

    monkeypatch.setattr(_folders, "lock", swept)
    own = _folders.Owned(tmp_path, "p-")
    assert len(removed) == 1 and own.path != pathlib.Path(removed[0])
    _folders.sweep(tmp_path, "p-")
    assert list(tmp_path.iterdir()) == [own.path]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_forks(tiny, tmp_path):
    """A fork that ends leaves the folders of the process that it comes from."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\nfrom selfheal import _folders\nhere = _folders.temporary()\nchild = os.fork()\n"
        "if not child:\n    other = _folders.temporary()\n    assert other.path != here.path\n    sys.exit()\n"
        "assert os.waitpid(child, 0)[1] == 0\nassert here.path.is_dir(), 'the fork has removed it'\n"
        "print(len(os.listdir(os.environ['TMPDIR'])))\n"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    said = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, env=environment).stdout
    assert said == "1\n" and not list(temporary.iterdir())
