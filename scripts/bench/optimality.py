#!/usr/bin/env python3
"""Measures how near attacks come to the smallest perturbations, ours beside other libraries': a table of docs/measured/attacks.md.

    python3 scripts/bench/optimality.py --config ../shared/real/config.yaml --model NAME [--model NAME] \\
        [--images 100] [--steps 200 | --queries 1000 --seeds 3] [--out docs/measured/attacks.md]

Each attack that looks for the smallest norm is run with as many passes on the same networks and images by selfheal and by
a library: adv_lib (github.com/jeromerony/adversarial-library), Foolbox. "refined" is selfheal's with `refine: 4`, in
l0 10, which take the place of half as many steps. With --queries they are those that see classes
alone, beside Foolbox's and the authors' of RayS (github.com/uclaml/RayS, on PYTHONPATH): of the points that each asked
about within as many queries the nearest misclassified one counts. The network is the ONNX file in both. Of each
image the smallest norm that any of them found is the envelope. An attack's optimality is AttackBench's (Cinà et al. 2025):
1 less the area between its curve of accuracy against epsilon and the envelope's, divided by that between no attack at all
and the envelope, up to where the envelope is 0; of several networks the mean comes behind. The interpreter needs PyTorch,
onnx, PyYAML, adv_lib and foolbox, and with --queries onnxruntime.
"""

import argparse
import importlib.metadata
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import types

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

import numpy
import torch
import yaml

from goldens.attacks import NORMS, in_parts, lengths, right
from verify import documents
from zoo import datasets
from zoo.onnx_network import OnnxNetwork

LARGEST = {"linf": 1.0, "l2": 55.0, "l1": 3072.0, "l0": 3072}  # epsilons beyond every image of 3x32x32


def adv_lib(name, **options):
    """An attack of adv_lib as a function of network, images, labels, norm and steps."""
    def run(network, images, labels, norm, steps):
        from adv_lib import attacks
        more = {} if name in ("ddn", "sigma_zero") else {"norm": NORMS[norm]}
        more["num_steps" if name in ("pdpgd", "sigma_zero") else "steps"] = steps
        return getattr(attacks, name)(network, images, labels, **options, **more)
    return run


def foolbox(name):
    """The same of Foolbox, with an attack class for each norm."""
    def run(network, images, labels, norm, steps):
        import foolbox as library
        prefix = {"linf": "LInf", "l2": "L2", "l1": "L1", "l0": "L0"}[norm] if name == "FMNAttack" else ""
        attack = getattr(library.attacks, prefix + name)(steps=steps)
        return attack.run(library.PyTorchModel(network, bounds=(0, 1)), images, labels)
    return run


class Runtime(torch.nn.Module):
    """A network by ONNX Runtime, one image at a time: answers do not depend on what else is asked."""

    def __init__(self, path, prepare):
        super().__init__()
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        mean, std = prepare.get("mean", [0]), prepare.get("std", [1])
        self.mean, self.std = torch.tensor(mean).view(-1, 1, 1).float(), torch.tensor(std).view(-1, 1, 1).float()

    def forward(self, x):
        name = self.session.get_inputs()[0].name
        logits = [self.session.run(None, {name: one.numpy()})[0] for one in ((x - self.mean) / self.std).split(1)]
        return torch.from_numpy(numpy.concatenate(logits))


class Asked(torch.nn.Module):
    """A network that keeps the nearest misclassified point which it was asked about, and ends after so many queries."""

    class Enough(Exception):
        pass

    def __init__(self, network, image, label, norm, queries):
        super().__init__()
        self.network, self.image, self.label, self.norm, self.left = network, image, label, norm, queries
        self.nearest, self.best = image, math.inf

    def forward(self, points):
        if self.left == 0:
            raise Asked.Enough
        points = points[:self.left]
        self.left -= len(points)
        logits = self.network(points)
        measured = lengths(points - self.image, self.norm)
        measured[logits.argmax(1) == self.label] = math.inf
        if measured.min() < self.best:
            self.best, self.nearest = float(measured.min()), points[measured.argmin()][None].clone()
        if self.left == 0:
            raise Asked.Enough
        return logits


def by_queries(attack):
    """attack(network, image, label, norm) for each image, stopped after so many queries."""
    def run(network, images, labels, norm, queries):
        found = []
        for image, label in zip(images.split(1), labels.split(1)):
            asked = Asked(network, image, label, norm, queries).eval()
            if right(network, image, label):
                try:
                    attack(asked, image, label, norm)
                except Asked.Enough:
                    pass
            found.append(asked.nearest)
        return torch.cat(found)
    return run


