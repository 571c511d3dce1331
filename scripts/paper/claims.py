#!/usr/bin/env python3
"""Measures three of the paper's claims on a network and its embeddings: the running loss as a monitor, whether an
embedding is a projection, and how near an image must be for the paper's Theorem 2 to speak of it.

    python3 scripts/paper/claims.py --network docs/paper/rn-18/models/rn-18-standard.onnx \\
        --clean data/cifar-10-batches-bin/test_batch.bin --attacked run/adversarial/….npy \\
        --train data/cifar-10-batches-bin --input FCN=fcn.onnx unet=unet.onnx --last auto-encoder=hidden.onnx

A run with `save_adversarial: true` keeps `--attacked`, the first test images after its attack. For each embedding E of the
input, for the linear one of 99 % of the variance, and for each E of the pooled features:

- the running loss ½‖E(x) − x‖² of clean and of attacked images, and the probability that an attacked image has more
  of it than a clean one (the area under the ROC curve, with a 95 % interval by 2,000 bootstrap samples of the images);
- ‖E(E(x)) − E(x)‖ / ‖E(x) − x‖, which is 0 for a projection.

Theorem 2 needs three quantities of a network of segments F_t with linear embeddings: the norm of each Jacobian θ_t
at the clean state x_t, a bound β_t of each second derivative, and k_t, which is 0 as subspaces are flat. For a
network with ReLUs there is no β_t. The smallest that would serve the images at hand is measured instead, as
2‖F_t(x_t + δ) − F_t(x_t) − θ_t δ‖ / ‖δ‖² with the attack's δ, and each δ_{x_t} of the theorem is replaced by the least
that it can be, ‖θ_{t−1}…θ_0‖² times the share of a perturbation within the tangent space. So the ε that is printed is
larger than the theorem's.
"""

import argparse
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

import numpy as np
import onnx
import onnxruntime
import torch

from verify import documents
from zoo import datasets, onnx_network


def passed(session, states, batch=100):
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {name: states[i:i + batch]})[0] for i in range(0, len(states), batch)])


def flat(x):
    return x.reshape(len(x), -1).astype(np.float64)


def subspace(states, variance=0.99):
    """The projection onto the principal components that hold a share of the variance, around the mean."""
    rows = flat(states)
    mean = rows.mean(0)
    values, vectors = np.linalg.eigh(np.cov(rows.T, bias=True))
    kept = vectors[:, ::-1][:, :1 + int(np.searchsorted(np.cumsum(values[::-1]) / values.sum(), variance))]

    def project(x):
        return (mean + (flat(x) - mean) @ kept @ kept.T).reshape(x.shape)
    project.kept = kept
    return project


def running_loss(embed, states):
    return 0.5 * (flat(embed(states) - states) ** 2).sum(1)


def area(clean, attacked):
    """The probability that a value of the second is larger than one of the first; equal values count half."""
    order = np.sort(clean)
    below, upto = np.searchsorted(order, attacked, "left"), np.searchsorted(order, attacked, "right")
    return ((below + upto) / 2).mean() / len(clean)


def area_interval(clean, attacked, rng, draws=2000):
    """The area with its 95 % interval; an image and its attacked form are drawn together."""
    drawn = [area(clean[i], attacked[i]) for i in rng.integers(0, len(clean), (draws, len(clean)))]
    return area(clean, attacked), *np.percentile(drawn, [2.5, 97.5])


def returning(embed, states):
    """‖E(E(x)) − E(x)‖ / ‖E(x) − x‖, a mean over states: 0 for a projection."""
    once = embed(states)
    return (np.linalg.norm(flat(embed(once) - once), axis=1) / np.linalg.norm(flat(once - states), axis=1)).mean()


def segments(path, cuts, folder):
    """The network between tensors, as modules."""
    ends = [onnx.load(str(path)).graph.input[0].name, *cuts, onnx.load(str(path)).graph.output[0].name]
    for i, (begin, end) in enumerate(zip(ends, ends[1:])):
        part = folder / f"{i}.onnx"
        onnx.utils.extract_model(str(path), str(part), [begin], [end])
        yield onnx_network.OnnxNetwork(part).double()


def jacobian_norm(of, x, steps=40):
    """The spectral norm of the Jacobian of `of` at x, by power iteration, from below."""
    v, norm = torch.randn(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(0)), 0.0
    for _ in range(steps):
        v = v / v.norm()
        _, forward = torch.func.jvp(of, (x,), (v,))
        norm = forward.norm().item()
        _, back = torch.func.vjp(of, x)
        v, = back(forward)
    return norm


