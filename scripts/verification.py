"""Checks one exported network: PyTorch's logits and input gradient against the Go program's gradient graph.

Three programs take part, so that each can live in its own interpreter and gives its memory back:

1. a PyTorch interpreter exports the network and saves inputs, cotangent, logits and gradient (`write_case`);
2. `selfheal inspect` and `selfheal grad` describe the model and write its vector-Jacobian graph;
3. an interpreter with onnxruntime runs that graph and compares (`python verification.py compare FOLDER`).

A network of a million ReLUs has some whose input is nought but for rounding. Single and double precision
then differentiate different linear pieces, and one ReLU moves the gradient of a deep random network by up to
a percent, in PyTorch as in ONNX Runtime. Where the gradient is off by more than its bound, two further
steps settle whether that is all: the graph is run once more with its ReLUs' outputs exposed, which says
on which side each was (`sides`), and PyTorch differentiates in double precision the piece with just these sides
(`gradient_on_sides`).
"""

import copy
import json
import pathlib
import subprocess
import sys

import numpy as np

BATCH = 2
LOGITS_BOUND = 1e-4  # on max |y - y_torch| / max |y_torch|
GRADIENT_BOUND = 1e-3  # on |g - g_torch| / |g_torch|, Euclidean, over the batch
ALLOWANCE = 3.0  # times PyTorch's own error in float32, where only as_exact_as_torch is asked
MODEL, GRAPH, CASE, SIDES = "model.onnx", "vjp.onnx", "case.npz", "sides.npz"


class Failed(Exception):
    """A step that did not succeed; the message is one line, its program's own words."""


def write_case(network, shape, exporter, opset, folder, seed, input_name="input", output_name="logits", batch=BATCH):
    """Export `network` with a symbolic batch to `folder` and save what PyTorch computes in double precision.

    The case holds x [batch, *shape] uniform in [0, 1], the normal cotangent w of the outputs' shape, the outputs y
    and the gradient g of sum(w * y) by x, and both as PyTorch computes them in float32, y32 and g32.
    """
    import torch

    import exporters
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(batch, *shape, generator=generator)
    data = exporters.export(network, x, exporter, opset, input_name, output_name)
    folder = pathlib.Path(folder)
    (folder / MODEL).write_bytes(data)
    w = torch.randn(network(x).shape, generator=generator)
    y32, g32 = logits_and_gradient(network.eval(), x, w)
    y, g = logits_and_gradient(copy.deepcopy(network).double(), x.double(), w.double())
    np.savez(folder / CASE, x=x.numpy(), w=w.numpy(), y=y.numpy(), g=g.numpy(), y32=y32.numpy(),
             g32=g32.numpy())


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
    against PyTorch in double precision: `logits`, `gradient`, those of PyTorch in float32, `torch_logits` and
    `torch_gradient`, and the median over the images of both gradients, `gradient_median` and `torch_median`.
    """
    folder = pathlib.Path(folder)
    model, graph = str(folder / MODEL), str(folder / GRAPH)
    try:
        (found,) = json.loads(run([selfheal, "inspect", "--json", model], timeout))
        run([selfheal, "grad", model, "--out", graph], timeout)
    except Failed as problem:
        raise Failed(str(problem).replace(model, MODEL)) from problem
    found.update(json.loads(run([runner, __file__, "compare", str(folder)], timeout)))
    return found


def within_bounds(errors):
    """Whether the relative errors of the whole batch keep their bounds; a NaN does not.

    The gradient's is that on equal sides where it was determined (`same_sides`).
    """
    return errors["logits"] <= LOGITS_BOUND and errors.get("same_sides", errors["gradient"]) <= GRADIENT_BOUND


def as_exact_as_torch(errors):
    """Whether logits and the median image's gradient keep their bounds or are about as exact as PyTorch's in float32.

    A ReLU on the wrong side moves the gradient of an ill-conditioned network by a percent, but it spoils one
    image's; a wrong rule spoils all.
    """
    return (errors["logits"] <= max(LOGITS_BOUND, ALLOWANCE * errors["torch_logits"])
            and errors["gradient_median"] <= max(GRADIENT_BOUND, ALLOWANCE * errors["torch_median"]))


def relative_errors(found, exact):
    """|found - exact| / |exact|, Euclidean, of each image."""
    axes = tuple(range(1, exact.ndim))
    return np.sqrt(np.square(found - exact).sum(axes) / np.square(exact).sum(axes))


def session(model, **settings):
    """An onnxruntime session on the CPU; `settings` are attributes of its SessionOptions."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors alone
    for name, value in settings.items():
        setattr(options, name, value)
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
            "gradient": relative_error(g, case["g"]),
            "torch_gradient": relative_error(case["g32"], case["g"]),
            "gradient_median": float(np.median(relative_errors(g, case["g"]))),
            "torch_median": float(np.median(relative_errors(case["g32"], case["g"])))}


