"""Writes the networks and images of harness/testdata/configs: small classifiers of the bundled images, half as wide and
high, which bounds can decide, and a few of the images in other formats.

    python3 scripts/goldens/config_samples.py --out harness/testdata/configs

tiny.onnx is trained against noise, so that bounds prove something; it subtracts nothing, so that configs give it
`preprocess`. tiny_label.onnx puts out the class alone; tiny_noisy.onnx adds noise to the image at each pass.
"""

import argparse
import pathlib
import sys
import warnings

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # imports name their room: from zoo import train

import numpy as np
import onnx
import torch
from onnx import TensorProto, compose, helper
from PIL import Image

from zoo import datasets, shapes10

SIDE, CLASSES, NOISE = 16, 10, 0.3
SEED, IMAGES = 69, 20_000  # drawn for training


def network():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 6, 4, stride=2, padding=1), torch.nn.ReLU(),
        torch.nn.Conv2d(6, 12, 4, stride=2, padding=1), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.Linear(192, 32), torch.nn.ReLU(), torch.nn.Linear(32, CLASSES))


def smaller(images):
    """As by `resize: 16`, nearly: means of 2×2 pixels, normalised by a mean and a deviation of a half."""
    return (torch.nn.functional.avg_pool2d(images.float() / 255, 2) - 0.5) / 0.5


def train(epochs=12):
    torch.set_num_threads(1)  # the same weights on any number of cores
    torch.manual_seed(1)
    net = network()
    x, y = map(torch.from_numpy, shapes10.generate(SEED, IMAGES))
    x, y = smaller(x), y.long()
    steps = torch.optim.Adam(net.parameters(), lr=2e-3)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(steps, epochs)
    for _ in range(epochs):
        for chosen in torch.randperm(len(x)).split(128):
            steps.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(x[chosen] + 0.1 * torch.randn_like(x[chosen])), y[chosen])
            loss.backward()
            steps.step()
        rate.step()
    return net.eval()


def export(net, path):
    torch.onnx.export(net, (torch.zeros(1, 3, SIDE, SIDE),), path, opset_version=17, dynamo=False, input_names=["x"],
                      output_names=["y"], dynamic_axes={"x": {0: "N"}, "y": {0: "N"}})
    return onnx.load(path)


def labelled(model):
    """The network's class alone."""
    head = helper.make_graph(
        [helper.make_node("ArgMax", ["z"], ["label"], axis=1, keepdims=0)], "label",
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["N", CLASSES])],
        [helper.make_tensor_value_info("label", TensorProto.INT64, ["N"])])
    return compose.merge_models(model, helper.make_model(head, opset_imports=model.opset_import,
                                                         ir_version=model.ir_version), io_map=[("y", "z")])


def noisy(model):
    """The network behind noise that is drawn anew at each pass."""
    noise = helper.make_graph(
        [helper.make_node("RandomNormalLike", ["image"], ["drawn"], scale=NOISE),
         helper.make_node("Add", ["image", "drawn"], ["z"])], "noise",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["N", 3, SIDE, SIDE])])
    return compose.merge_models(helper.make_model(noise, opset_imports=model.opset_import,
                                                  ir_version=model.ir_version), model, io_map=[("z", "x")])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    out = parser.parse_args().out
    warnings.simplefilter("ignore")
    net = train()
    x, y = map(torch.from_numpy, datasets.read_records(datasets.SHAPES10 / "test.bin"))
    right = net(smaller(x)).argmax(1) == y
    print(f"tiny: {100 * right.float().mean():.1f} % of {len(y)} test images")
    model = export(net, out / "tiny.onnx")
    onnx.save(labelled(model), out / "tiny_label.onnx")
    onnx.save(noisy(model), out / "tiny_noisy.onnx")

    images = x.numpy().transpose(0, 2, 3, 1)  # NHWC
    np.savez_compressed(out / "levels.npz", x=images[200:220], y=y[200:220].numpy())
    few = torch.cat([torch.where(right)[0][-12:], torch.where(~right)[0][-2:]])
    between = smaller(x[few]).numpy() * 0.5 + 0.5  # float32, most values between two levels
    np.savez_compressed(out / "floats.npz", x=np.float32(between), y=y[few].numpy())
    names = (datasets.SHAPES10 / "batches.meta.txt").read_text().split()
    for k in range(236, 256):
        folder = out / "folder" / f"{int(y[k])}-{names[int(y[k])]}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(images[k]).save(folder / f"{k}.png")


if __name__ == "__main__":
    main()
