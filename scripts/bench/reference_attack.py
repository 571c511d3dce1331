"""PyTorch's side of autoattack.py, in a process of its own: the reference AutoAttack on an ONNX classifier.

    PYTHONPATH=/path/to/auto-attack python3 reference_attack.py < job.json > result.json

A job has `do`, "margins", "attack" or "pgd"; `model`, `mean`, `std`; `dataset` with `format`, `path` and, if wanted,
`indices`; `images`, how many; `threads`; `device`, "cpu" unless said, and `tf32` on another, false unless said; and for
an attack `norm` (linf, l2, l1), `epsilon` and `seed`. Margins are the label's logit minus the largest other one, by image id. An attack is one call of AutoAttack, version standard, with
its default batch; its seconds run from the line that it logs for clean accuracy to the line of its last component,
so that neither loading nor its checks of the model count. "pgd" is PGD in linf by a `library`, one of PEERS, with a
random start, `steps` and `step`, `batch` images at a time, of those that are classified right; its seconds are those of
the library's calls.
"""

import argparse
import contextlib
import json
import pathlib
import re
import sys
import time

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

import torch

from zoo import datasets
from zoo.onnx_network import OnnxNetwork

NORMS = {"linf": "Linf", "l2": "L2", "l1": "L1"}


class Clock:
    """AutoAttack's logger: reads accuracy and time off the lines that it is given, and repeats them on stderr."""

    def __init__(self, images):
        self.images, self.standing, self.last, self.steps = images, None, None, []

    def log(self, line):
        now = time.perf_counter()
        print(f"    {line}", file=sys.stderr, flush=True)
        if line.startswith("initial accuracy: "):
            self.clean = self.standing = self.count(line)
            self.last = now
        if found := re.match(r"robust accuracy after (\S+): ", line):
            attacked, self.standing = self.standing, self.count(line)
            self.steps.append({"attack": found.group(1).lower(), "attacked": attacked,
                               "robust": self.standing / self.images, "seconds": now - self.last})
            self.last = now

    def count(self, line):
        """Images still right, from a percentage with two decimals: exact for up to 5,000."""
        return round(float(re.search(r": ([\d.]+)%", line).group(1)) / 100 * self.images)


def margins(network, ids, images, labels):
    with torch.no_grad():
        logits = torch.cat([network(part) for part in images.split(64)])
    right = logits.gather(1, labels[:, None])[:, 0]
    others = logits.scatter(1, labels[:, None], -torch.inf).amax(dim=1)
    return {"margins": dict(zip(ids.tolist(), (right - others).tolist())), "torch": torch.__version__}


def attack(network, images, labels, norm, epsilon, seed, device="cpu"):
    from autoattack import AutoAttack
    clock = Clock(len(labels))
    with contextlib.redirect_stdout(sys.stderr):
        suite = AutoAttack(network, norm=NORMS[norm], eps=epsilon, version="standard", device=device, seed=seed)
        suite.logger = clock
        adversarial = suite.run_standard_evaluation(images, labels)
    with torch.no_grad():
        right = torch.cat([network(part) for part in adversarial.split(64)]).argmax(1) == labels
    if int(right.sum()) != clock.standing:
        raise SystemExit(f"AutoAttack logged {clock.standing} images as robust; {int(right.sum())} of those it returned are right")
    return {"clean": clock.clean / len(labels), "steps": clock.steps, "robust": clock.standing / len(labels),
            "seconds": sum(step["seconds"] for step in clock.steps),
            "flags": "".join("01"[flag] for flag in right.tolist())}


def foolbox_pgd(network, epsilon, steps, step, batch):
    import foolbox
    model = foolbox.PyTorchModel(network, bounds=(0, 1), device="cpu")
    pgd = foolbox.attacks.LinfPGD(abs_stepsize=step, steps=steps, random_start=True)
    return foolbox.__version__, lambda x, y: pgd(model, x, y, epsilons=epsilon)[1]


def art_pgd(network, epsilon, steps, step, batch):
    import art
    from art.attacks.evasion import ProjectedGradientDescentPyTorch
    from art.estimators.classification import PyTorchClassifier
    classifier = PyTorchClassifier(network, torch.nn.CrossEntropyLoss(), input_shape=(3, 32, 32), nb_classes=10,
                                   clip_values=(0, 1), device_type="cpu")
    pgd = ProjectedGradientDescentPyTorch(classifier, eps=epsilon, eps_step=step, max_iter=steps, num_random_init=1,
                                          batch_size=batch, verbose=False)
    return art.__version__, lambda x, y: torch.from_numpy(pgd.generate(x.numpy(), y.numpy()))


def torchattacks_pgd(network, epsilon, steps, step, batch):
    import torchattacks
    attack = torchattacks.PGD(network, eps=epsilon, alpha=step, steps=steps, random_start=True)
    attack.set_device("cpu")
    return torchattacks.__version__, attack


PEERS = {"Foolbox": foolbox_pgd, "ART": art_pgd, "torchattacks": torchattacks_pgd}


def pgd(network, images, labels, library, epsilon, steps, step, batch):
    for parameter in network.parameters():
        parameter.requires_grad_(False)

    def right(images, labels):
        with torch.no_grad():
            return torch.cat([network(part) for part in images.split(batch)]).argmax(1) == labels
    clean = right(images, labels)
    standing, known = images[clean], labels[clean]
    with contextlib.redirect_stdout(sys.stderr):
        version, run = PEERS[library](network, epsilon, steps, step, batch)
        start = time.perf_counter()
        found = torch.cat([run(x, y) for x, y in zip(standing.split(batch), known.split(batch))])
        seconds = time.perf_counter() - start
    return {"version": version, "torch": torch.__version__, "seconds": seconds,
            "robust": int(right(found, known).sum()) / len(labels), "largest": (found - standing).abs().max().item()}


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    job = json.load(sys.stdin)
    torch.set_num_threads(job["threads"])
    network = OnnxNetwork(job["model"], job["mean"], job["std"]).eval()
    ids, images, labels = map(torch.from_numpy, datasets.of_config(job["dataset"], job["images"]))
    device = job.get("device", "cpu")
    if device != "cpu":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = job.get("tf32", False)
        network, images, labels = network.to(device), images.to(device), labels.to(device)
    if job["do"] == "margins":
        answer = margins(network, ids, images, labels)
    elif job["do"] == "pgd":
        answer = pgd(network, images, labels, *(job[key] for key in ("library", "epsilon", "steps", "step", "batch")))
    else:
        answer = attack(network, images, labels, job["norm"], job["epsilon"], job["seed"], device)
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
