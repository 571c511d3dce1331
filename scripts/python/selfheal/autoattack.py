"""AutoAttack with the interface of the reference implementation, github.com/fra31/auto-attack: scripts written for it
change one import line."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace
from typing import Any

from . import _arrays, _network, _words
from ._api import VERSIONS, one
from ._errors import UsageError, brief
from ._results import NONE, Result

NORMS = {name: its for name, its in _words.NORMS.items() if name != "L0"}
# A component's settings: the object's name and the names of its attributes, and of the program's parameters.
APGD = (
    "apgd",
    {"n_iter": "steps", "n_restarts": "restarts", "eot_iter": "eot_iter", "rho": "rho", "use_largereps": "large_radii"},
)
TARGETED = ("apgd_targeted", {**APGD[1], "n_target_classes": "targets"})
FAB = ("fab", {"n_iter": "steps", "n_restarts": "restarts", "alpha_max": "alpha_max", "eta": "eta", "beta": "beta"})
FAB_TARGETED = ("fab", {**FAB[1], "n_target_classes": "targets"})
SQUARE = (
    "square",
    {"n_queries": "queries", "n_restarts": "restarts", "p_init": "p_init", "resc_schedule": "rescale_schedule"},
)
COMPONENTS = {
    "apgd-ce": APGD,
    "apgd-dlr": APGD,
    "apgd-t": TARGETED,
    "fab": FAB,
    "fab-t": FAB_TARGETED,
    "square": SQUARE,
}


class AutoAttack:
    """AutoAttack (Croce and Hein 2020) of a torch.nn.Module, or of what else selfheal.attack takes.

    norm is "Linf", "L2" or "L1". As in the reference, version is "standard", "plus" or "rand", beside "quick", or
    "custom" with attacks_to_run; apgd, apgd_targeted, fab and square hold the components' settings. Without a seed it
    is 0: the same call gives the same verdicts. The device is the processor, and results return to the images' own.
    result is the selfheal.Result of the evaluation before.
    """

    def __init__(
        self,
        model: Any,
        norm: str = "Linf",
        eps: float = 0.3,
        seed: int | None = None,
        verbose: bool = True,
        attacks_to_run: list[str] | None = None,
        version: str = "standard",
        is_tf_model: bool = False,
        device: Any = None,
        log_path: str | os.PathLike[str] | None = None,
    ) -> None:
        if norm not in NORMS:
            raise UsageError(_words.one_of("norm", norm, NORMS))
        if is_tf_model:
            raise UsageError("is_tf_model: export the network to ONNX (tf2onnx) and give the file")
        if version != "custom" and attacks_to_run:
            raise UsageError("attacks_to_run needs version='custom'")
        self.norm, self.epsilon, self.seed, self.verbose = norm, eps, seed, verbose
        self.model = _network.module_of(model)
        self.attacks_to_run, self.version, self.device, self.log_path = (
            list(attacks_to_run or ()),
            version,
            device,
            log_path,
        )
        self.result: Result | None = None
        self.apgd = SimpleNamespace(n_iter=100, n_restarts=5, eot_iter=1, rho=0.75, use_largereps=False)
        self.apgd_targeted = SimpleNamespace(
            n_iter=100, n_restarts=1, eot_iter=1, rho=0.75, use_largereps=False, n_target_classes=9
        )
        self.fab = SimpleNamespace(n_iter=100, n_restarts=5, alpha_max=0.1, eta=1.05, beta=0.9, n_target_classes=9)
        self.square = SimpleNamespace(n_queries=5000, n_restarts=1, p_init=0.8, resc_schedule=False)
        self._settings: dict[str, Any] | None = None  # of the version as it was set
        if version != "custom":
            self.set_version(version)

    def set_version(self, version: str = "standard") -> None:
        """The components and settings of a version."""
        if version not in VERSIONS:
            raise UsageError(_words.one_of("version", version, (*VERSIONS, "custom")))
        self._log(f"setting parameters for {version} version")
        self.version, l1 = version, self.norm == "L1"
        if version == "standard":
            self.attacks_to_run = ["apgd-ce", "apgd-t", "fab-t", "square"]
            self.apgd.n_restarts = 5 if l1 else 1
            self.apgd_targeted.n_target_classes = 5 if l1 else 9
            self.apgd.use_largereps = self.apgd_targeted.use_largereps = l1
            self.fab.n_restarts = 1
        elif version == "plus":
            self.attacks_to_run = ["apgd-ce", "apgd-dlr", "fab", "square", "apgd-t", "fab-t"]
            self.apgd.n_restarts = self.fab.n_restarts = 5
        elif version == "rand":
            self.attacks_to_run = ["apgd-ce", "apgd-dlr"]
            self.apgd.n_restarts, self.apgd.eot_iter = 1, 20
        else:
            self.attacks_to_run = []  # the program's own
        self._settings = self._all_settings()

    @brief
    def run_standard_evaluation(
        self,
        x_orig: Any,
        y_orig: Any,
        bs: int = 250,
        return_labels: bool = False,
        state_path: str | os.PathLike[str] | None = None,
    ) -> Any:
        """The images as the attacks leave them, and with return_labels the model's answers to them.

        state_path is a folder, where the same call continues an evaluation that was stopped.
        """
        self._log(f"using {self.version} version including {', '.join(self.attacks_to_run)}.")
        start = time.monotonic()

        def log(record: dict[str, Any]) -> None:
            if record["msg"] == "cell finished" and record["attack"] == NONE:
                self._log(f"initial accuracy: {record['accuracy']:.2%}")
            elif record["msg"] == "component finished":
                self._log(
                    f"robust accuracy after {record['component'].upper()}: {record['robust'] / record['n']:.2%} "
                    f"(total time {time.monotonic() - start:.1f} s)"
                )
            elif record["msg"] == "cell warning":
                self._log(f"Warning: {record['message']}")

        config = {"seed": self.seed or 0, "save_adversarial": True, "attacks": {"aa": self._setup()}}
        result = one(self.model, x_orig, y_orig, config, bs, 0, state_path, log if self.verbose else False, Result)
        images = result.adversarial
        self._log(
            f"max {self.norm} perturbation: {result.attacked['max_norm']:.5f}, nan in tensor: 0, "
            f"max: {images.max():.5f}, min: {images.min():.5f}"
        )
        self._log(f"robust accuracy: {'at most ' if result.gradient_failures else ''}{result.robust_accuracy:.2%}")
        if result.summary:
            self._log(result.summary)
        self.result = result
        adversarial = _arrays.like(images, x_orig)
        return (adversarial, _arrays.like(result.answers, y_orig)) if return_labels else adversarial

    @brief
    def run_standard_evaluation_individual(
        self, x_orig: Any, y_orig: Any, bs: int = 250, return_labels: bool = False
    ) -> dict[str, Any]:
        """What each attack leaves on its own, by its name."""
        attacks, version, verbose = self.attacks_to_run, self.version, self.verbose
        self._log(f"using {version} version including {', '.join(attacks)}")
        found = {}
        try:
            self.version, self.verbose = "custom", False
            for name in attacks:
                start = time.monotonic()
                self.attacks_to_run = [name]
                found[name] = self.run_standard_evaluation(x_orig, y_orig, bs, return_labels)
                self.verbose = verbose
                assert self.result is not None
                self._log(
                    f"robust accuracy by {name.upper()} {self.result.robust_accuracy:.2%} \t "
                    f"(time attack: {time.monotonic() - start:.1f} s)"
                )
                self.verbose = False
        finally:
            self.attacks_to_run, self.version, self.verbose = attacks, version, verbose
        return found

    def clean_accuracy(self, x_orig: Any, y_orig: Any, bs: int = 250) -> float:
        """Share of images that the module is right on, from 0 to 1."""
        import torch

        right = 0
        with torch.no_grad():
            for start in range(0, len(x_orig), bs):
                answers = self.get_logits(x_orig[start : start + bs]).argmax(dim=1).to(y_orig.device)
                right += int((answers == y_orig[start : start + bs]).sum())
        if self.verbose:
            print(f"clean accuracy: {right / len(x_orig):.2%}")
        return right / len(x_orig)

    def get_logits(self, x: Any) -> Any:
        """The module's logits."""
        return self.model(x)

    def _setup(self) -> dict[str, Any]:
        """The attack as a config says it: by its version's name while its settings are the version's."""
        setup = {
            "kind": "autoattack",
            "version": self.version,
            "norm": NORMS[self.norm],
            "epsilon": float(self.epsilon),
        }
        if self.version != "custom" and self._settings == self._all_settings():
            return setup
        if not self.attacks_to_run:
            raise UsageError(
                f"version {self.version!r} has no attacks whose settings could change: use version='custom'"
            )
        components = []
        for name in self.attacks_to_run:
            if name not in COMPONENTS:
                raise UsageError(f"attacks_to_run: there is no {name!r}, only {', '.join(COMPONENTS)}")
            holder, names = COMPONENTS[name]
            component = {of: getattr(getattr(self, holder), ours) for ours, of in names.items()}
            if name == "fab-t":
                component["restarts"] = 1  # as in the reference
            components.append({"kind": name, **component})
        return {**setup, "version": "custom", "components": components}

    def _all_settings(self) -> dict[str, Any]:
        return {
            "attacks": list(self.attacks_to_run),
            **{holder: dict(vars(getattr(self, holder))) for holder, _ in COMPONENTS.values()},
        }

    def _log(self, text: str) -> None:
        if not self.verbose:
            return
        print(text, flush=True)
        if self.log_path is not None:
            with open(self.log_path, "a", encoding="utf-8") as file:
                file.write(text + "\n")
