"""Writes harness/stats/testdata/calibration.json: calibration errors by torchmetrics 1.9, and risks over coverage and
the areas under them by torch-uncertainty 0.13, of random answers.

    python scripts/goldens/calibration.py
"""
import importlib.util
import json
import pathlib
import sys

import torch
from torchmetrics.functional.classification import multiclass_calibration_error

ROOT = pathlib.Path(__file__).parents[2]


def risk_coverage():
    """torch-uncertainty's module alone: the package needs Lightning."""
    import torchmetrics.utilities.plot  # noqa: F401  the module imports it

    where = pathlib.Path(importlib.util.find_spec("torchmetrics").origin).parents[1]
    path = where / "torch_uncertainty" / "metrics" / "classification" / "risk_coverage.py"
    spec = importlib.util.spec_from_file_location("risk_coverage", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["risk_coverage"] = module
    spec.loader.exec_module(module)
    return module


def case(seed, n, classes, sharp):
    g = torch.Generator().manual_seed(seed)
    logits = torch.randn(n, classes, generator=g, dtype=torch.float64) * sharp
    labels = torch.where(torch.rand(n, generator=g) < 0.7, logits.argmax(1), torch.randint(classes, (n,), generator=g))
    p = logits.softmax(1)
    module = risk_coverage()
    area, at80 = module.AURC(), module.RiskAt80Cov()
    area.update(p, labels)
    at80.update(p, labels)
    return {
        "confidence": p.max(1).values.tolist(),
        "right": (p.argmax(1) == labels).tolist(),
        "ece": float(multiclass_calibration_error(p, labels, classes, n_bins=15, norm="l1")),
        "area": float(area.compute()),
        "risk80": float(at80.compute()),
    }


if __name__ == "__main__":
    cases = [case(1, 200, 10, 2.0), case(2, 37, 3, 0.5), case(3, 1000, 100, 4.0), case(4, 5, 2, 1.0)]
    path = ROOT / "harness" / "stats" / "testdata" / "calibration.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(cases, separators=(",", ":")) + "\n")
