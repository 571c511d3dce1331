#!/usr/bin/env python3
"""Makes the files under models/zoo: images, eight classifiers, three embedding functions, measurements.

    python3 scripts/zoo/train_zoo.py --out models/zoo

Finished steps are kept as checkpoints in --cache, so an interrupted run goes on where it stopped and
`--only standard` and `--only robust` may run side by side, and so may the pairs (`--only wide`, …).
`--fresh` ignores the checkpoints. `--only measure` reads the committed files and needs none.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
import tempfile
import time
from typing import Callable

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

import torch

from zoo import attacks, datasets, export, networks, onnx_network, shapes10, training

SEEDS = {"classifier pool": 1, "test": 2, "train": 3, "embedding pool": 4, "pair pool": 5,
         "segnet pool": 6,
         "standard": 21, "robust": 22, "input": 23, "hidden": 24, "attacks": 25, "segnet": 26}
TEST_COUNT, TRAIN_COUNT = 256, 400
CLASSIFIER_POOL, EMBEDDING_POOL, PAIR_POOL, SEGNET_POOL = 24000, 40000, 40000, 12000


@dataclasses.dataclass(frozen=True)
class Pair:
    """A network trained twice: in the standard way in one cycle or two, and after the first adversarially.

    Each training is a seed, a number of epochs and a peak rate.
    """

    build: Callable
    first: tuple
    second: tuple | None
    robust: tuple


PAIRS = {
    "wider": Pair(networks.wider_resnet, (31, 12, 0.2), None, (32, 4, 0.1)),
    "wide": Pair(networks.wide_resnet, (33, 7, 0.2), (37, 6, 0.1), (34, 4, 0.1)),
    "efficientnet": Pair(networks.EfficientNet, (35, 6, 0.2), None, (36, 4, 0.1)),
}
IMAGE = (3, shapes10.SIZE, shapes10.SIZE)


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
            start = time.process_time()
            self.trained[name] = train()
            torch.save(self.trained[name].state_dict(), path)
            print(f"{name}: trained in {(time.process_time() - start) / 60:.1f} CPU minutes", flush=True)
        return self.trained[name]

    def standard(self):
        return self.step("standard", networks.PreActivationResNet(), lambda: training.train_classifier(
            networks.PreActivationResNet, "standard", self.pool("classifier pool", CLASSIFIER_POOL),
            SEEDS["standard"], epochs=30, peak_rate=0.2))

    def robust(self):
        return self.step("robust", networks.PreActivationResNet(), lambda: training.train_classifier(
            networks.PreActivationResNet, "robust", self.pool("classifier pool", CLASSIFIER_POOL),
            SEEDS["robust"], epochs=30, peak_rate=0.15, attack_steps=2, ramp=0.3))

    def classifiers(self):
        return {"standard": self.standard(), "robust": self.robust()}

    def pair(self, name):
        """Train one of PAIRS and write its two .onnx files."""
        pair = PAIRS[name]

        def build():
            return pair.build().to(memory_format=torch.channels_last)  # saves a third of the time

        def cycle(kind, start, recipe, **options):
            seed, epochs, rate = recipe
            return self.step(f"{name}_{kind}", build(), lambda: training.train_classifier(
                start, f"{name} {kind}", self.pool("pair pool", PAIR_POOL), seed, epochs, rate, **options))

        standard = first = cycle("first", build, pair.first)
        if pair.second:
            standard = cycle("second", lambda: training.thawed(first), pair.second)
        robust = cycle("robust", lambda: training.thawed(first), pair.robust, attack_steps=2, ramp=0.3)
        export.export_classifier(standard, self.out / f"{name}_standard.onnx")
        export.export_classifier(robust, self.out / f"{name}_robust.onnx")

    def input(self):
        return self.step("input", networks.InputAutoEncoder(), lambda: training.train_input_embedding(
            networks.InputAutoEncoder, self.pool("embedding pool", EMBEDDING_POOL), list(self.classifiers().values()), SEEDS["input"],
            epochs=6, weight=0.01))

    def segnet(self):
        """Train an embedding of the input that fits less well, on the committed classifiers, and write it."""
        classifiers = [onnx_network.OnnxNetwork(self.out / f"preact_{kind}.onnx") for kind in ("standard", "robust")]
        embedding = self.step("segnet", networks.SegNet(), lambda: training.train_input_embedding(
            networks.SegNet, self.pool("segnet pool", SEGNET_POOL), classifiers, SEEDS["segnet"], epochs=2, weight=0.01))
        export.export_embedding(embedding, IMAGE, self.out / "input_segnet.onnx")

    def hidden(self):
        return self.step("hidden", networks.HiddenAutoEncoder(), lambda: training.train_hidden_embedding(
            self.pool("embedding pool", EMBEDDING_POOL), list(self.classifiers().values()), self.input(),
            SEEDS["hidden"], epochs=15, weight=0.1))

    def images(self):
        """Write the committed image files."""
        for name, count in (("test", TEST_COUNT), ("train", TRAIN_COUNT)):
            shapes10.write_records(self.out / "shapes10" / f"{name}.bin", *shapes10.generate(SEEDS[name], count))
        (self.out / "shapes10" / "batches.meta.txt").write_text("".join(f"{name}\n" for name in shapes10.CLASSES))

    def export(self):
        """Write the first two classifiers and their embeddings."""
        for name, classifier in self.classifiers().items():
            export.export_classifier(classifier, self.out / f"preact_{name}.onnx")
        export.export_embedding(self.input(), IMAGE, self.out / "input_ae.onnx")
        export.export_embedding(self.hidden(), (networks.FEATURES,), self.out / "hidden_ae.onnx")

    def measure(self):
        """Attack the undefended classifiers, heal, and write measured.json, all from the files in `out`.

        hidden_64.onnx is made by `selfheal fit`, see fit.yaml there.
        """
        images, labels = map(torch.from_numpy, datasets.read_records(self.out / "shapes10" / "test.bin"))
        images = images.float() / 255.0
        linear = training.train_linear(self.pool("classifier pool", CLASSIFIER_POOL))
        report = {"images": len(images), "epsilon": attacks.EPSILONS,
                  "linear_classifier_clean": round(training.accuracy(linear, images, labels), 4)}
        for name in ("preact", *PAIRS):
            files = ("input_ae", "hidden_ae" if name == "preact" else "hidden_64")
            embeddings = [onnx_network.OnnxNetwork(self.out / f"{file}.onnx") for file in files]
            for kind in ("standard", "robust"):
                classifier = onnx_network.OnnxNetwork(self.out / f"{name}_{kind}.onnx")
                start = time.time()
                report[f"{name}_{kind}"] = training.evaluate(classifier, *embeddings, images, labels, SEEDS["attacks"])
                print(f"{name}_{kind}: measured in {(time.time() - start) / 60:.1f} minutes", flush=True)
        text = json.dumps(report, indent=2)
        (self.out / "measured.json").write_text(text + "\n")
        print(text)

    def all(self):
        for step in STEPS[:-1]:
            self.run(step)

    def run(self, step):
        if step in PAIRS:
            self.pair(step)
        else:
            getattr(self, step)()


STEPS = ("images", "standard", "robust", "input", "hidden", "export", "segnet", *PAIRS, "measure", "all")


def main():
    default_cache = pathlib.Path(tempfile.gettempdir()) / "selfheal-zoo"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="models/zoo", help="folder to write (default %(default)s)")
    parser.add_argument("--cache", default=default_cache, help="folder of checkpoints (default %(default)s)")
    parser.add_argument("--only", choices=STEPS, default="all", help="run one step instead of all")
    parser.add_argument("--fresh", action="store_true", help="train anew even where a checkpoint exists")
    parser.add_argument("--threads", type=int, default=1, help="torch threads (default %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    Zoo(arguments.out, arguments.cache, arguments.fresh).run(arguments.only)


if __name__ == "__main__":
    main()
