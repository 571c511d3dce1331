"""What a run has found, read from its folder."""

from __future__ import annotations

import functools
import html
import importlib.util
import json
import math
import os
import pathlib
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _words
from ._errors import UsageError

if TYPE_CHECKING:
    import pandas

NONE = "none"  # the program's name for clean images, and for no control


class Report(pathlib.PosixPath if os.name != "nt" else pathlib.WindowsPath):  # type: ignore[misc]
    """The path of a report; a notebook shows the page itself."""

    def _repr_html_(self) -> str:
        page = html.escape(self.read_text(encoding="utf-8"), quote=True)
        style = "width: 100%; height: 40em; border: 1px solid #ccc; box-sizing: border-box"
        return f'<iframe srcdoc="{page}" style="{style}"></iframe>'


class Run:
    """A run's folder: its cells, each the accuracy of one network, control and attack, its records and report.

    cells are those of results.json, in plan order, with the field names that docs/results.md explains. summary is how
    the program ended its output, the answer in a line; it is empty of a folder that was opened.
    """

    summary = ""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = pathlib.Path(folder)
        path = self.folder / "results.json"
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise UsageError(f"{path} is no file")
        try:
            self.results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            check(self.results)
            self.cells: list[dict[str, Any]] = self.results["cells"]
        except OSError as problem:
            raise UsageError(f"{path}: {problem.strerror or problem}") from problem
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
            raise UsageError(f"{path} is no results.json") from problem

    def cell(self, **wanted: Any) -> dict[str, Any]:
        """The one cell with these fields, such as model="mine", attack="aa", defense="pca"."""
        found = [c for c in self.cells if all(c.get(name) == value for name, value in wanted.items())]
        if len(found) != 1:
            raise UsageError(f"{len(found)} cells have {wanted}, not one")
        return found[0]

    def records(self) -> Iterator[dict[str, Any]]:
        """The lines of records.jsonl, one an image and cell."""
        with open(self.folder / "records.jsonl", encoding="utf-8") as file:
            yield from map(json.loads, file)

    @property
    def warnings(self) -> list[str]:
        """What the run warns of, each once: docs/warnings.md."""
        return list(dict.fromkeys(w["message"] for c in self.cells for w in c.get("warnings") or ()))

    def report(self, to: str | os.PathLike[str] | None = None) -> Report:
        """The path of the HTML page, or of a copy of it."""
        page = self.folder / "report.html"
        return Report(page if to is None else shutil.copyfile(page, to))

    def to_pandas(self) -> pandas.DataFrame:
        """The cells as a table, a row each; needs pandas."""
        need_pandas()
        import pandas

        columns = (
            "suite",
            "dataset",
            "model",
            "defense",
            "mode",
            "attack",
            "norm",
            "epsilon",
            "n",
            "correct",
            "accuracy",
            "ci95",
            "max_norm",
            "seconds",
            "error",
        )
        return pandas.DataFrame([{name: c.get(name) for name in columns} for c in self.cells])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.folder)!r}: {len(self.cells)} cells)"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(str(c['model']))}</td><td>{html.escape(str(c['defense']))}</td>"
            f"<td>{html.escape(str(c['attack']))}</td><td>{shown(c)}</td></tr>"
            for c in self.cells
        )
        return f"<table><tr><th>model</th><th>control</th><th>attack</th><th>accuracy</th></tr>{rows}</table>"


def need_pandas() -> None:
    if importlib.util.find_spec("pandas") is None:
        raise UsageError("to_pandas() needs pandas, which is not installed: pip install pandas")


def check(results: dict[str, Any]) -> None:
    """Raise a ValueError for what no run writes, of what is read here."""

    def wanted(of: Any, kinds: dict[str, type | tuple[type, ...]]) -> None:
        for name, kind in kinds.items():
            if not isinstance(of[name], kind) or isinstance(of[name], bool):
                raise ValueError(name)
            if isinstance(of[name], float) and not math.isfinite(of[name]):
                raise ValueError(name)

    wanted(results, {"cells": list, "environment": dict, "config_sha256": str, "seed": int})
    wanted(results["environment"], {"selfheal": str, "onnxruntime": str})
    for field, kinds in (("models", {"sha256": str}), ("datasets", {"sha256": str}), ("attacks", {"recipe": str})):
        for one in results[field].values():
            wanted(one, kinds)  # type: ignore[arg-type]
    words = dict.fromkeys(("suite", "dataset", "model", "defense", "mode", "attack"), str)
    for cell in results["cells"]:
        wanted(cell, words)  # type: ignore[arg-type]
        if cell.get("epsilon") is not None:
            wanted(cell, {"epsilon": (int, float), "norm": str})
            if cell["epsilon"] <= 0:
                raise ValueError("epsilon")
        if not cell.get("error"):
            wanted(cell, {"n": int, "accuracy": (int, float), "ci95": list, "verdicts": str})
            low, high = cell["ci95"]
            if not 0 <= low <= high <= 1 or not 0 <= cell["accuracy"] <= 1 or len(cell["verdicts"]) != cell["n"]:
                raise ValueError("verdicts")


