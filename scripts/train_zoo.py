#!/usr/bin/env python3
"""Makes everything under models/zoo: images, two classifiers, two embedding functions, measurements.

    python3 scripts/train_zoo.py --out models/zoo

Finished steps are kept as checkpoints in --cache, so an interrupted run goes on where it stopped and
`--only standard` and `--only robust` may run side by side. `--fresh` ignores the checkpoints.
"""

import argparse
import json
import pathlib
import tempfile
import time

import torch

import attacks
import evaluation
import export
import networks
import shapes10
import training

SEEDS = {"classifier pool": 1, "test": 2, "train": 3, "embedding pool": 4,
         "standard": 21, "robust": 22, "input": 23, "hidden": 24, "attacks": 25}
TEST_COUNT, TRAIN_COUNT = 256, 400
CLASSIFIER_POOL, EMBEDDING_POOL = 24000, 40000


class Zoo:
    """The steps in their order; each loads its checkpoint or trains and saves it."""

    def __init__(self, out, cache, fresh):
        self.out, self.cache, self.fresh = pathlib.Path(out), pathlib.Path(cache), fresh
        self.cache.mkdir(parents=True, exist_ok=True)
        self.pools, self.trained = {}, {}

    def pool(self, name, count):
        if name not in self.pools:
            self.pools[name] = training.Pool(SEEDS[name], count)
        return self.pools[name]

    def step(self, name, network, train):
        """The trained network `name`: from memory, from its checkpoint, or by calling train()."""
        path = self.cache / f"{name}.pt"
        if name not in self.trained and path.exists() and not self.fresh:
            network.load_state_dict(torch.load(path))
            self.trained[name] = training.freeze(network)
        if name not in self.trained:
            start = time.time()
            self.trained[name] = train()
            torch.save(self.trained[name].state_dict(), path)
            print(f"{name}: trained in {(time.time() - start) / 60:.1f} minutes", flush=True)
        return self.trained[name]

    def standard(self):
        return self.step("standard", networks.PreActivationResNet(), lambda: training.train_classifier(
            self.pool("classifier pool", CLASSIFIER_POOL), SEEDS["standard"], epochs=30, peak_rate=0.2))

    def robust(self):
        return self.step("robust", networks.PreActivationResNet(), lambda: training.train_classifier(
            self.pool("classifier pool", CLASSIFIER_POOL), SEEDS["robust"], epochs=30, peak_rate=0.15,
            attack_steps=2, ramp=0.3))

    def classifiers(self):
        return {"standard": self.standard(), "robust": self.robust()}

    def input(self):
        return self.step("input", networks.InputAutoEncoder(), lambda: training.train_input_embedding(
            self.pool("embedding pool", EMBEDDING_POOL), list(self.classifiers().values()), SEEDS["input"],
            epochs=6, weight=0.01))

    def hidden(self):
        return self.step("hidden", networks.HiddenAutoEncoder(), lambda: training.train_hidden_embedding(
            self.pool("embedding pool", EMBEDDING_POOL), list(self.classifiers().values()), self.input(),
            SEEDS["hidden"], epochs=15, weight=0.1))

    def images(self):
        """Write the committed image files."""
        for name, count in (("test", TEST_COUNT), ("train", TRAIN_COUNT)):
            shapes10.write_records(self.out / "shapes10" / f"{name}.bin", *shapes10.generate(SEEDS[name], count))

    def export(self):
        """Write the four .onnx files."""
        for name, classifier in self.classifiers().items():
            export.export_classifier(classifier, self.out / f"preact_{name}.onnx")
        export.export_embedding(self.input(), (3, shapes10.SIZE, shapes10.SIZE), self.out / "input_ae.onnx")
        export.export_embedding(self.hidden(), (networks.PreActivationResNet.feature_count,),
                                self.out / "hidden_ae.onnx")

    def measure(self):
        """Attack the undefended classifiers, heal, and write measured.json."""
        images, labels = shapes10.read_records(self.out / "shapes10" / "test.bin")
        images, labels = torch.from_numpy(images).float() / 255.0, torch.from_numpy(labels).long()
        linear = training.train_linear(self.pool("classifier pool", CLASSIFIER_POOL))
        report = {"images": len(images), "epsilon": attacks.EPSILONS,
                  "linear_classifier_clean": round(training.accuracy(linear, images, labels), 4)}
        for name, classifier in self.classifiers().items():
            report[name] = evaluation.evaluate(classifier, self.input(), self.hidden(), images, labels,
                                               SEEDS["attacks"])
        text = json.dumps(report, indent=2)
        (self.out / "measured.json").write_text(text + "\n")
        print(text)

    def all(self):
        for step in (self.images, self.standard, self.robust, self.input, self.hidden, self.export, self.measure):
            step()


def main():
    steps = ("images", "standard", "robust", "input", "hidden", "export", "measure", "all")
    default_cache = pathlib.Path(tempfile.gettempdir()) / "selfheal-zoo"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="models/zoo", help="folder to write (default %(default)s)")
    parser.add_argument("--cache", default=default_cache, help="folder of checkpoints (default %(default)s)")
    parser.add_argument("--only", choices=steps, default="all", help="run one step instead of all")
    parser.add_argument("--fresh", action="store_true", help="train anew even where a checkpoint exists")
    parser.add_argument("--threads", type=int, default=1, help="torch threads (default %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    getattr(Zoo(arguments.out, arguments.cache, arguments.fresh), arguments.only)()


if __name__ == "__main__":
    main()
