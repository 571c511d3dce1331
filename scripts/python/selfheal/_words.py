"""The program's messages in the words of a call from Python: its arguments instead of files and config keys."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from ._errors import SelfhealError

NORMS = {"Linf": "linf", "L2": "l2", "L1": "l1", "L0": "l0"}  # the program's names of norms

# Words of the config that _api.one writes, and of the flags that it gives.
WORDS = (
    (r"\S*config\.json:\d+:\d+: ", ""),
    (r"dataset data: its images in data\.npz have SHA-256 .*", "x and y have changed on the disk under the call"),
    (r"model \S+: model\.onnx has SHA-256 .*", "the model has changed on the disk under the call"),
    (r"suite attack: dataset data and model \S+: the images have (\d+ classes)", r"y has \1"),
    (r"suite attack: dataset data and model \S+: the images have", "x has"),
    (r"suite attack(: dataset data and model \S+: |, |: )", ""),
    (r"model \S+: (?=the function )", ""),
    (r"^(\S+, image \d+: )?(?=the function answers )", ""),
    (r"say how many there are by classes$", "pass how many there are as classes="),
    (r"dataset data: data set data\.csv \(csv\): ", ""),
    (r'attacks\.\S+ lacks the key "(\w+)"', r'parameters lack "\1"'),
    (r"dataset data: data set data\.npz \(npz\): its array (\w): label (\d+)", r"\1: the label of image \2"),
    (r"dataset data: (data set data\.npz \(npz\): )?(its array )?", ""),
    (r"(?<!selfheal-input/)data\.npz", "x and y"),
    (r"unknown key (\S+) in attacks\.[^\s;]+", r"parameters: unknown key \1"),
    (r"attacks\.\S+\.epsilon\b", "eps"),
    (r"attacks\.\S+\.(\w+)", r"\1"),
    (r"models\.\S+\.preprocess\.(\w+)(\.\d+|\[\d+\])?", r"\1"),
    (r"model bytes: model\.onnx:", "model:"),
    (r"model \S+ \((\S*/)?model\.onnx\):", "model:"),
    (r"--(batch|workers|limit)\b", r"\1"),
    (r"choose another (--out|name)( or add --force)?", "choose another out="),
    (r"--mean and --std", "mean= and std="),
    (r"^model \S+: (?=\d+ images do not tell)", "mean='auto': "),
    (r"--mean (\S+) --std ([\d.,]*\d)", r"mean=[\1], std=[\2]"),
    (r"--scale 255\b", "mean=0, std=1 / 255"),
    (r"--scale 1\b", "no mean="),
    (r"give the flags of one, or more images", "give one instead of mean='auto', or more images"),
    (r"; --resize .*makes them fit", "; resize x before the call, or files by resize= and crop="),
    (r", or choose another output by output_name", ""),
)


def of_the_call(problem: SelfhealError, paths: dict[str, str]) -> SelfhealError:
    """An error of the program as one of the call; paths are what the call calls the paths that it gave the program."""
    text = str(problem)
    for path, name in paths.items():
        text = text.replace(path, name)
    for pattern, words in WORDS:
        text = re.sub(pattern, words, text)
    return type(problem)(text, problem.exit_code)


def one_of(name: str, given: object, words: Iterable[str]) -> str:
    """The message about an argument that takes one of a few words, with the closest one."""
    known = {word.lower(): word for word in words}
    close = difflib.get_close_matches(str(given).lower(), known, 1)
    meant = f"; did you mean {known[close[0]]!r}?" if close else ""
    return f"{name} must be one of {', '.join(known.values())}, not {given!r}{meant}"


def first_line(problem: BaseException) -> str:
    """An exception in one line."""
    lines = str(problem).strip().splitlines()
    return f"{type(problem).__name__}: {lines[0]}" if lines else type(problem).__name__


def radius(eps: float) -> str:
    """A perturbation's bound as people write it: 8/255, 0.5."""
    levels = round(255 * eps)
    if 0 < levels < 255 and abs(255 * eps - levels) < 1e-9 and len(repr(eps)) > 6:
        return f"{levels}/255"
    return f"{eps:.4g}"