def shown(cell: dict[str, Any]) -> str:
    """A cell's accuracy with its interval."""
    if cell.get("error"):
        return html.escape(str(cell["error"]))
    low, high = cell["ci95"]
    return f"{_at_most(cell)}{100 * cell['accuracy']:.1f} % ({100 * low:.1f} to {100 * high:.1f}){_failures(cell)}"


def _at_most(cell: dict[str, Any]) -> str:
    return "at most " if cell.get("gradient_failures") else ""


def _failures(cell: dict[str, Any]) -> str:
    """On how many images gradients failed, "" where they did not."""
    if failed := cell.get("gradient_failures"):
        return f" (gradients failed on {failed} of {cell['correct']} standing images)"
    return ""


class _OneAttack(Run):
    """One network, clean and under one attack or certificate."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        super().__init__(folder)
        self.clean = self.cell(attack=NONE)
        self.attacked = next(c for c in self.cells if c["attack"] != NONE)
        for cell in (self.clean, self.attacked):
            if cell.get("error"):
                raise UsageError(cell["error"])

    @property
    def robust_accuracy(self) -> float:
        """Share of the images that are right before and after the attack, from 0 to 1."""
        return float(self.attacked["accuracy"])

    @property
    def gradient_failures(self) -> int:
        """How many of the images that stand were hardly attacked: their gradients were NaN, infinite, or 0 at the start
        of every run. Where it is above 0 the robust accuracy is at most what it says."""
        return int(self.attacked.get("gradient_failures", 0))

    @property
    def clean_accuracy(self) -> float:
        """Share of the clean images that are right, from 0 to 1."""
        return float(self.clean["accuracy"])

    @property
    def verdicts(self) -> npt.NDArray[np.uint8]:
        """For each image 1 where it stands, 0 where it is broken or was wrong from the start: [N]."""
        return np.frombuffer(self.attacked["verdicts"].encode(), dtype=np.uint8) - np.uint8(ord("0"))

    @property
    def answers(self) -> npt.NDArray[np.int64]:
        """For each image the class that the network gives it as the attack leaves it: [N]."""
        return np.array([r["predicted"] for r in self._own_records()], dtype=np.int64)

    def _own_records(self) -> Iterator[dict[str, Any]]:
        return (r for r in self.records() if r["attack"] != NONE and r["epsilon"] == self.attacked["epsilon"])

    def to_pandas(self) -> pandas.DataFrame:
        """The images as a table, a row each: label, verdict, predicted class, margin, norm of the perturbation; needs
        pandas."""
        need_pandas()
        import pandas

        return (
            pandas.DataFrame(self._own_records()).drop(columns=["suite", "model", "defense", "mode"]).set_index("image")
        )

    def __repr__(self) -> str:
        c = self.attacked
        radius, stand = _words.radius(c["epsilon"]), f"{_at_most(c)}{100 * self.robust_accuracy:.1f} %"
        return (
            f"{type(self).__name__}({c['recipe']}, {c['norm']} {radius}: {stand} "
            f"of {c['n']} stand{_failures(c)}, {100 * self.clean_accuracy:.1f} % are right on clean images)"
        )


class Result(_OneAttack):
    """One network under an attack."""

    @functools.cached_property
    def adversarial(self) -> npt.NDArray[np.float32]:
        """The images as the attack leaves them, [N, C, H, W]: those that were not broken are the clean ones."""
        (path,) = (self.folder / "adversarial").glob("*.npy")
        return np.asarray(np.load(path), dtype=np.float32)

    @property
    def components(self) -> list[dict[str, Any]]:
        """The attack's components in turn: `attack`, images `attacked`, accuracy after it (`robust`), `forward` and
        `backward` passes, `seconds`."""
        return list(self.attacked["steps"])


class Certificates(_OneAttack):
    """One network's certificates by randomised smoothing."""

    @property
    def radii(self) -> npt.NDArray[np.float64]:
        """For each image the certified l2 radius of its label, 0 where there is none: [N]."""
        return np.array([r["radius"] for r in self._own_records()])

    def certified_accuracy(self, radius: float) -> float:
        """Share of the images whose label is certified at a radius, from 0 to 1."""
        return float(np.mean((self.radii > 0) & (self.radii >= radius)))
