"""Attacks, certifies and heals image classifiers, of PyTorch or in ONNX.

    result = selfheal.attack(model, x, y, norm="Linf", eps=8/255)
    print(result.robust_accuracy, result.report())

AutoAttack is a class with the interface of the reference implementation's. run, check and control are the program's
verbs of these names; the program itself is the command selfheal.
"""

import importlib.metadata

from ._api import Check, Healed, attack, certify, check, control, run
from ._errors import SelfhealError, UsageError
from ._results import Certificates, Report, Result, Run, union
from .autoattack import AutoAttack

__all__ = [
    "AutoAttack",
    "Certificates",
    "Check",
    "Healed",
    "Report",
    "Result",
    "Run",
    "SelfhealError",
    "UsageError",
    "__version__",
    "attack",
    "certify",
    "check",
    "control",
    "run",
    "union",
]

__version__ = importlib.metadata.version("selfheal-onnx")