def hop_skip_jump(network, image, label, norm):
    import foolbox as library
    library.attacks.HopSkipJumpAttack(steps=1000, constraint=norm).run(library.PyTorchModel(network, bounds=(0, 1)), image, label)


def rays(network, image, label, norm):
    sys.modules["pgbar"] = types.SimpleNamespace(progress_bar=lambda *_: None)  # theirs wants a terminal
    torch.Tensor.cuda = lambda self: self  # and a GPU
    from RayS import RayS
    RayS(types.SimpleNamespace(predict_label=lambda x: network(x).argmax(1)), epsilon=0).attack_hard_label(image, label)


# Kind of attack, its norms, and who else has it: by steps and by queries.
STEPS = (
    ("ddn", ("l2",), {"adv_lib": adv_lib("ddn", levels=None), "Foolbox": foolbox("DDNAttack")}),
    ("fmn", ("linf", "l2", "l1", "l0"), {"adv_lib": adv_lib("fmn"), "Foolbox": foolbox("FMNAttack")}),
    ("pdpgd", ("linf", "l2", "l1"), {"adv_lib": adv_lib("pdpgd")}),
    ("sigma-zero", ("l0",), {"adv_lib": adv_lib("sigma_zero")}),
)
QUERIES = (
    ("hop-skip-jump", ("linf", "l2"), {"Foolbox": by_queries(hop_skip_jump)}),
    ("rays", ("linf",), {"authors": by_queries(rays)}),
)
DRAW = ("hop-skip-jump",)  # of those with queries
SOURCES = {"Foolbox": "foolbox"}
REFINE = {"linf": 4, "l2": 4, "l1": 4, "l0": 10}  # forward passes, in place of half as many last steps


def ours(selfheal, config, model, images, kinds, passes, seed):
    """Distances of selfheal's attacks by kind and norm: a list with inf where none was found, 0 where none was needed."""
    attacks = {f"{kind}-{norm}": {"kind": kind, "norm": norm, "epsilon": LARGEST[norm], **passes}
               for kind, norms, _ in kinds for norm in norms}
    tree = {**config, "attacks": attacks, "suites": {"s": {"dataset": config["default"], "models": [model],
                                                            "attacks": list(attacks)}}, "default_suites": ["s"],
            "seed": seed}
    del tree["default"]
    tree["controls"] = {}
    with tempfile.TemporaryDirectory(prefix="selfheal-optimality-") as folder:
        path = pathlib.Path(folder) / "config.yaml"
        path.write_text(yaml.safe_dump(tree), encoding="utf-8")
        subprocess.run([selfheal, "run", "--config", path, "--out", f"{folder}/out", "--quiet", "--limit", str(images)], check=True)
        records = [json.loads(line) for line in open(f"{folder}/out/records.jsonl", encoding="utf-8")]
    found = {}
    for r in records:
        if r["attack"] != "none":
            d = r["distance"]
            wrong = r["verdict"] == 0 and r["first_success"] is None
            found.setdefault(r["attack"], []).append(0.0 if wrong else math.inf if d is None else d)
    return {(kind, norm): found[f"{kind}-{norm}"] for kind, norms, _ in kinds for norm in norms}


def theirs(run, network, images, labels, norm, passes, seed):
    torch.manual_seed(seed)
    adversarial = in_parts(lambda x, y: run(network, x, y, norm, *passes.values()), images, labels)
    broken, clean = ~right(network, adversarial, labels), right(network, images, labels)
    measured = lengths(adversarial - images, norm).tolist()
    return [0.0 if not c else d if b else math.inf for d, b, c in zip(measured, broken.tolist(), clean.tolist())]


def optimality(distances, envelope):
    """AttackBench's, of 1 where the attack is the envelope."""
    largest = max(d for d in envelope if d < math.inf)
    clean = [d for d in envelope if d > 0]
    area = sum(min(d, largest) for d in distances)
    best, none = sum(min(d, largest) for d in envelope), largest * len(clean)
    return 1 - (area - best) / (none - best)


