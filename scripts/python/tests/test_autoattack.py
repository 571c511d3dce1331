"""The interface of the reference AutoAttack."""

import inspect
import re

import numpy as np
import pytest

import selfheal
from selfheal import AutoAttack

from .conftest import ROOT


def test_as_attack(network, images, full, capsys, tmp_path):
    """The reference's interface, at full strength."""
    x = images[0].astype(np.float32) / 255
    adversary = AutoAttack(network, eps=8 / 255, version="quick", log_path=tmp_path / "log.txt")
    left, answers = adversary.run_standard_evaluation(x, images[1], bs=10, return_labels=True)
    assert np.array_equal(left, full.adversarial) and list(answers) == list(full.answers)
    said = capsys.readouterr().out
    assert f"initial accuracy: {full.clean_accuracy:.2%}" in said
    assert f"robust accuracy: {full.robust_accuracy:.2%}" in said and "robust accuracy after APGD-" in said
    assert (tmp_path / "log.txt").read_text() in said
    assert adversary.result.robust_accuracy == full.robust_accuracy


def test_coming_from(network, images):
    """The lines of docs/coming-from.md."""
    (lines,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "coming-from.md").read_text(), re.DOTALL)
    x, y = images[0][:3].astype(np.float32) / 255, images[1][:3]
    names = {"network": network, "x": x, "y": y}
    exec(lines, names)
    assert names["x_adv"].shape == x.shape and 0 < np.abs(names["x_adv"] - x).max() < 8.001 / 255
    assert [c["kind"] for c in names["adversary"].result.results["attacks"]["aa"]["components"]][1] == "apgd-t"


@pytest.mark.parametrize("norm", ["Linf", "L2", "L1"])
@pytest.mark.parametrize("version", ["standard", "plus", "rand"])
def test_versions_are_the_programs(norm, version, network, images):
    """The components and settings that the class has for a version are those that the program reports of it."""
    if (norm, version) == ("L1", "plus"):
        pytest.skip("the reference has no plus in l1")
    adversary = AutoAttack(network, norm=norm, eps=1e-4, version=version, verbose=False)
    named = adversary._setup()
    assert "components" not in named
    adversary.run_standard_evaluation(images[0][:1], images[1][:1])
    reported = adversary.result.results["attacks"]["aa"]["components"]
    adversary._settings = None  # as if a setting were changed
    components = adversary._setup()["components"]
    assert [c["kind"] for c in components] == [c["kind"] for c in reported]
    for ours, theirs in zip(components, reported, strict=True):
        for name, value in theirs["parameters"].items():
            if name in ours:
                assert ours[name] == value, f"{ours['kind']}: {name}"


def test_custom(network, images):
    adversary = AutoAttack(
        network, eps=8 / 255, version="custom", attacks_to_run=["apgd-ce", "square"], verbose=False, seed=3
    )
    adversary.apgd.n_restarts, adversary.apgd.n_iter = 1, 10
    adversary.square.n_queries = 20
    adversary.run_standard_evaluation(images[0], images[1])
    attack = adversary.result.results["attacks"]["aa"]
    assert [c["kind"] for c in attack["components"]] == ["apgd-ce", "square"] and attack["version"] == "custom"
    assert (
        attack["components"][0]["parameters"]["steps"] == 10 and attack["components"][1]["parameters"]["queries"] == 20
    )
    assert adversary.result.results["seed"] == 3


def test_individual(network, images, capsys):
    adversary = AutoAttack(network, eps=8 / 255, version="rand")
    adversary.apgd.n_iter = 5
    found = adversary.run_standard_evaluation_individual(images[0], images[1])
    assert list(found) == ["apgd-ce", "apgd-dlr"] and found["apgd-ce"].shape == images[0].shape
    assert "robust accuracy by APGD-CE" in capsys.readouterr().out
    assert adversary.version == "rand" and adversary.verbose and adversary.attacks_to_run == ["apgd-ce", "apgd-dlr"]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"norm": "L0"}, "norm must be"),
        ({"is_tf_model": True}, "tf2onnx"),
        ({"attacks_to_run": ["square"]}, "version='custom'"),
        ({"version": "fast"}, "version must be"),
    ],
)
def test_mistakes(options, message, network):
    with pytest.raises(selfheal.UsageError, match=message):
        AutoAttack(network, eps=0.1, verbose=False, **options)


def test_unknown_component(network, images):
    adversary = AutoAttack(network, eps=0.1, verbose=False, version="custom", attacks_to_run=["apgd"])
    with pytest.raises(selfheal.UsageError, match="apgd-ce"):
        adversary.run_standard_evaluation(*images)


def test_settings_of_quick(network, images):
    adversary = AutoAttack(network, eps=0.1, verbose=False, version="quick")
    adversary.apgd.n_iter = 3
    with pytest.raises(selfheal.UsageError, match="version='custom'"):
        adversary.run_standard_evaluation(*images)


def test_arguments_are_the_references():
    """The constructor's and the methods' arguments, as the reference has them."""
    assert list(inspect.signature(AutoAttack).parameters) == [
        "model", "norm", "eps", "seed", "verbose", "attacks_to_run", "version", "is_tf_model", "device", "log_path",
    ]  # fmt: skip
    assert list(inspect.signature(AutoAttack.run_standard_evaluation).parameters) == [
        "self", "x_orig", "y_orig", "bs", "return_labels", "state_path",
    ]  # fmt: skip
