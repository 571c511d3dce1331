"""What a run has found, read from its folder."""

from __future__ import annotations

import copy
import functools
import glob
import html
import importlib.util
import json
import math
import os
import pathlib
import re
import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from . import _words
from ._errors import UsageError

if TYPE_CHECKING:
    import pandas

S = TypeVar("S", bound="OneAttack")
NONE = "none"  # the program's name for clean images, and for no control
OTHER_NAMES = {"eps": "epsilon", "control": "defense"}  # of cells' fields, in calls
IDENTITY = ("suite", "dataset", "model", "defense", "mode", "attack", "epsilon", "source")


class Report(pathlib.PosixPath if os.name != "nt" else pathlib.WindowsPath):  # type: ignore[misc]
    """The path of a report; a notebook shows the page itself."""

    owner: object = None  # of a temporary folder

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
    owner: object = None  # of a temporary folder, which goes with it

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
        """The one cell with these fields, such as model="mine", attack="aa", defense="pca", eps=8 / 255."""
        wanted = {OTHER_NAMES.get(name, name): value for name, value in wanted.items()}
        fields = list(dict.fromkeys(name for c in self.cells for name in c))
        for name in wanted:
            if name not in fields:
                raise UsageError(_words.one_of("a cell's field", name, fields))
        found = [c for c in self.cells if all(same(c.get(name), value) for name, value in wanted.items())]
        if len(found) != 1:
            said = ", ".join(f"{name}={value!r}" for name, value in wanted.items()) or "any fields"
            raise UsageError(f"{len(found)} cells have {said}, not one: {self._some_cells()}")
        return found[0]

    def _some_cells(self) -> str:
        """The fields by which the first cells differ."""
        differ = [n for n in IDENTITY if len({str(c.get(n)) for c in self.cells}) > 1]
        listed = [" ".join(f"{n}={c.get(n)!r}" for n in differ) for c in self.cells[:5]]
        return ", ".join(f"({cell})" for cell in listed) + ", …" * (len(self.cells) > 5)

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
        report = Report(page if to is None else shutil.copyfile(page, to))
        report.owner = self.owner
        return report

    def cells_to_pandas(self) -> pandas.DataFrame:
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

    to_pandas = cells_to_pandas

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.folder)!r}: {len(self.cells)} cells)"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(str(c['model']))}</td><td>{html.escape(str(c['defense']))}</td>"
            f"<td>{html.escape(str(c['attack']))}</td><td>{shown(c)}</td></tr>"
            for c in self.cells
        )
        return f"<table><tr><th>model</th><th>control</th><th>attack</th><th>accuracy</th></tr>{rows}</table>"


def same(has: Any, wanted: Any) -> bool:
    """Whether a cell's field is the one that is wanted: a norm by any of its names, a number up to rounding."""
    if isinstance(has, float) and isinstance(wanted, (int, float)):
        return math.isclose(has, wanted, rel_tol=1e-6)
    return bool(has == (_words.NORMS.get(wanted, wanted) if isinstance(wanted, str) else wanted))


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


class OneAttack(Run):
    """One network, clean and under one attack or certificate: in one cell, or in several for lists of eps, sides of
    patches or corruptions. Then numbers have a value for each cell, arrays have a first axis for them, and each is
    the list of these results one by one."""

    files: list[pathlib.Path] | None = None  # the images', where the call named files

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        super().__init__(folder)
        self._own = [c for c in self.cells if c["attack"] != NONE]
        self.clean = self.cell(attack=NONE)
        for cell in (self.clean, *self._own):
            if cell.get("error"):
                raise UsageError(cell["error"])
        if not self._own:
            raise UsageError(f"{self.folder} has no attack's cell")

    def _of(self, value: Callable[[dict[str, Any]], Any]) -> Any:
        values = [value(cell) for cell in self._own]
        return values[0] if len(values) == 1 else np.array(values)

    @property
    def each(self: S) -> list[S]:
        """A result for each cell, in the order of the cells."""
        views = []
        for cell in self._own:
            view = copy.copy(self)
            view.__dict__.pop("adversarial", None)
            view._own = [cell]
            views.append(view)
        return views

    @property
    def attacked(self) -> Any:
        """The cell of the attack, a list where there are several."""
        return self._own[0] if len(self._own) == 1 else list(self._own)

    @property
    def eps(self) -> Any:
        """The bound of the perturbation, None where the attack has none."""
        return self._of(lambda cell: cell.get("epsilon"))

    @property
    def robust_accuracy(self) -> Any:
        """Share of the images that are right before and after the attack, from 0 to 1."""
        return self._of(lambda cell: float(cell["accuracy"]))

    @property
    def gradient_failures(self) -> Any:
        """How many of the images that stand were hardly attacked: their gradients were NaN, infinite, or 0 at the start
        of every run. Where it is above 0 the robust accuracy is at most what it says."""
        return self._of(lambda cell: int(cell.get("gradient_failures", 0)))

    @property
    def planted(self) -> Any:
        """How many perturbations were planted for the attack to find (`n`), how many it found (`found`), and how many
        as many random points found (`random`); None if none were planted. Where two or more are missing, and more than
        one in 20, the robust accuracy is not to be trusted."""
        return self._of(lambda cell: cell.get("planted"))

    @property
    def clean_accuracy(self) -> float:
        """Share of the clean images that are right, from 0 to 1."""
        return float(self.clean["accuracy"])

    @property
    def verdicts(self) -> npt.NDArray[np.uint8]:
        """For each image 1 where it stands, 0 where it is broken or was wrong from the start: [N]."""
        return np.asarray(
            self._of(lambda cell: np.frombuffer(cell["verdicts"].encode(), dtype=np.uint8) - np.uint8(ord("0")))
        )

    @property
    def answers(self) -> npt.NDArray[np.int64]:
        """For each image the class that the network gives it as the attack leaves it: [N]."""
        return self._recorded("predicted").astype(np.int64)

    def _recorded(self, field: str) -> npt.NDArray[np.float64]:
        """A field of the records, for each image: NaN where it has no number."""
        values: dict[tuple[str, Any], list[float]] = {(c["attack"], c.get("epsilon")): [] for c in self._own}
        for r in self._own_records():
            if field not in r:
                raise UsageError(f"{self._own[0]['recipe']} finds no {field}")
            values[r["attack"], r["epsilon"]].append(math.nan if r[field] is None else r[field])
        return np.asarray(self._of(lambda cell: np.array(values[cell["attack"], cell.get("epsilon")], dtype=float)))

    def _own_records(self) -> Iterator[dict[str, Any]]:
        wanted = {(c["attack"], c.get("epsilon")) for c in self._own}
        return (r for r in self.records() if (r["attack"], r["epsilon"]) in wanted)

    def to_pandas(self) -> pandas.DataFrame:
        """The images as a table, a row for each and each cell: label, verdict, predicted class, margin, norm of the
        perturbation; needs pandas. cells_to_pandas has the cells."""
        need_pandas()
        import pandas

        table = pandas.DataFrame(self._own_records()).drop(columns=["suite", "model", "defense", "mode"])
        if self.files is not None and "file" not in table:
            table["file"] = [str(self.files[i]) for i in table["image"]]
        return table.set_index("image")

    def __repr__(self) -> str:
        c = self._own[0]
        stand = ", ".join(
            f"{_name(c)}: {_at_most(c)}{100 * c['accuracy']:.1f} %{_failures(c)}".lstrip(": ") for c in self._own
        )
        return (
            f"{type(self).__name__}({c['recipe'] or c['attack']}, {stand} of {c['n']} stand, "
            f"{100 * self.clean_accuracy:.1f} % are right on clean images)"
        )


