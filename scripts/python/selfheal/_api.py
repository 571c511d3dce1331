"""attack, certify, run, check and control."""

from __future__ import annotations

import contextlib
import dataclasses
import fractions
import functools
import hashlib
import json
import math
import os
import pathlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from . import _arrays, _folders, _function, _network, _program, _words
from ._errors import SelfhealError, UsageError, brief
from ._results import Certificates, OneAttack, Result, Run

if TYPE_CHECKING:
    from ._arrays import Classes
    from ._network import Network

VERSIONS = ("standard", "plus", "rand", "quick")  # of AutoAttack, beside custom
STRENGTHS = ("verdict", "full")
AUTO = "auto"
WITH_LABELS = ("classification", "zero-shot")  # tasks whose y are labels
TASK_FILES = ("head", "texts")  # keys of a task that name files
KEPT = "what was finished is kept, and the same call continues"  # after Ctrl-C
LOST = "nothing is kept: with out= the same call would continue"
REDRAWN = "1s"  # how often progress moves
DATA = "data"  # the images' name in the configs that are written here
CHECK_CODES = (0, 1, 2)  # pass, fail, inconclusive
Progress = bool | Callable[[dict[str, Any]], None]
Normal = float | Sequence[float] | str | None
R = TypeVar("R", bound=Run)
A = TypeVar("A", bound=OneAttack)


@brief
def attack(
    model: Network,
    x: Any,
    y: Any,
    *,
    norm: str | None = None,
    eps: float | Sequence[float] | None = None,
    version: str = "standard",
    mean: Normal = None,
    std: Normal = None,
    seed: int = 0,
    batch: int = 64,
    strength: str = "verdict",
    probabilities: bool = False,
    classes: Classes = None,
    parameters: Mapping[str, Any] | None = None,
    task: Mapping[str, Any] | None = None,
    resize: int | None = None,
    crop: int | None = None,
    workers: int = 0,
    out: str | os.PathLike[str] | None = None,
    progress: Progress = True,
) -> Any:
    """Attack a network and say which images stand: a Result, or Certificates of a certificate.

    model is an ONNX file's path or bytes, an onnx.ModelProto, or a torch.nn.Module, which is exported in evaluation
    mode and checked against its own logits. It may also be a function of images, NumPy arrays or, where x is a tensor,
    tensors, that returns labels [N] or scores [N, classes]: it is attacked by its answers alone. x are images
    [N, C, H, W] in [0, 1] (or uint8), y their labels [N], as NumPy arrays or tensors; or x lists images' files, which
    resize and crop bring to one size as torchvision's Resize and CenterCrop do.

    version is one of AutoAttack ("standard", "plus", "rand", "quick", or "custom" with parameters={"components":
    ["apgd-ce", …]}) or another attack's or certificate's name, as the command's --attack has it ("pgd", "fmn",
    "spatial", "patch", "corruption", "smoothing", "bounds", …); parameters are its own: {"steps": 40}, and the
    class that alone breaks an image, {"target": 3}, "next" after the label, or one an image. A perturbation
    has at most the norm ("Linf", the default, "L2", "L1", "L0") eps in [0, 1] pixels; eps may be several. An attack
    that looks for the smallest perturbation needs no eps, and spatial, patch and corruption take neither.

    With strength "verdict" an attack ends at an image's first success, as the command does; "full" makes the strongest
    images that it can, for many times the passes and the same verdicts.

    mean and std normalise inside the network, one value or one a channel, where it does not do so itself; mean="auto"
    tries the usual ones on the images, as the verb init does, and is an error where they do not tell. probabilities
    says that the network ends in a softmax.
    classes are the names of its classes in order, which y may then hold instead of numbers, or how many there are.
    task is the network's, if it is not to tell classes, as a config has it: {"kind": "regression", "tolerance": 0.1};
    y then has a row of numbers for each image, with which its answers are compared.
    Verdicts depend on the images, the network, the attack and the seed alone; batch is the number of images in a pass
    and workers that of cores to use (0: all). Progress goes to stderr, or to a function that takes the records of
    docs/progress.md.

    Results go to the folder out, where the same call continues a run that was stopped; without it they go with the
    result. Raises UsageError, SelfhealError, and KeyboardInterrupt after an orderly stop.
    """
    config = attack_of(
        norm=norm,
        eps=eps,
        version=version,
        mean=mean,
        std=std,
        seed=seed,
        strength=strength,
        probabilities=probabilities,
        parameters=parameters,
    )
    if task is not None:
        if isinstance(mean, str):
            raise UsageError("mean='auto' tries which classes are right, and the task is another: give mean= and std=")
        config["model"]["task"] = {key: setting(value, key in TASK_FILES) for key, value in task.items()}
    kind: type[OneAttack] = Certificates if kinds().get(version, {}).get("proves") else Result
    return one(model, x, y, config, batch, workers, out, progress, kind, classes=classes, resize=resize, crop=crop)


