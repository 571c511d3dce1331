"""publish, with the clients' own libraries."""

import json
import subprocess
import sys
import time

import pytest

import selfheal
from selfheal import publish


def test_mlflow(attacked, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    store = (tmp_path / "mlruns").as_uri()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    mlflow.set_tracking_uri(store)
    assert publish.main([str(attacked.folder), "--to", "mlflow", "--name", "mine"]) == 0
    (run,) = mlflow.MlflowClient(store).search_runs([mlflow.get_experiment_by_name("selfheal").experiment_id])
    assert run.info.run_name == "mine"
    assert run.data.metrics["attack/preact_robust/none/aa-quick/0.0313725"] == attacked.robust_accuracy
    assert run.data.params["attacks.aa-quick.recipe"] == attacked.attacked["recipe"]
    names = {f.path for f in mlflow.MlflowClient(store).list_artifacts(run.info.run_id)}
    assert {"results.json", "report.html"} <= names


def test_wandb(attacked, tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    assert publish.main([str(attacked.folder), "--to", "wandb", "--project", "robustness"]) == 0
    (record,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    for _ in range(100):  # wandb's own process writes it, soon after the run has ended
        if written := b"attack/preact_robust/none/aa-quick/0.0313725" in record.read_bytes():
            break
        time.sleep(0.1)
    assert written


def test_model_card(attacked, tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    card = tmp_path / "README.md"
    assert publish.main([str(attacked.folder), "--to", "model-card", "--name", "mine", "--out", str(card)]) == 0
    with pytest.raises(selfheal.UsageError, match="is there: choose another --out or add --force"):
        publish.main([str(attacked.folder), "--to", "model-card", "--name", "other", "--out", str(card)])
    read = hub.ModelCard(card.read_text())
    values = {e.metric_name: e.metric_value for e in read.data.eval_results}
    assert values["accuracy on clean images"] == attacked.clean_accuracy
    assert values["accuracy under AutoAttack (quick), linf 8/255"] == attacked.robust_accuracy
    assert "| preact_robust | none | AutoAttack (quick), linf 8/255 | 20 |" in read.text


def test_robustbench(attacked, capsys):
    assert publish.main([str(attacked.folder), "--to", "robustbench"]) == 0
    said = capsys.readouterr().out
    assert "- **Threat Model**: Linf\n- **eps**: 8/255\n" in said
    assert f"- **Robust accuracy**: {100 * attacked.robust_accuracy:.2f}%" in said


def test_command(attacked, tmp_path):
    """As a user calls it, and what goes wrong is one line."""
    command = [sys.executable, "-m", "selfheal", "publish"]
    good = subprocess.run(
        [*command, attacked.folder, "--to", "robustbench"], capture_output=True, text=True, check=True
    )
    assert good.stdout.startswith("# Leaderboard Claim(s)")
    for folder, message in ((tmp_path, "results.json"), (broken(tmp_path, attacked), "no cell with verdicts")):
        bad = subprocess.run([*command, folder, "--to", "robustbench"], capture_output=True, text=True, check=False)
        assert bad.returncode == 1 and message in bad.stderr and bad.stderr.count("\n") == 1
    version = subprocess.run([sys.executable, "-m", "selfheal", "version"], capture_output=True, text=True, check=True)
    assert selfheal.__version__ in version.stdout


HOSTILE = '<script>alert(1)</script>\x1b[31m | [a](javascript:b) `c`\n# \u202e"'


def test_hostile_names(attacked, tmp_path):
    """Names in results are words on a card: no markup, no line, no escape of theirs gets there."""
    pytest.importorskip("huggingface_hub")

    def renamed(value):
        if isinstance(value, dict):
            return {k: renamed(v) for k, v in value.items()}
        return HOSTILE + value if isinstance(value, str) and value != "none" else value

    results = json.loads(json.dumps(attacked.results))
    for cell in results["cells"]:
        for field in ("suite", "dataset", "model", "mode"):
            cell[field] = HOSTILE + cell[field]
    results["models"] = {HOSTILE + name: renamed(m) for name, m in results["models"].items()}
    results["environment"] = renamed(results["environment"])
    results["attacks"] = {name: {**a, "title": HOSTILE} for name, a in results["attacks"].items()}
    (tmp_path / "results.json").write_text(json.dumps(results))
    for target in ("model-card", "robustbench"):
        out = tmp_path / target
        assert publish.main([str(tmp_path), "--to", target, "--name", HOSTILE, "--out", str(out)]) == 0
        text = out.read_text()
        assert "<script" not in text and "\x1b" not in text and "\u202e" not in text and "[a](" not in text
        assert "\n# " not in text.split("---")[-1].replace(f"\n# {publish.words(HOSTILE)}", "", 1)


MALFORMED = [
    b"", b"[]", b"{}", b"[" * 100_000, b'{"cells": 1}', b"\xff", b'{"cells": [1]}', b"null", b'"cells"',
]  # fmt: skip


@pytest.mark.parametrize("field", ["n", "accuracy", "ci95", "suite", "model", "mode", "verdicts", "epsilon"])
@pytest.mark.parametrize("value", [None, "x", -1, [], {}, float("nan")])
def test_malformed_cells(attacked, tmp_path, field, value):
    results = json.loads(json.dumps(attacked.results))
    results["cells"][1][field] = value
    (tmp_path / "results.json").write_text(json.dumps(results))
    one_line(tmp_path, may_pass=(field, value) in {("epsilon", None), ("suite", "x"), ("model", "x"), ("mode", "x")}
             if value is None or isinstance(value, str) else False)  # fmt: skip


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_files(tmp_path, text):
    (tmp_path / "results.json").write_bytes(text)
    one_line(tmp_path)


def one_line(folder, may_pass=False):
    """What is wrong costs one line."""
    for target in ("robustbench", "model-card"):
        try:
            publish.main([str(folder), "--to", target, "--out", str(folder / "out")])
        except selfheal.SelfhealError as problem:
            assert "\n" not in str(problem)
        else:
            assert may_pass


def broken(folder, attacked):
    """A run none of whose cells has verdicts."""
    into = folder / "broken"
    into.mkdir()
    results = {**attacked.results, "cells": [{**c, "error": "no"} for c in attacked.results["cells"]]}
    (into / "results.json").write_text(json.dumps(results))
    return into