def measure(selfheal, config, base, model, images, kinds, passes, seeds):
    dataset = dict(config["datasets"][config["default"]])
    _, x, y = map(torch.from_numpy, datasets.of_config({**dataset, "path": base / dataset["path"]}, images))
    settings = config["models"][model]
    prepare, path = settings.get("preprocess") or {}, base / settings["path"]
    network = Runtime(path, prepare) if "queries" in passes else OnnxNetwork(path, prepare.get("mean"), prepare.get("std"))
    network.eval()
    mine = {}
    for seed in range(seeds):
        drawn = kinds if seed == 0 else [k for k in kinds if k[0] in DRAW]
        for what, d in ours(selfheal, absolute(config, base), model, images, drawn, passes, seed).items():
            mine[what] = mine.get(what, []) + d
    refined = {}
    for norm in NORMS if "steps" in passes else ():
        of = [(kind, [norm], others) for kind, norms, others in kinds if norm in norms]
        refined.update(ours(selfheal, absolute(config, base), model, images, of, {**passes, "refine": REFINE[norm]}, 0))
    rows = []
    for norm in NORMS:
        runs = {}
        for kind, norms, others in kinds:
            if norm in norms:
                runs[kind, "selfheal"] = mine[kind, norm]
                if refined:
                    runs[kind, "selfheal, refined"] = refined[kind, norm]
                for library, run in others.items():
                    runs[kind, library] = [d for seed in range(seeds if kind in DRAW else 1)
                                           for d in theirs(run, network, x, y, norm, passes, seed)]
                    print(f"{model}, {norm}, {kind}, {library}", file=sys.stderr, flush=True)
        if not runs:
            continue
        runs = {who: d * (images * seeds // len(d)) for who, d in runs.items()}  # some do not draw
        envelope = [min(min(d[i::images]) for d in runs.values()) for i in range(images)] * seeds
        for (kind, library), d in runs.items():
            median = statistics.median(v for v in d if v > 0)
            rows.append([model, norm, kind, library, f"{median:.4g}", sum(v == math.inf for v in d),
                         f"{optimality(d, envelope):.3f}"])
    return rows


def means(rows):
    """Rows of the optimality's mean over networks, of the printed numbers."""
    found = {}
    for _, norm, kind, library, _, unbroken, value in rows:
        found.setdefault((norm, kind, library), []).append((unbroken, float(value)))
    return [["mean", *what, "", sum(n for n, _ in all_of), f"{statistics.mean(v for _, v in all_of):.3f}"]
            for what, all_of in found.items()]


def absolute(config, base):
    """The config with paths that hold anywhere."""
    tree = json.loads(json.dumps(config))
    for section in ("datasets", "models"):
        for entry in tree[section].values():
            entry["path"] = str((base / entry["path"]).resolve())
    return tree


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=pathlib.Path, required=True)
    parser.add_argument("--dataset", help="of the config (default: its first)")
    parser.add_argument("--model", action="append", required=True, metavar="NAME", help="may be repeated")
    parser.add_argument("--images", type=int, default=100, help="the first N (default %(default)s)")
    parser.add_argument("--steps", type=int, default=200, help="of every attack (default %(default)s)")
    parser.add_argument("--queries", type=int, help="attacks that see classes alone, with so many")
    parser.add_argument("--seeds", type=int, default=1, help="of attacks that draw, counted together (default %(default)s)")
    parser.add_argument("--selfheal", default="selfheal", help="the built program (default: the PATH's)")
    parser.add_argument("--out", type=pathlib.Path,
                        help="document whose table \"optimality\" or \"queries\" is brought up to date")
    arguments = parser.parse_args()
    config = yaml.safe_load(arguments.config.read_text(encoding="utf-8"))
    config["default"] = arguments.dataset or next(iter(config["datasets"]))
    name, kinds, passes = "optimality", STEPS, {"steps": arguments.steps}
    if arguments.queries:
        name, kinds, passes = "queries", QUERIES, {"queries": arguments.queries}
    rows = [row for model in arguments.model
            for row in measure(arguments.selfheal, config, arguments.config.parent, model, arguments.images, kinds, passes,
                               arguments.seeds)]
    if len(arguments.model) > 1:
        rows += means(rows)
    header = ["network", "norm", "attack", "by", "median", "unbroken", "optimality"]
    table = documents.table(header, rows)
    if arguments.out:
        count = ", ".join(f"{n} {unit}" for unit, n in passes.items())
        seeds = f", {arguments.seeds} seeds" if arguments.seeds > 1 else ""
        versions = f"{arguments.images} images, {count}{seeds}, PyTorch {torch.__version__}"
        versions += "".join(f", {name} {importlib.metadata.version(package)}" for name, package in SOURCES.items())
        documents.replace_block(arguments.out, name, versions + ".\n\n" + table)
    print(table)


if __name__ == "__main__":
    main()
