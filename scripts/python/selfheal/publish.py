"""Takes a run's results to where they go next: MLflow, Weights & Biases, a model card, RobustBench's form."""

from __future__ import annotations

import argparse
import html
import pathlib
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

from ._errors import SelfhealError, UsageError
from ._results import NONE, Run, shown

KEPT = ("results.json", "report.html", "tables.md", "tables.csv", "summary.md")
FIGURES = "*.png"


def main(argv: list[str]) -> int:
    """Run the command's arguments; returns its exit code and raises SelfhealError."""
    parser = argparse.ArgumentParser(
        prog="python -m selfheal publish",
        description=__doc__,
        epilog=("example: python -m selfheal publish results --to mlflow --project robustness"),
    )
    parser.add_argument("folder", type=pathlib.Path, metavar="DIR", help="what a run has written")
    parser.add_argument("--to", choices=sorted(TARGETS), required=True)
    parser.add_argument(
        "--project", default="selfheal", help="experiment of MLflow, project of W&B (default %(default)s)"
    )
    parser.add_argument("--name", help="of the run there, of the model on a card (default: DIR's name)")
    parser.add_argument("--out", type=pathlib.Path, metavar="FILE", help="the card's file (default: it is printed)")
    parser.add_argument("--force", action="store_true", help="replace FILE")
    arguments = parser.parse_args(argv)
    run = Run(arguments.folder)
    name = arguments.name or arguments.folder.resolve().name
    try:
        text = TARGETS[arguments.to](run, name, arguments.project)
    except ImportError as missing:
        raise SelfhealError(f"--to {arguments.to} needs {missing.name}: install selfheal-onnx[publish]") from missing
    if text is None:
        return 0
    if arguments.out is None:
        print(text, end="")
    else:
        try:
            with open(arguments.out, "w" if arguments.force else "x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError as problem:
            raise UsageError(f"{arguments.out} is there: choose another --out or add --force") from problem
        except OSError as problem:
            raise SelfhealError(f"{arguments.out}: {problem.strerror or problem}") from problem
    return 0


def scored(run: Run) -> list[dict[str, Any]]:
    """The cells that have verdicts."""
    cells = [c for c in run.cells if not c.get("error")]
    if not cells:
        raise UsageError(f"{run.folder} has no cell with verdicts")
    return cells


def clean(text: str) -> str:
    """A name without what a terminal or a page obeys: control and direction characters become spaces."""
    return "".join(" " if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Cs") else c for c in text)


def words(text: str) -> str:
    """A name as words of Markdown and HTML, of which nothing is markup."""
    return re.sub(r"([\\`*\[\]|])", r"\\\1", html.escape(clean(text)))


def metric(cell: dict[str, Any]) -> str:
    """A cell's name as a metric: suite/model/defense/attack, and epsilon where there is one."""
    parts = [cell["suite"], cell["model"], cell["defense"], cell["attack"]]
    if cell.get("epsilon") is not None:
        parts.append(f"{cell['epsilon']:.6g}")
    return "/".join(clean(part).replace(":", "-") for part in parts)


def settings(run: Run) -> dict[str, str]:
    """What a run was of, as flat parameters."""
    r = run.results
    flat = {
        "seed": r["seed"],
        "config_sha256": r["config_sha256"],
        **{f"environment.{key}": value for key, value in r["environment"].items()},
        **{f"models.{name}.sha256": m["sha256"] for name, m in r["models"].items()},
        **{f"datasets.{name}.sha256": d["sha256"] for name, d in r["datasets"].items()},
        **{f"attacks.{name}.recipe": a["recipe"] for name, a in r["attacks"].items()},
    }
    return {key: str(value) for key, value in flat.items()}


def files(run: Run) -> Iterator[pathlib.Path]:
    """What is kept of a run's folder."""
    yield from (run.folder / name for name in KEPT if (run.folder / name).is_file())
    yield from sorted(run.folder.glob(FIGURES))


def to_mlflow(run: Run, name: str, project: str) -> None:
    """A run of MLflow's experiment, where MLFLOW_TRACKING_URI says."""
    import mlflow

    cells = scored(run)
    mlflow.set_experiment(project)
    with mlflow.start_run(run_name=name):
        mlflow.log_params(settings(run))
        mlflow.log_metrics({metric(c): c["accuracy"] for c in cells})
        for path in files(run):
            mlflow.log_artifact(str(path))


def to_wandb(run: Run, name: str, project: str) -> None:
    """A run of a W&B project; WANDB_MODE=offline keeps it here."""
    import wandb

    cells = scored(run)
    with wandb.init(project=project, name=name, config=settings(run), job_type="robustness") as record:
        record.log({metric(c): c["accuracy"] for c in cells})
        table = wandb.Table(columns=["cell", "accuracy", "low", "high", "n"])
        for c in cells:
            table.add_data(metric(c), c["accuracy"], *c["ci95"], c["n"])
        record.log({"cells": table})
        artifact = wandb.Artifact(f"{record.id}-report", type="report")
        for path in files(run):
            artifact.add_file(str(path))
        record.log_artifact(artifact)


def title(run: Run, cell: dict[str, Any]) -> str:
    """An attack as readers know it."""
    if cell["attack"] == NONE:
        return "none"
    attack = run.results["attacks"].get(cell["attack"].split(":")[0], {})
    said = words(str(attack.get("title") or cell["attack"]))
    epsilon = cell.get("epsilon")
    return said if epsilon is None else f"{said}, {words(cell['norm'])} {fraction(epsilon)}"


def fraction(epsilon: float) -> str:
    """An epsilon as it is written: in 255ths where it is whole numbers or quarters of them."""
    quarters = epsilon * 255 * 4
    if epsilon < 0.5 and abs(quarters - round(quarters)) < 1e-6:
        return f"{round(quarters) / 4:g}/255"
    return f"{epsilon:g}"


def to_model_card(run: Run, name: str, _: str) -> str:
    """A model card for Hugging Face's hub: its metadata, a table and how the numbers were made."""
    from huggingface_hub import EvalResult, ModelCardData

    cells = scored(run)
    evaluations = [
        EvalResult(
            task_type="image-classification",
            dataset_type=words(c["dataset"]),
            dataset_name=words(c["dataset"]),
            metric_type="accuracy",
            metric_name=f"accuracy under {title(run, c)}" if c["attack"] != NONE else "accuracy on clean images",
            metric_value=round(c["accuracy"], 6),
            dataset_args={"n": c["n"], "suite": words(c["suite"]), "defense": words(c["defense"])},
        )
        for c in cells
    ]
    data = ModelCardData(
        model_name=words(name),
        tags=["robustness", "adversarial", "selfheal"],
        eval_results=evaluations,
        pipeline_tag="image-classification",
    )
    rows = "".join(
        f"| {words(c['model'])} | {words(c['defense'])} | {title(run, c)} | {c['n']} | {shown(c)} |\n" for c in cells
    )
    environment = run.results["environment"]
    return (
        f"---\n{data.to_yaml()}\n---\n\n# {words(name)}\n\n## Robustness\n\n"
        "| model | control | attack | images | accuracy (95 % interval) |\n|---|---|---|---:|---|\n"
        f"{rows}\n{modes(cells)}Measured by selfheal {words(environment['selfheal'])} on ONNX Runtime "
        f"{words(environment['onnxruntime'])}, seed {run.results['seed']}; "
        f"configuration {words(run.results['config_sha256'][:12])}, "
        + ", ".join(
            f"{words(model)} is SHA-256 {words(m['sha256'][:12])}" for model, m in run.results["models"].items()
        )
        + ".\n"
    )


def modes(cells: list[dict[str, Any]]) -> str:
    """What the attacker knows of controls, where there are some."""
    known = sorted({c["mode"] for c in cells if c["defense"] != NONE})
    texts = {
        "oblivious": "Controls were attacked obliviously: images were made on the undefended network.",
        "whitebox-detached": "Controls were attacked with their outputs held constant in the gradient.",
        "whitebox-through": "Controls were attacked through their gradients.",
    }
    return "".join(texts.get(mode, words(mode)) + "\n" for mode in known) + "\n" * bool(known)


def to_robustbench(run: Run, name: str, _: str) -> str:
    """The claims of RobustBench's form for new models, a section each for networks without control."""
    sections: list[str] = []
    cells = scored(run)
    for c in cells:
        attack = run.results["attacks"].get(c["attack"], {})
        if c.get("recipe") is None or c["defense"] != NONE or attack.get("kind") != "autoattack":
            continue
        if c.get("norm") not in ("linf", "l2") or c.get("epsilon") is None:
            continue
        same = (
            k
            for k in cells
            if k["attack"] == NONE and k["defense"] == NONE and k["model"] == c["model"] and k["suite"] == c["suite"]
        )
        unperturbed = next(same, None)
        if unperturbed is None:
            continue
        sections.append(
            f"## Model {len(sections) + 1}\n\n- **Architecture**: {words(c['model'])}\n"
            f"- **Threat Model**: {'Linf' if c['norm'] == 'linf' else 'L2'}\n- **eps**: {fraction(c['epsilon'])}\n"
            f"- **Clean accuracy**: {100 * unperturbed['accuracy']:.2f}% ({c['n']} images of {words(c['dataset'])})\n"
            f"- **Robust accuracy**: {100 * c['accuracy']:.2f}%\n- **Additional data**: \n"
            f"- **Evaluation method**: {title(run, c)}, {words(c['recipe'])} of selfheal "
            f"{words(run.results['environment']['selfheal'])}, seed {run.results['seed']}\n"
            "- **Checkpoint and code**: \n"
        )
    if not sections:
        raise UsageError(
            f"{run.folder} has no AutoAttack in linf or l2 of a network without control, as RobustBench wants it"
        )
    return "# Leaderboard Claim(s)\n\n" + "\n".join(sections)


TARGETS: dict[str, Callable[[Run, str, str], str | None]] = {
    "mlflow": to_mlflow,
    "wandb": to_wandb,
    "model-card": to_model_card,
    "robustbench": to_robustbench,
}
