"""Writes networks with a single logit that a test opens, and what PyTorch makes of them.

    python3 scripts/goldens/single_samples.py --out control/testdata

The network gives [N, 1], [N], or, behind a sigmoid, the probability of class 1. The images are those of
keras_samples.py, of another size. single.json has the logits z and the gradients of the binary cross-entropy, by the
image, for the label n mod 2 of the n-th image, in double precision.
"""

import argparse
import json
import pathlib
import warnings

import torch

SHAPE, IMAGES = (3, 6, 6), 4


class Single(torch.nn.Module):
    """A network whose forward pass ends in one of the three forms."""

    def __init__(self, form):
        super().__init__()
        self.form = form
        self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, stride=2), torch.nn.ReLU(), torch.nn.Flatten(),
                                        torch.nn.Linear(16, 1))

    def forward(self, x):
        z = self.body(x)
        return {"column": z, "vector": z.squeeze(1), "sigmoid": torch.sigmoid(z)}[self.form]


def images():
    i = torch.arange(SHAPE[0] * SHAPE[1] * SHAPE[2])
    return torch.stack([(7 * i + 3 * (i // 5) + 11 * n) % 256 for n in range(IMAGES)]).reshape(IMAGES, *SHAPE) / 255


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    out = parser.parse_args().out
    warnings.simplefilter("ignore")
    golden = {"torch": torch.__version__}
    for form in ("column", "vector", "sigmoid"):
        torch.manual_seed(3)
        net = Single(form)
        torch.onnx.export(net, (images(),), out / f"single_{form}.onnx", opset_version=17, dynamo=False,
                          input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "N"}, "y": {0: "N"}})
    net = net.double()
    x = images().double().requires_grad_()
    z = net.body(x).squeeze(1)
    labels = torch.arange(IMAGES).double() % 2
    torch.nn.functional.binary_cross_entropy_with_logits(z, labels, reduction="sum").backward()
    golden["logits"] = [float(f"{v:.9g}") for v in z.detach()]
    golden["gradients"] = [[float(f"{v:.9g}") for v in g.ravel()] for g in x.grad]
    (out / "single.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
