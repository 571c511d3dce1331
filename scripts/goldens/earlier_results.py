#!/usr/bin/env python3
"""Makes a corpus of what a version of the program leaves behind, for the test that later versions read it:

    python3 scripts/goldens/earlier_results.py --program PROGRAM --out internal/cli/testdata/earlier/VERSION.tar.gz

The archive holds a folder with a config, its network and images, and of that config: a finished run (`finished`), one
that SIGTERM ended (`stopped`) and one that SIGKILL did (`killed`), two shards and their merge (`shards`, `merged`), one shard alone (`alone`), an attack by
flags (`attacked`), a baseline, a comparison over time, a cache of fits, an embedding that was
fitted (`hidden.onnx`) and one that SIGTERM ended (`long.onnx.training`). Pictures are left out.
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

import numpy as np

from zoo import datasets

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = """version: 1
seeds: 2
default_suites: [known, unknown, carried]
datasets:
  test: {format: npz, path: images.npz}
  train: {format: npz, path: train.npz}
models:
  tiny: {path: tiny.onnx, preprocess: {mean: 0.5, std: 0.5}}
  other: {path: tiny.onnx, preprocess: {mean: 0.45, std: 0.5}}
controls:
  linear:
    solver: {method: greedy}
    layers: [{at: last, embedding: {kind: linear, fit: train, rank: 8}}]
  fitted:
    solver: {method: msa, outer: 2, inner: 2}
    layers:
      - at: last
        embedding: {kind: autoencoder, architecture: mlp-ae, width: 4, fit: train, epochs: 2, models: [tiny], path: hidden.onnx}
  long:
    solver: {method: greedy}
    layers:
      - at: last
        embedding:
          {kind: autoencoder, architecture: mlp-ae, width: 4, fit: train, epochs: 2000, models: [tiny], path: long.onnx}
attacks:
  aa: {kind: autoattack, version: quick, norm: linf, epsilon: [1/255, 2/255]}
  one: {kind: pgd, norm: linf, epsilon: 2/255}
  fmn: {kind: fmn, norm: l2, epsilon: 1, steps: 30, refine: 2}
  levels: {kind: pgd, norm: linf, epsilon: 2/255, pixels: 8bit}
  square: {kind: square, norm: l2, epsilon: 0.3, queries: 20}
  patient: {kind: square, norm: linf, epsilon: 0.1/255, queries: 20000}
  smooth: {kind: smoothing, norm: l2, epsilon: 0.1, sigma: 0.12, n0: 20, n: 200}
  crown: {kind: bounds, method: crown, norm: linf, epsilon: 0.2/255}
  between: {kind: bracket, norm: linf, budget: 0.2s, epsilon: 1/255}
  moved: {kind: spatial, queries: 20}
suites:
  known: {dataset: test, models: [tiny], controls: [linear], attacks: [aa, smooth, crown, between, moved], mode: whitebox-through}
  unknown: {dataset: test, models: [tiny], controls: [linear, fitted], attacks: [one, fmn, levels], solver: {images: 2},
            save_adversarial: true, mode: oblivious}
  carried: {dataset: test, models: [tiny, other], attacks: [square], mode: transfer}
  patient: {dataset: test, models: [tiny], attacks: [aa, patient]}
  long: {dataset: test, models: [tiny], controls: [long], attacks: [aa], mode: oblivious}
gate: {max_drop: 0.05, min: {none/none: 0.1}}
"""


def images(folder):
    """Images of 16×16 levels, the means of 2×2 of the bundled ones': to score, and to fit on."""
    for name, records, count in (("images", "test.bin", 24), ("train", "train.bin", 20)):
        images, labels = datasets.read_records(datasets.SHAPES10 / records, count=count)
        pixels = images.reshape(-1, 3, 16, 2, 16, 2).mean((3, 5)).round().astype(np.uint8)
        np.savez_compressed(folder / f"{name}.npz", x=pixels, y=labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path, help="the archive")
    arguments = parser.parse_args()
    program = arguments.program.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        here = pathlib.Path(scratch)
        environment = {**os.environ, "XDG_CACHE_HOME": str(here / "cache")}
        runtime = subprocess.run([program, "version"], capture_output=True, text=True, check=True, env=os.environ).stdout
        library = next(pathlib.Path.home().glob(".cache/selfheal/onnxruntime/**/libonnxruntime.so*"), None)
        if library:
            environment["ONNXRUNTIME_SHARED_LIBRARY"] = str(library)

        def selfheal(*args, codes=(0,)):
            done = subprocess.run([program, *args], cwd=here, env=environment, capture_output=True, text=True)
            if done.returncode not in codes:
                raise SystemExit(f"selfheal {' '.join(args)}: exit {done.returncode}\n{done.stderr}")
            return done.stdout

        def stopped(how, path, *args):
            """Ends a command by a signal a second after it has written this file."""
            running = subprocess.Popen([program, *args], cwd=here, env=environment, stderr=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL)
            while not (here / path).exists() and running.poll() is None:
                time.sleep(0.05)
            time.sleep(1)
            running.send_signal(how)
            if running.wait() not in (128 + how, -how):
                raise SystemExit(f"selfheal {' '.join(args)} was not stopped: exit {running.returncode}")

        (here / "config.yaml").write_text(CONFIG)
        images(here)
        shutil.copy(ROOT / "harness/testdata/configs/tiny.onnx", here)
        selfheal("fit", "--control", "fitted")
        stopped(signal.SIGTERM, "long.onnx.training", "fit", "--control", "long")
        selfheal("run", "--out", "finished")
        for name, how in (("stopped", signal.SIGTERM), ("killed", signal.SIGKILL)):
            stopped(how, f"{name}/selfheal-journal/results.json", "run", "--suite", "patient", "--out", name)
        for i in (1, 2):
            selfheal("run", "--shard", f"{i}/2", "--out", "shards", "--suite", "known")
        selfheal("report", "shards", "--out", "merged")
        selfheal("run", "--shard", "1/2", "--out", "alone", "--suite", "known")
        selfheal("attack", "tiny.onnx", "--data", "images.npz", "--mean", "0.5", "--std", "0.5", "--norm", "l2",
                 "--epsilon", "0.2", "--attack", "pgd", "--out", "attacked")
        selfheal("check", "--update", "--baseline", "baseline.json", "finished")
        selfheal("compare", "finished", "merged", "attacked", "--out", "compared")
        for path in (*here.glob("**/*.png"), *here.glob("**/*.svg"), *here.glob("**/*.lock"), *here.glob("**/*.tex")):
            path.unlink()
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(arguments.out, "w:gz") as archive:
            for path in sorted(here.rglob("*")):
                archive.add(path, path.relative_to(here), recursive=False)
        for path in sorted(here.rglob("*")):
            if path.is_file():
                print(path.stat().st_size, path.relative_to(here))
        print(runtime.splitlines()[0], arguments.out.stat().st_size)


if __name__ == "__main__":
    main()