def largest_epsilon(norms, products, betas, share, flatness=0.0):
    """The largest ε that Theorem 2 allows, with the least δ_{x_t}; norms of θ_t, of θ_{t−1}…θ_0, and β_t."""
    total, tail = 0.0, 1.0
    for norm, product, beta in zip(reversed(norms), reversed(products), reversed(betas)):
        total += share * product ** 2 * (flatness * norm + 2 * beta) * tail
        tail *= norm + flatness * norm + 2 * beta
    return total ** -0.5 if total > 0 else float("inf")


def theorem_2(parts, clean, attacked, share):
    """For each image: the norms of the Jacobians, of their products, β_t, and the largest ε."""
    for x, hostile in zip(clean, attacked):
        x, hostile = torch.from_numpy(x[None]).double(), torch.from_numpy(hostile[None]).double()
        state, other, norms, products, betas = x, hostile, [], [], []

        for t, part in enumerate(parts):
            def before(v, t=t):
                for earlier in parts[:t]:
                    v = earlier(v)
                return v
            products.append(jacobian_norm(before, x) if t else 1.0)
            norms.append(jacobian_norm(part, state))
            delta = other - state
            ahead, linear = torch.func.jvp(part, (state,), (delta,))
            betas.append((2 * (part(other) - ahead - linear).norm() / delta.norm() ** 2).item())
            state, other = ahead.detach(), part(other).detach()
        yield norms, products, betas, largest_epsilon(norms, products, betas, share)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", type=pathlib.Path, required=True)
    parser.add_argument("--clean", required=True, help="CIFAR-10's test_batch.bin")
    parser.add_argument("--attacked", required=True, help="the same images, attacked: npy")
    parser.add_argument("--train", type=pathlib.Path, required=True, help="CIFAR-10's folder")
    parser.add_argument("--input", nargs="*", default=[], metavar="NAME=FILE", help="embeddings of the input")
    parser.add_argument("--last", nargs="*", default=[], metavar="NAME=FILE", help="embeddings of the pooled features")
    parser.add_argument("--cuts", nargs="*", default=[], help="tensors between segments (selfheal inspect)")
    parser.add_argument("--images", type=int, default=10, help="for Theorem 2")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("segments"), help="for its segments")
    arguments = parser.parse_args()
    attacked = np.load(arguments.attacked).astype(np.float32)
    _, clean, labels = datasets.of_config({"path": arguments.clean, "format": "cifar10-bin"}, len(attacked))
    network = onnx_network.OnnxNetwork(arguments.network).eval()
    train = np.concatenate([datasets.read_records(arguments.train / f"data_batch_{i}.bin")[0] for i in (1, 2)])
    train = train.astype(np.float32) / 255

    def features(images):
        with torch.no_grad():
            return np.concatenate([network.features(torch.from_numpy(images[i:i + 100])).numpy()
                                   for i in range(0, len(images), 100)])
    moved = np.abs(attacked - clean).reshape(len(clean), -1).max(1) > 0
    clean, attacked = clean[moved], attacked[moved]
    rng, rows = np.random.default_rng(0), []
    linear = subspace(train)
    for place, states, hostile, fitted, files in (("input", clean, attacked, linear, arguments.input),
                                                  ("last", features(clean), features(attacked),
                                                   subspace(features(train)), arguments.last)):
        embeddings = {name: onnxruntime.InferenceSession(path) for name, path in (f.split("=", 1) for f in files)}
        for name, embed in {**{n: (lambda x, s=s: passed(s, x)) for n, s in embeddings.items()}, "linear": fitted}.items():
            a, b = running_loss(embed, states), running_loss(embed, hostile)
            at, low, high = area_interval(a, b, rng)
            rows.append([place, name, f"{a.mean():.3g}", f"{b.mean():.3g}", f"{at:.3f} [{low:.3f}, {high:.3f}]",
                         f"{returning(embed, states):.2f}"])
    print(f"{len(clean)} images that the attack moved\n")
    print(documents.table(["place", "embedding", "clean", "attacked", "attacked above clean", "E again"], rows))
    if arguments.cuts:
        arguments.folder.mkdir(parents=True, exist_ok=True)
        parts = list(segments(arguments.network, arguments.cuts, arguments.folder))
        delta = flat(attacked - clean)
        share = ((delta @ linear.kept) ** 2).sum() / (delta ** 2).sum()
        found = list(theorem_2(parts, clean[:arguments.images], attacked[:arguments.images], share))
        norms, products, betas = (np.array([of[i] for of in found]) for i in range(3))
        print(f"\n{len(found)} images; {share:.3f} of the perturbation lies in the subspace; ε at most "
              f"{max(of[3] for of in found):.2g}, the attack's {np.linalg.norm(delta, axis=1).mean():.2f}\n")
        print(documents.table(["t", "‖θ_t‖", "‖θ_{t−1}…θ_0‖", "β_t at least"],
                              [[t, *(f"{np.median(of[:, t]):.3g}" for of in (norms, products, betas))]
                               for t in range(len(parts))]))


if __name__ == "__main__":
    main()
