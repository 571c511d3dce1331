"""Checks one exported network: PyTorch's logits and input gradient against the Go program's gradient graph.

Three programs take part, so that each can live in its own interpreter and gives its memory back:

1. a PyTorch interpreter exports the network and saves inputs, cotangent, logits and gradient (`write_case`);
2. `selfheal inspect` and `selfheal grad` describe the model and write its vector-Jacobian graph;
3. an interpreter with onnxruntime runs that graph and compares (`python verification.py FOLDER`).

The network's biases are moved off the kinks of its ReLUs first (architectures.keep_off_kinks): at a kink single and
double precision differentiate two linear pieces, and the comparison would judge rounding instead of rules.
"""

import argparse
import copy
import json
import pathlib
import subprocess
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

import numpy as np

BATCH = 2
LOGITS_BOUND = 1e-4  # on max |y - y_torch| / max |y_torch|
GRADIENT_BOUND = 1e-3  # on |g - g_torch| / |g_torch|, Euclidean, over the batch
ALLOWANCE = 3.0  # times PyTorch's own error in float32, where only as_exact_as_torch is asked
MODEL, GRAPH, CASE = "model.onnx", "vjp.onnx", "case.npz"


class Failed(Exception):
    """A step that did not succeed; the message is one line, its program's own words."""


def write_case(network, shape, exporter, opset, folder, seed, input_name="input", output_name="logits", batch=BATCH):
    """Export `network` with a symbolic batch to `folder` beside what `write_results` saves there."""
    from zoo import exporters
    x = write_results(network, shape, folder, seed, batch)
    data = exporters.export(network, x, exporter, opset, input_name, output_name)
    (pathlib.Path(folder) / MODEL).write_bytes(data)


def write_results(network, shape, folder, seed, batch):
    """Save what PyTorch computes of `network` in double precision as a case in `folder`; returns its x.

    The network's biases change, see above. The case holds x [batch, *shape] uniform in [0, 1], the normal cotangent w
    of the outputs' shape, the outputs y and the gradient g of sum(w * y) by x, and both as PyTorch computes them in
    float32, y32 and g32.
    """
    import torch

    from paper.architectures import keep_off_kinks
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(batch, *shape, generator=generator)
    keep_off_kinks(network, x)
    exact = copy.deepcopy(network).double()  # now: some networks keep tensors of a pass, which cannot be copied
    w = torch.randn(network(x).shape, generator=generator)
    y32, g32 = logits_and_gradient(network.eval(), x, w)
    y, g = logits_and_gradient(exact, x.double(), w.double())
    np.savez(pathlib.Path(folder) / CASE, x=x.numpy(), w=w.numpy(), y=y.numpy(), g=g.numpy(), y32=y32.numpy(),
             g32=g32.numpy())
    return x


def logits_and_gradient(network, x, w):
    """y = network(x) and the gradient of sum(w * y) by x."""
    import torch
    x = x.clone().requires_grad_(True)
    y = network(x)
    (g,) = torch.autograd.grad((w * y).sum(), x)
    return y.detach(), g


def run(command, timeout):
    """Standard output of a command; Failed with its last error line where it does not exit 0."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired as problem:
        raise Failed(f"{pathlib.Path(command[0]).name} took more than {timeout} s") from problem
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise Failed(lines[-1])
    return done.stdout


def check_case(folder, selfheal, runner, timeout=600):
    """Describe, differentiate and run the case in `folder`; returns a dict, raises Failed.

    Keys: those of `selfheal inspect --json` (operators, segments, parameters, flops, ...), and the relative errors
    against PyTorch in double precision, `logits` and `gradient`, and those of PyTorch in float32, `torch_logits` and
    `torch_gradient`.
    """
    folder = pathlib.Path(folder)
    model, graph = str(folder / MODEL), str(folder / GRAPH)
    try:
        (found,) = json.loads(run([selfheal, "inspect", "--json", model], timeout))
        run([selfheal, "grad", model, "--out", graph], timeout)
    except Failed as problem:
        raise Failed(str(problem).replace(model, MODEL)) from problem
    found.update(json.loads(run([runner, __file__, str(folder)], timeout)))
    return found


def within_bounds(errors):
    """Whether the relative errors of the whole batch keep their bounds; a NaN does not."""
    return errors["logits"] <= LOGITS_BOUND and errors["gradient"] <= GRADIENT_BOUND


def as_exact_as_torch(errors):
    """Whether the logits and the gradient keep their bounds or are about as exact as PyTorch's in float32."""
    return (errors["gradient"] <= max(GRADIENT_BOUND, ALLOWANCE * errors["torch_gradient"])
            and errors["logits"] <= max(LOGITS_BOUND, ALLOWANCE * errors["torch_logits"]))


def session(model):
    """An onnxruntime session on the CPU."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors alone
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def feeds(of, case):
    """The case's image and cotangent under the names of a gradient graph's inputs."""
    x, cotangent = (port.name for port in of.get_inputs())
    return {x: case["x"], cotangent: case["w"]}


def compare(folder):
    """Run the vector-Jacobian graph of `folder` and return the relative errors of logits and gradient."""
    case = np.load(folder / CASE)
    graph = session(str(folder / GRAPH))
    y, g = graph.run(["y", "dx"], feeds(graph, case))
    if y.shape != case["y"].shape or g.shape != case["g"].shape:
        raise Failed(f"shapes {y.shape} and {g.shape} instead of {case['y'].shape} and {case['g'].shape}")
    largest = np.abs(case["y"]).max()
    return {"logits": float(np.abs(y - case["y"]).max() / largest),
            "torch_logits": float(np.abs(case["y32"] - case["y"]).max() / largest),
            "gradient": relative_error(beside_kinks(graph, case, g), case["g"]),
            "torch_gradient": relative_error(case["g32"], case["g"])}


def beside_kinks(graph, case, g):
    """The gradients g, of images whose error is above the bound the best of 20 points 1e-8 beside them.

    Rounding puts a network's values on either side of a ReLU's kink, where the gradient jumps: there both are right.
    """
    rng, ports = np.random.default_rng(0), feeds(graph, case)
    image = graph.get_inputs()[0].name
    for i in range(len(g)):
        if relative_error(g[i], case["g"][i]) > GRADIENT_BOUND:
            for _ in range(20):
                moved = case["x"] + (1e-8 * rng.standard_normal(case["x"].shape)).astype(np.float32)
                (found,) = graph.run(["dx"], {**ports, image: moved})
                g[i] = min(g[i], found[i], key=lambda one: relative_error(one, case["g"][i]))
    return g


def relative_error(found, exact):
    """|found - exact| / |exact|, Euclidean, over the batch."""
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", type=pathlib.Path)
    folder = parser.parse_args().folder
    try:
        print(json.dumps(compare(folder)))
    except Exception as problem:  # onnxruntime raises many kinds; the caller prints the last line
        sys.exit(f"{type(problem).__name__}: {' '.join(str(problem).split())}")


if __name__ == "__main__":
    main()
