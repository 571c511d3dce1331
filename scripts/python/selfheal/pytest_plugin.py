"""A pytest fixture that fails a test whose network has become less robust.

    def test_robustness(selfheal_gate):
        selfheal_gate("model.onnx", "baseline.json")

`pytest --selfheal-update` writes baselines, and beside each a file .npz with the images, from the call's own arguments:

        selfheal_gate(model, "baseline.json", x, y, norm="Linf", eps=8/255, version="quick")

From then on the baseline says how the network is attacked, and the call may leave these out.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # every pytest in this environment imports this file: the rest is imported when it is asked for
    from ._api import Check

MODEL = "model"  # the network's name in the results, whatever its file is called


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("selfheal").addoption(
        "--selfheal-update",
        action="store_true",
        help="write the baselines of selfheal_gate instead of comparing with them",
    )


@pytest.fixture
def selfheal_gate(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Callable[..., Check | None]:
    """A function (model, baseline, x=None, y=None, …) that attacks a network and fails the test on a regression.

    model is what selfheal.attack takes, baseline the file of a baseline, x and y the images, and further arguments are
    attack's: all of them may be left out where the baseline exists. The network may be another file than the
    baseline's. gate holds rules of docs/gate.md, such as {"max_drop": 0.01}; inconclusive is what becomes of a test
    whose images are too few to tell: "fail", "skip" or "pass".
    """
    update = bool(request.config.getoption("--selfheal-update"))

    def gate(
        model: Any,
        baseline: str | os.PathLike[str],
        x: Any = None,
        y: Any = None,
        *,
        gate: dict[str, Any] | None = None,
        inconclusive: str = "fail",
        batch: int = 64,
        **attack: Any,
    ) -> Check | None:
        import numpy as np

        from . import _arrays
        from ._api import attack_of, check, one
        from ._errors import UsageError
        from ._results import Result

        path = pathlib.Path(baseline)
        images = path.with_suffix(".npz")
        if (x is None) != (y is None):
            raise UsageError("selfheal_gate: x and y go together")
        if x is None:
            x, y = stored(images)
        config = attack_of(**attack) if attack else described(path)
        result = one(model, x, y, config, batch, 0, tmp_path / "selfheal", False, Result, MODEL)
        if update:
            check(path, result, update=True)
            given = _arrays.pair(x, y)
            np.savez_compressed(images, x=given[0], y=given[1])
            return None
        if not path.exists():
            pytest.fail(f"there is no {path}: write it with pytest --selfheal-update", pytrace=False)
        found = check(path, result, new_model=True, sets={f"gate.{key}": value for key, value in (gate or {}).items()})
        assert found is not None
        if found.outcome == "fail" or (found.outcome == "inconclusive" and inconclusive == "fail"):
            pytest.fail(found.summary, pytrace=False)
        if found.outcome == "inconclusive" and inconclusive == "skip":
            pytest.skip(found.summary)
        return found

    return gate


def stored(path: pathlib.Path) -> tuple[Any, Any]:
    """The images beside a baseline."""
    import numpy as np

    from ._errors import UsageError

    try:
        with np.load(path) as arrays:
            return arrays["x"], arrays["y"]
    except (OSError, KeyError, ValueError) as problem:
        raise UsageError(f"selfheal_gate: {path} has no images: {problem}; give x and y") from problem


def described(path: pathlib.Path) -> dict[str, Any]:
    """The config of a baseline's attack and normalisation."""
    from ._errors import UsageError
    from ._results import NONE

    try:
        baseline = json.loads(path.read_text(encoding="utf-8"))
        (name,) = {cell["attack"] for cell in baseline["cells"]} - {NONE}
        (network,) = baseline["models"].values()
        attack, seed = baseline["attacks"][name], baseline["seed"]
    except (OSError, KeyError, ValueError) as problem:
        raise UsageError(
            f"selfheal_gate: {path} is no baseline of one network and attack: {problem}; give norm and eps"
        ) from problem
    settings = {key: attack[key] for key in ("kind", "version", "norm") if key in attack}
    if attack.get("version") == "custom":
        settings["components"] = [{"kind": c["kind"], **numbers(c["parameters"])} for c in attack["components"]]
    settings.update(numbers(attack.get("parameters", {})))
    return {
        "seed": seed,
        "model": {"preprocess": network.get("preprocess", {})},
        "attacks": {name: {**settings, "epsilon": attack["epsilons"]}},
    }


def numbers(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters without those whose default follows from epsilon, which are texts there."""
    return {key: value for key, value in parameters.items() if not (isinstance(value, str) and "epsilon" in value)}