def relative_error(found, exact):
    """|found - exact| / |exact|, Euclidean, over the batch."""
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def sides(folder):
    """Run the graph of `folder` with the outputs of the network's ReLUs exposed; saves their signs and the gradient.

    Without graph optimisation, or the exposed graph would be fused, and rounded, in another way.
    """
    import onnx
    import onnxruntime
    case = np.load(folder / CASE)
    graph = onnx.load(str(folder / GRAPH))
    relus = [node.output[0] for node in graph.graph.node if node.op_type == "Relu"]
    graph.graph.output.extend(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in relus)
    exposed = session(graph.SerializeToString(),
                      graph_optimization_level=onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    g, *states = exposed.run(["dx", *relus], feeds(exposed, case))
    np.savez(folder / SIDES, g=g, **{f"relu{index}": np.packbits(state > 0) for index, state in enumerate(states)})
    return {"relus": sum(state.size for state in states)}


def gradient_on_sides(network, folder):
    """Compare the gradient saved by `sides` with PyTorch's in double precision on the same sides of every nn.ReLU.

    Returns `same_sides`, the relative error, and `flipped`, how many ReLUs had other sides in double precision.
    The network must call its nn.ReLU modules in the order in which the exporter wrote them.
    """
    import torch
    from torch import nn
    case, found = np.load(folder / CASE), np.load(folder / SIDES)
    counts = {"taken": 0, "flipped": 0}

    class Gate(torch.autograd.Function):
        """ReLU whose derivative is the given side."""

        @staticmethod
        def forward(context, state, side):
            context.save_for_backward(side)
            return state.clamp(min=0)

        @staticmethod
        def backward(context, gradient):
            return gradient * context.saved_tensors[0], None

    def gated(state):
        packed = found[f"relu{counts['taken']}"]
        side = np.unpackbits(packed, count=state.numel()).reshape(state.shape)
        side = torch.from_numpy(side).to(torch.bool)
        counts["taken"] += 1
        counts["flipped"] += int((side != (state > 0)).sum())
        return Gate.apply(state, side)

    exact = copy.deepcopy(network).double().eval()
    for module in exact.modules():
        if isinstance(module, nn.ReLU):
            module.forward = gated
    _, g = logits_and_gradient(exact, torch.from_numpy(case["x"]).double(), torch.from_numpy(case["w"]).double())
    if counts["taken"] != len(found.files) - 1:
        raise Failed(f"the graph has {len(found.files) - 1} ReLUs, PyTorch called {counts['taken']}")
    return {"same_sides": relative_error(found["g"], g.numpy()), "flipped": counts["flipped"]}


def main():
    step = {"compare": compare, "sides": sides}[sys.argv[1]]
    try:
        print(json.dumps(step(pathlib.Path(sys.argv[2]))))
    except Exception as problem:  # onnxruntime raises many kinds; the caller prints the last line
        sys.exit(f"{type(problem).__name__}: {' '.join(str(problem).split())}")


if __name__ == "__main__":
    main()
