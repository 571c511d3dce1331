#!/usr/bin/env python3
"""Measures what an embedding in front of a network does to images.

    python3 scripts/paper/healing.py --run FOLDER --config FILE --embedding CONTROL=FILE [--embedding CONTROL=FILE]

The run crafted with `mode: oblivious` and `save_adversarial: true`, with each CONTROL a greedy control that has the
embedding in FILE (ONNX) at the input alone. For each model, attack and control: accuracy on clean and on crafted images,
the mean of ‖E(x) − x‖² over clean images x, and over crafted images x + δ the mean share of the perturbation that passes
the embedding, ‖E(x + δ) − E(x)‖ / ‖δ‖ in ℓ2. A projection onto the images' manifold would have both near
0. The interpreter needs numpy, onnxruntime, PyTorch and PyYAML.
"""

import argparse
import json
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

import numpy
import onnxruntime
import yaml

from verify import documents
from zoo import datasets


def embed(session, images, batch=100):
    name = session.get_inputs()[0].name
    return numpy.concatenate([session.run(None, {name: images[i:i + batch]})[0] for i in range(0, len(images), batch)])


def lengths(x):
    return numpy.linalg.norm(x.reshape(len(x), -1).astype(numpy.float64), axis=1)


def rows(results, folder, clean, embeddings):
    cells = results["cells"]
    plain = {(c["model"], c["defense"]): c for c in cells if c["attack"] == "none"}
    for cell in cells:
        control = cell["defense"]
        if cell["attack"] == "none" or control not in embeddings:
            continue
        saved, = (folder / "adversarial").glob(f"{cell['suite']}_{cell['model']}_{cell['attack']}_{cell['epsilon']:.6g}_*.npy")
        crafted = numpy.load(saved)
        e = embed(embeddings[control], clean)
        moved = lengths(crafted - clean)
        passed = lengths(embed(embeddings[control], crafted) - e)[moved > 0] / moved[moved > 0]
        yield [cell["model"], control, cell["attack"], f"{100 * plain[cell['model'], control]['accuracy']:.1f}",
               f"{100 * cell['accuracy']:.1f}", f"{(lengths(e - clean) ** 2).mean():.3g}", f"{passed.mean():.2f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=pathlib.Path, required=True, help="folder of results")
    parser.add_argument("--config", type=pathlib.Path, required=True, help="that it ran")
    parser.add_argument("--embedding", action="append", required=True, metavar="CONTROL=FILE", help="may be repeated")
    arguments = parser.parse_args()
    results = json.loads((arguments.run / "results.json").read_text(encoding="utf-8"))
    config = yaml.safe_load(arguments.config.read_text(encoding="utf-8"))
    dataset = dict(config["datasets"][results["cells"][0]["dataset"]])
    _, images, _ = datasets.of_config({**dataset, "path": arguments.config.parent / dataset["path"]}, results["cells"][0]["n"])
    embeddings = dict(e.split("=", 1) for e in arguments.embedding)
    embeddings = {control: onnxruntime.InferenceSession(file) for control, file in embeddings.items()}
    header = ["network", "control", "attack", "clean", "attacked", "‖E(x) − x‖²", "share that passes"]
    print(documents.table(header, list(rows(results, arguments.run, images, embeddings))))


if __name__ == "__main__":
    main()