def attack_of(
    *,
    norm: str | None = None,
    eps: float | Sequence[float] | None = None,
    version: str = "standard",
    mean: Normal = None,
    std: Normal = None,
    seed: int = 0,
    strength: str = "verdict",
    probabilities: bool = False,
    parameters: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What a config says of an attack and of how the network is taken; arguments as in attack.

    An epsilon of None stands for one that no image exceeds.
    """
    if strength not in STRENGTHS:
        raise UsageError(_words.one_of("strength", strength, STRENGTHS))
    known = kinds()
    of_autoattack = known["autoattack"]["versions"]
    version = "standard" if version in ("aa", "autoattack") else str(version).removeprefix("aa-")
    if version not in of_autoattack and version not in known:
        raise UsageError(_words.one_of("version", version, [*of_autoattack, *(k for k in known if k != "autoattack")]))
    traits = known["autoattack" if version in of_autoattack else version]
    setup: dict[str, Any] = {"kind": traits["kind"]}
    name = version
    if version in of_autoattack:
        setup["version"] = version
        name = {"standard": "aa"}.get(version, f"aa-{version}")  # as --attack has it
    for key in ("kind", "version", "norm", "epsilon", "eps"):
        if key in (parameters or {}):
            raise UsageError(f"parameters: {key} is an argument of its own, {'eps' if key == 'epsilon' else key}=")
    if "norms" in traits:
        setup["norm"] = named_norm(version, norm, traits["norms"])
        if eps is not None or traits.get("minimises"):
            setup["epsilon"] = None if eps is None else radii(eps)
        elif traits["kind"] != "bracket":
            raise UsageError(f"{version} needs eps, such as eps=8 / 255")
    elif norm is not None or eps is not None:
        raise UsageError(f"{version} has no norm and no eps: leave {'norm' if norm is not None else 'eps'}= out")
    config: dict[str, Any] = {
        "seed": seed,
        "model": network_of(mean, std, probabilities),
        "attacks": {name: {**setup, **(parameters or {})}},
    }
    if not traits.get("proves"):
        config.update(save_adversarial=True, verdict_only=strength == "verdict")
    return config


def setting(value: Any, is_file: bool) -> Any:
    """A task's value as a config has it."""
    if is_file:
        return os.path.abspath(value)
    return value.tolist() if hasattr(value, "tolist") else value


@functools.cache
def kinds() -> dict[str, dict[str, Any]]:
    """The program's attacks and certificates, by name, with what they take and need."""
    return {traits["kind"]: traits for traits in json.loads(_program.output(["version", "--json"]))["attacks"]}


def radii(eps: Any) -> float | list[float]:
    """The bounds of a perturbation as numbers, one or several."""
    if isinstance(eps, (str, bytes)) or not hasattr(eps, "__len__") or getattr(eps, "ndim", 1) == 0:
        return radius(eps)
    if not len(eps):
        raise UsageError("eps is an empty list")
    return [radius(e) for e in eps]


def radius(eps: Any) -> float:
    """The bound of a perturbation as a number."""
    try:
        value = math.nan if isinstance(eps, (str, bool)) else float(eps)
    except (TypeError, ValueError):
        value = math.nan
    if not 0 < value < math.inf:
        raise UsageError(f"eps must be a number above 0, such as 8 / 255, not {eps!r}")
    return value


def network_of(mean: Normal, std: Normal, probabilities: bool) -> dict[str, Any]:
    """What a config says of a network beside its path; its preprocess is "auto" where it is to be found out."""
    settings: dict[str, Any] = {"output": "probabilities"} if probabilities else {}
    if isinstance(mean, str) and mean == AUTO:
        if std is not None:
            raise UsageError("mean='auto' finds std too: leave std out")
        return {**settings, "preprocess": AUTO}
    return {**settings, "preprocess": normalisation(mean, std)}


@brief
def certify(
    model: Network,
    x: Any,
    y: Any,
    *,
    sigma: float = 0.25,
    eps: float | Sequence[float] = (0.25, 0.5),
    n: int = 10_000,
    n0: int = 100,
    alpha: float = 0.001,
    stopping: bool = False,
    mean: Normal = None,
    std: Normal = None,
    seed: int = 0,
    batch: int = 64,
    probabilities: bool = False,
    classes: Classes = None,
    workers: int = 0,
    out: str | os.PathLike[str] | None = None,
    progress: Progress = True,
) -> Certificates:
    """Certify a network in l2 by randomised smoothing (Cohen, Rosenfeld and Kolter 2019): attack's version "smoothing".

    Gaussian noise of deviation sigma, n0 samples to choose an image's class and n to bound its probability, each
    certificate wrong with a probability of at most alpha. eps are the radii whose certified accuracies are reported;
    with stopping an image's samples end where these are decided. The rest is as in attack.
    """
    config = attack_of(
        version="smoothing",
        eps=eps,
        mean=mean,
        std=std,
        seed=seed,
        probabilities=probabilities,
        parameters={"sigma": sigma, "n": n, "n0": n0, "alpha": alpha, "stopping": stopping},
    )
    return one(model, x, y, config, batch, workers, out, progress, Certificates, classes=classes)


def one(
    model: Network,
    x: Any,
    y: Any,
    config: dict[str, Any],
    batch: int,
    workers: int,
    out: str | os.PathLike[str] | None,
    progress: Progress,
    kind: Callable[[pathlib.Path], A],
    name: str | None = None,
    classes: Classes = None,
    resize: int | None = None,
    crop: int | None = None,
) -> A:
    """Run a config of one network, data set and attack: its model's settings and attack, to which the rest is added.

    name is the network's in the results, by default its file's or class's.
    """
    model = _network.module_of(model)
    paths: dict[str, str] = {}  # as the caller does not know them
    try:
        with _folders.of_call(out, _arrays.size(x) + _network.size(model)) as (inputs, folder, owner):
            paths[f"{inputs}{os.sep}"] = ""
            attack = next(iter(config["attacks"].values()))
            targets = None
            if isinstance(target := attack.get("target", 0), np.integer):
                attack["target"] = int(target)
            elif not isinstance(target, (int, str)):
                targets, attack["target"] = target, "file"
            task = config.get("model", {}).get("task", {})
            given = _arrays.array(y, "y") if task else np.zeros(0)
            truth = bool(task) and task.get("kind") not in WITH_LABELS
            truth = truth and ("head" not in task or given.dtype.kind == "f" or given.ndim > 1)
            data, images = _arrays.write(inputs, x, y, classes, resize, crop, targets, truth)
            files = None if images is not None else _arrays.files(x)
            settings = dict(config.pop("model", {}))
            if images is None and (_network.is_module(model) or attack.get("epsilon", 0) is None):
                images = _arrays.example(files or [], resize, crop)
            if attack.get("epsilon", 0) is None:
                attack["epsilon"] = widest(attack["norm"], images)
            path, function = written(model, images, x, inputs, attack, settings, classes)
            name = name or _network.name(model)
            settings["path"] = os.path.relpath(path, inputs)
            if isinstance(model, (str, os.PathLike)):
                paths[settings["path"]] = os.fspath(model)
            elif function is None:
                settings["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
            if settings.get("preprocess") == AUTO:
                settings["preprocess"] = chosen(path, inputs / data["path"], inputs, settings, progress)
            suite = {"dataset": DATA, "models": [name], "attacks": list(config["attacks"])}
            suite["verdict_only"] = config.pop("verdict_only", False)
            config = {
                "version": 1,
                **config,
                "datasets": {DATA: data},
                "models": {name: settings},
                "suites": {"attack": suite},
            }
            config_file = inputs / "config.json"
            config_file.write_text(json.dumps(config, indent=1), encoding="utf-8")
            found = carry_out(
                ["--config", str(config_file), "--batch", str(batch), "--workers", str(workers)]
                + ["--keep-inputs"] * (out is not None),
                folder,
                progress,
                kind,
                function,
            )
            if data.get("sha256") not in (None, found.results["datasets"][DATA]["sha256"]):
                raise SelfhealError(f"{folder} has the results of other images: another call has replaced this one's")
            found.files, found.owner = files, None if out is not None else owner
            return found
    except KeyboardInterrupt:
        raise _program.interrupted(KEPT if out is not None else LOST) from None
    except OSError as problem:
        if out is None:
            raise
        raise UsageError(f"out={os.fspath(out)}: {problem.strerror or problem}") from None
    except SelfhealError as problem:
        raise _words.of_the_call(problem, paths) from problem.__cause__


def written(
    model: Any,
    images: Any,
    x: Any,
    inputs: pathlib.Path,
    attack: dict[str, Any],
    settings: dict[str, Any],
    classes: Classes,
) -> tuple[pathlib.Path, _function.Function | None]:
    """A network's file and, where that only stands for a function, the function.

    A module that cannot be exported is a function to attacks that need no more.
    """
    call, like = model, x
    try:
        path = _network.write(model, images, inputs)
        if path.name != _network.FUNCTION:
            return path, None
    except _network.ExportError:
        if not kinds()[attack["kind"]].get("blind"):
            raise
        import torch

        call, like = _function.of_module(model), torch.empty(0)
        path = _network.write(call, images, inputs)
    if settings.get("preprocess"):
        raise UsageError("mean and std are for networks: a function takes images in [0, 1] and normalises them itself")
    settings.pop("preprocess", None)
    probabilities = settings.pop("output", None) == "probabilities"
    return path, _function.Function(call, like, probabilities, classes)


def widest(norm: str, images: Any) -> float:
    """The norm that no difference of two images exceeds."""
    size = images[0].size
    return {"linf": 1.0, "l2": math.sqrt(size)}.get(norm, float(size))


def chosen(
    path: pathlib.Path, data: pathlib.Path, inputs: pathlib.Path, settings: dict[str, Any], progress: Progress
) -> dict[str, Any]:
    """The preprocessing that the verb init finds for a network and its images."""
    written = inputs / "init.yaml"
    arguments = ["init", str(path), "--data", str(data), "--out", str(written), "--force"]
    arguments += ["--probabilities"] * (settings.get("output") == "probabilities")
    _program.output(arguments)
    text = written.read_text(encoding="utf-8")
    written.unlink()
    found = re.search(r"^ *\{path: .*\bpreprocess: \{(.*?)\}", text, re.MULTILINE)
    if found is None:
        raise SelfhealError("mean='auto': init has written no preprocessing: pass mean= and std=")
    if progress is True:
        print(f"mean='auto': {found[1] or 'images as they are, in [0, 1]'}", file=sys.stderr)
    values = {}
    for key, value in re.findall(r"(\w+): (\[.*?\]|[^,]+)", found[1]):
        numbers = [float(fractions.Fraction(v.strip())) for v in value.strip("[]").split(",")]
        values[key] = numbers if len(numbers) > 1 else numbers[0]
    return values


def named_norm(version: str, norm: str | None, known: Sequence[str]) -> str:
    """The program's name of a norm, by default the first of those that an attack exists in."""
    if norm is None:
        return known[0]
    own = [ours for ours, its in _words.NORMS.items() if its in known]
    name = _words.NORMS.get(norm, norm)
    if name not in _words.NORMS.values():
        raise UsageError(_words.one_of("norm", norm, own))
    if name not in known:
        raise UsageError(f"{version} exists only in {', '.join(own)}, not in {norm}")
    return name


def normalisation(mean: Normal, std: Normal) -> dict[str, Any]:
    return {name: values_of(name, v) for name, v in (("mean", mean), ("std", std)) if v is not None}


def values_of(name: str, given: Any) -> float | list[float]:
    """mean or std as the config has them, of a number, a sequence, an array or a tensor [C] or [1, C, 1, 1]."""
    values = _arrays.array(given, name)
    if not np.issubdtype(values.dtype, np.number):
        raise UsageError(f"{name} must be a number or one a channel" + ", or 'auto'" * (name == "mean"))
    numbers = [float(v) for v in values.ravel()]
    return numbers[0] if len(numbers) == 1 else numbers


@brief
def run(
    config: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] = "results",
    suites: Sequence[str] = (),
    limit: int | None = None,
    batch: int | None = None,
    workers: int | None = None,
    sets: Mapping[str, Any] | None = None,
    progress: Progress = True,
) -> Run:
    """Run a config as the program's verb run does, to its end: the same call continues, and leaves what is finished.

    suites are the suites to run (default: the config's), limit scores so many images only, sets changes the config:
    {"attacks.NAME.steps": 40}. Raises SelfhealError also where some cells have no verdicts.
    """
    arguments = ["--config", os.fspath(config)]
    for flag, value in (("limit", limit), ("batch", batch), ("workers", workers)):
        if value is not None:
            arguments += [f"--{flag}", str(value)]
    for suite in suites:
        arguments += ["--suite", suite]
    for key, value in (sets or {}).items():
        arguments += ["--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
    return carry_out(arguments, out, progress, Run)


def carry_out(
    arguments: Sequence[str],
    out: str | os.PathLike[str],
    progress: Progress,
    kind: Callable[[pathlib.Path], R],
    function: _function.Function | None = None,
) -> R:
    """The verb run with further arguments, and what it has left in its folder."""
    command = ["run", "--out", os.fspath(out), "--log-every", REDRAWN, *arguments]
    summary = _program.call(command, progress, KEPT, function)
    found = kind(pathlib.Path(out))
    found.summary = summary
    return found


@dataclasses.dataclass(frozen=True)
class Check:
    """What check has found: outcome is "pass", "fail" or "inconclusive"; it is true where it is "pass"."""

    outcome: str
    summary: str
    cells: list[dict[str, Any]]
    notes: list[str]

    def __bool__(self) -> bool:
        return self.outcome == "pass"


@brief
def check(
    baseline: str | os.PathLike[str],
    results: Run | str | os.PathLike[str],
    *,
    update: bool = False,
    new_model: bool = False,
    models: Mapping[str, str | os.PathLike[str]] | None = None,
    out: str | os.PathLike[str] | None = None,
    sets: Mapping[str, Any] | None = None,
) -> Check | None:
    """Compare a run with a baseline, as the program's verb check does: docs/gate.md.

    With update the baseline is written from the run, and None is returned. new_model lets the networks be other files
    than the baseline's. models names other files of the run's networks, {"mine": "new.onnx"}: these are attacked first,
    on the run's images and with its attacks, into the folder out (by default one beside the run's), and compared. sets
    changes a rule: {"gate.max_drop": 0.01}. Raises UsageError where the two cannot be compared.
    """
    arguments = ["check", "--baseline", os.fspath(baseline)]
    arguments += ["--new-model"] * new_model
    for name, file in (models or {}).items():
        arguments += ["--model", f"{name}={os.fspath(file)}"]
    if out is not None:
        arguments += ["--out", os.fspath(out)]
    for key, value in (sets or {}).items():
        arguments += ["--set", f"{key}={json.dumps(value)}"]
    arguments.append(os.fspath(results.folder if isinstance(results, Run) else results))
    try:
        if update:
            _program.output([*arguments, "--update"])
            return None
        found = json.loads(_program.output([*arguments, "--json"], accepted=CHECK_CODES))
    except SelfhealError as problem:
        raise UsageError(str(problem), problem.exit_code) from None
    return Check(found["outcome"], found["summary"], found["cells"], found["notes"])


class Healed:
    """A controlled network, to be called with images [N, C, H, W] in [0, 1].

    It returns logits [N, classes], as a NumPy array or, of a tensor, as a tensor. session is its ONNX Runtime session.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._call = _network.Session(path)
        self.session = self._call.session

    def __call__(self, images: Any) -> Any:
        return _arrays.like(self._call(np.ascontiguousarray(_arrays.array(images, "images"), dtype=np.float32)), images)


@brief
def control(
    config: str | os.PathLike[str], *, model: str, control: str, out: str | os.PathLike[str] | None = None
) -> Healed:
    """A network of a config, healed by one of its controls, to be called like the network itself.

    The closed loop is one ONNX network, which out names a file for.
    """
    with destination(out) as path:
        _program.call(
            ["export", "--config", os.fspath(config), "--model", model, "--control", control, "--out", os.fspath(path)],
            progress=False,
        )
        return Healed(path)


@contextlib.contextmanager
def destination(out: str | os.PathLike[str] | None) -> Iterator[pathlib.Path]:
    """A file that stays, or one that goes once it was read."""
    if out is not None:
        yield pathlib.Path(out)
        return
    folder = _folders.temporary()
    try:
        yield folder.path / "healed.onnx"
    finally:
        folder.remove()