def _name(cell: dict[str, Any]) -> str:
    """A cell beside others of its attack: by its norm and radius, or by its variant."""
    if cell.get("epsilon") is not None:
        return f"{cell['norm']} {_words.radius(cell['epsilon'])}"
    return str(cell["attack"]).partition(":")[2]


class Result(OneAttack):
    """One network under an attack."""

    @functools.cached_property
    def adversarial(self) -> npt.NDArray[np.float32]:
        """The images as the attack leaves them, [N, C, H, W]: those that were not broken are the clean ones."""
        return np.asarray(self._of(lambda cell: np.asarray(np.load(self._saved(cell)), dtype=np.float32)))

    def _saved(self, cell: dict[str, Any]) -> pathlib.Path:
        epsilon = 0 if cell.get("epsilon") is None else cell["epsilon"]
        parts = "_".join((cell["suite"], cell["model"], cell["attack"], f"{epsilon:.6g}"))
        found = list((self.folder / "adversarial").glob(glob.escape(re.sub("[^A-Za-z0-9._-]+", "-", parts)) + "_*.npy"))
        if len(found) != 1:
            raise UsageError(f"{self.folder} has no adversarial images of {cell['attack']}")
        return found[0]

    @property
    def distances(self) -> npt.NDArray[np.float64]:
        """For each image the smallest norm that breaks it, by an attack that looks for it: [N]. It is 0 where the clean
        image is wrong, infinite where the attack found none."""
        return np.nan_to_num(self._recorded("distance"), nan=np.inf, posinf=np.inf)

    @property
    def components(self) -> list[Any]:
        """The attack's components in turn: `attack`, images `attacked`, accuracy after it (`robust`), `forward` and
        `backward` passes, `seconds`. A list of these for each cell where there are several."""
        steps = [list(cell["steps"]) for cell in self._own]
        return steps[0] if len(steps) == 1 else steps


class Certificates(OneAttack):
    """One network's certificates: an image's verdict is 1 where no attack within eps can break it."""

    @property
    def radii(self) -> npt.NDArray[np.float64]:
        """For each image the certified l2 radius of its label by smoothing, 0 where there is none: [N]."""
        return self.each[0]._recorded("radius")

    @property
    def proven(self) -> npt.NDArray[np.float64]:
        """For each image the largest radius within which a bracket proves its label: [N]."""
        return self._recorded("proven")

    @property
    def broken(self) -> npt.NDArray[np.float64]:
        """For each image the smallest norm by which a bracket's attacks broke it, infinite where none did: [N]."""
        return np.nan_to_num(self._recorded("broken"), nan=np.inf, posinf=np.inf)

    def certified_accuracy(self, radius: float) -> float:
        """Share of the images whose label is certified at a radius, from 0 to 1."""
        return float(np.mean((self.radii > 0) & (self.radii >= radius)))


def union(*results: OneAttack) -> npt.NDArray[np.uint8]:
    """For each image 1 where it stands in every result, the worst case over attacks or norms: [N]. The mean is the
    robust accuracy against all of them. The results must be of the same images."""
    if not results:
        raise UsageError("union takes the results of one attack or more")
    images = {next(iter(r.results["datasets"].values()))["sha256"] for r in results}
    if len(images) > 1:
        raise UsageError("union: the results are of different images")
    rows = np.concatenate([r.verdicts.reshape(-1, r.clean["n"]) for r in results])
    return np.asarray(rows.min(axis=0), dtype=np.uint8)
