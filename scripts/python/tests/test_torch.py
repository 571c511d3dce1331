"""Modules and tensors of PyTorch; beside it the reference AutoAttack, where AUTOATTACK names a checkout of it.

`make test-torch` runs it. The real networks are those of the folder SELFHEAL_REAL, by default ../shared/real.
"""

import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import pytest

import selfheal

from .conftest import ROOT

torch = pytest.importorskip("torch")

REAL = pathlib.Path(os.environ.get("SELFHEAL_REAL", ROOT.parent / "shared" / "real"))
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)


class Normalised(torch.nn.Module):
    """A ResNet in torchvision's manner that normalises its images itself, with drawn weights."""

    def __init__(self, training=False):
        super().__init__()
        torch.manual_seed(1)
        self.register_buffer("mean", torch.tensor(MEAN)[:, None, None])
        self.register_buffer("std", torch.tensor(STD)[:, None, None])
        self.stem = torch.nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(8)
        self.block = torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.ReLU(inplace=True),
                                         torch.nn.Dropout(), torch.nn.Conv2d(8, 8, 3, padding=1))  # fmt: skip
        self.pool, self.fc = torch.nn.AdaptiveAvgPool2d(1), torch.nn.Linear(8, 10)
        self.norm.running_mean.normal_()
        self.train(training)

    def forward(self, x):
        x = torch.relu(self.norm(self.stem((x - self.mean) / self.std)))
        return self.fc(torch.flatten(self.pool(x + self.block(x)), 1))


@pytest.fixture
def tensors(images):
    return torch.from_numpy(images[0]).float() / 255, torch.from_numpy(images[1])


def labelled(module, x):
    """The module's own answers, so that all images are right."""
    with torch.no_grad():
        return module.eval()(x).argmax(dim=1)


def test_module(tensors):
    x, _ = tensors
    module = Normalised(training=True)
    y = labelled(module, x)
    module.train()
    module.norm.eval()
    result = selfheal.attack(module, x, y, eps=1 / 255, version="quick", progress=False)
    assert result.clean_accuracy == 1 and result.robust_accuracy < 1
    assert module.training and module.block[2].training and not module.norm.training  # as they were
    with torch.no_grad():
        answers = module.eval()(torch.from_numpy(result.adversarial)).argmax(dim=1)
    assert list((answers == y).int()) == list(result.verdicts)
    assert list(result.results["models"]) == ["Normalised"]


def test_normalisation_of_a_module(tensors):
    """mean and std of the call are what a module in front would do."""
    x, _ = tensors
    module = Normalised()
    y = labelled(module, x)
    bare = Normalised()
    bare.mean.zero_(), bare.std.fill_(1)
    options = {"eps": 1 / 255, "version": "quick", "progress": False}
    inside = selfheal.attack(module, x, y, **options)
    outside = selfheal.attack(bare, x, y, mean=MEAN, std=module.std, **options)
    assert list(inside.verdicts) == list(outside.verdicts)


@pytest.mark.parametrize(
    "forward, message",
    [
        (lambda x: (x.flatten(1), x), "must return logits"),
        (lambda x: x, "must return logits"),
        (lambda x: x.flatten(1)[:, :10] + torch.rand(1), "differ from the module's"),
    ],
)
def test_what_cannot_be_exported(forward, message, tensors):
    module = torch.nn.Module()
    module.forward = forward
    with pytest.raises(selfheal.UsageError, match=message) as problem:
        selfheal.attack(module, *tensors, eps=0.1, progress=False)
    assert "\n" not in str(problem.value)


class Sorted(Normalised):
    """A module that no exporter takes, as it leaves PyTorch on the way."""

    def forward(self, x):
        if torch.jit.is_tracing() or torch.compiler.is_compiling():
            raise TypeError("only plain tensors")
        return super().forward(x)


def test_functions_of_tensors(tensors):
    """A function of tensors, a method, and a module that is attacked by its answers as it cannot be exported."""
    x, _ = tensors
    module = Normalised()
    y = labelled(module, x)
    options = {"version": "square", "eps": 2 / 255, "parameters": {"queries": 60}, "progress": False}
    exported = selfheal.attack(module.forward, x, y, **options)  # of the module
    assert list(exported.results["models"]) == ["Normalised"]

    def scores(images):
        assert isinstance(images, torch.Tensor) and images.dtype == torch.float32
        with torch.no_grad():
            return module(images)

    asked = selfheal.attack(scores, x, y, **options)
    assert asked.clean_accuracy == 1 and list(asked.verdicts) == list(exported.verdicts)
    closed = Sorted(training=True)
    closed.load_state_dict(module.state_dict())
    found = selfheal.attack(closed, x.numpy(), y.numpy(), **options)
    assert list(found.verdicts) == list(asked.verdicts) and closed.training and closed.block[2].training
    assert list(found.results["models"]) == ["Sorted"]
    with torch.no_grad():
        answers = module(torch.from_numpy(found.adversarial)).argmax(dim=1)
    assert list((answers == y).int()) == list(found.verdicts)
    with pytest.raises(selfheal.UsageError, match=r"the module cannot be exported: torchscript: .*only plain tensors"):
        selfheal.attack(closed, x, y, eps=2 / 255, progress=False)
    with pytest.raises(selfheal.UsageError, match="the module fails on images of shape"):
        selfheal.attack(closed, x[:, :2], y, **options)


def test_files_of_a_module(images, tmp_path):
    """A module takes images by their files too: it is exported for their size."""
    image = pytest.importorskip("PIL.Image")
    paths = [tmp_path / f"{k}.png" for k in range(8)]
    for path, pixels in zip(paths, images[0], strict=False):
        image.fromarray(pixels.transpose(1, 2, 0)).save(path)
    module = Normalised()
    x = torch.from_numpy(images[0][:8]).float() / 255
    y = labelled(module, x)
    options = {"version": "pgd", "eps": 1 / 255, "parameters": {"steps": 3}, "progress": False}
    by_files = selfheal.attack(module, paths, y, **options)
    assert np.array_equal(by_files.adversarial, selfheal.attack(module, x, y, **options).adversarial)
    assert selfheal.attack(module, paths, y, resize=24, crop=16, **options).adversarial.shape == (8, 3, 16, 16)


def test_tensors_that_cannot_be_attacked(tensors):
    """Each in one line; what a module itself raises is its cause."""
    x, y = tensors
    module = Normalised()
    for call, message in (
        ((module, x.to("meta"), y), "x is a meta tensor, which has a shape and no values"),
        ((module.to("meta"), x, y), "the module's parameters are meta tensors, which have no values: load its weights"),
        ((Normalised(), x.permute(0, 2, 3, 1), y), "channels last, shape [20, 32, 32, 3]: pass x.permute(0, 3, 1, 2)"),
        ((Normalised(), x, y + 10), "y has 20 classes, the model 10"),
    ):
        with pytest.raises(selfheal.UsageError) as problem:
            selfheal.attack(*call, eps=0.1, progress=False)
        assert message in str(problem.value) and "\n" not in str(problem.value)
    with pytest.raises(
        selfheal.UsageError, match=r"the module fails on images of shape \[16, 2, 32, 32\]: "
    ) as problem:
        selfheal.attack(Normalised(), x[:, :2], y, eps=0.1, progress=False)
    assert isinstance(problem.value.__cause__, RuntimeError)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float64])
def test_tensors_of_other_kinds(device, kind, tensors):
    """Tensors are moved, and those of other widths rounded or widened."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    x, _ = tensors
    x = x.to(kind)
    module = Normalised()
    y = labelled(module, x.float())
    result = selfheal.attack(
        module.to(device), x.to(device).requires_grad_(), y.to(device), eps=1 / 255, version="fgsm", progress=False
    )
    assert result.clean_accuracy == 1 and np.abs(result.adversarial - x.detach().float().numpy()).max() < 1.01 / 255


def test_autoattack_on_tensors(tensors):
    x, _ = tensors
    module = Normalised()
    y = labelled(module, x)
    for model in (module, module.forward):
        adversary = selfheal.AutoAttack(model, norm="Linf", eps=1 / 255, version="quick", verbose=False, device="cpu")
        left, answers = adversary.run_standard_evaluation(x, y, bs=7, return_labels=True)
        assert isinstance(left, torch.Tensor) and left.shape == x.shape and answers.dtype == y.dtype
        assert adversary.clean_accuracy(left, y) == adversary.result.robust_accuracy


def test_healed_network_on_tensors(tensors, tmp_path):
    (tmp_path / "config.yaml").write_text(
        f"version: 1\ndatasets: {{d: {{format: cifar10-bin, path: {ROOT}/models/zoo/shapes10/test.bin}}}}\n"
        f"models: {{m: {{path: {ROOT}/models/zoo/preact_robust.onnx}}}}\n"
        "controls: {pca: {solver: {method: greedy}, layers: "
        "[{at: input, embedding: {kind: linear, fit: d, rank: 5}}]}}\n"
        "attacks: {a: {kind: fgsm, norm: linf, epsilon: 1/255}}\n"
        "suites: {s: {dataset: d, models: [m], controls: [pca], attacks: [a], mode: oblivious}}\n"
    )
    healed = selfheal.control(tmp_path / "config.yaml", model="m", control="pca")
    logits = healed(tensors[0])
    assert isinstance(logits, torch.Tensor) and logits.shape == (20, 10)


# A program for the reference AutoAttack; {package} is where its class comes from.
SCRIPT = """
import sys
import numpy as np, torch
sys.path += [{scripts!r}, {checkout!r}]
from zoo.onnx_network import OnnxNetwork
from {package} import AutoAttack

torch.set_num_threads(2)
records = np.fromfile({data!r}, dtype=np.uint8).reshape(-1, 3073)[:100]
x, y = torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32)).float() / 255, torch.from_numpy(records[:, 0]).long()
model = OnnxNetwork({network!r}, {mean}, {std}).eval()
adversary = AutoAttack(model, norm={norm!r}, eps={eps}, version="standard", seed=0, device="cpu")
x_adv = adversary.run_standard_evaluation(x, y, bs=100)
with torch.no_grad():
    print("verdicts", *(model(x_adv).argmax(dim=1) == y).int().tolist())
"""


@pytest.mark.parametrize(
    "name, normal, eps", [("resnet_2b", (MEAN, STD), 2 / 255), ("rn18w16_standard", (None, None), 1 / 255)]
)
@pytest.mark.parametrize("norm", ["Linf", "L2"])
def test_reference(name, normal, eps, norm):
    """The same script with one import line changed agrees on 99 % of the verdicts."""
    checkout = os.environ.get("AUTOATTACK")
    if not checkout or not REAL.is_dir():
        pytest.skip("AUTOATTACK names no checkout of fra31/auto-attack" if REAL.is_dir() else f"there is no {REAL}")
    found = {}
    for package in ("autoattack", "selfheal"):
        text = SCRIPT.format(
            package=package,
            checkout=checkout,
            scripts=str(ROOT / "scripts"),
            mean=normal[0],
            std=normal[1],
            data=str(REAL / "cifar10-test-1000.bin"),
            network=str(REAL / f"{name}.onnx"),
            norm=norm,
            eps=eps if norm == "Linf" else eps * 32,
        )
        start = time.monotonic()
        said = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
        found[package] = np.array(said.split("verdicts", 1)[1].split(), dtype=int)
        print(f"{name} {norm}, {package}: {100 * found[package].mean():.1f} % in {time.monotonic() - start:.1f} s")
    assert (found["autoattack"] == found["selfheal"]).mean() >= 0.99


def test_readme(tensors, tmp_path, monkeypatch):
    """The README's blocks of Python, in its order: what they write the program reads."""
    x, _ = tensors
    network = Normalised()
    known = {"torch": torch, "network": network, "x": x, "y": labelled(network, x)}
    monkeypatch.chdir(tmp_path)
    blocks = (ROOT / "README.md").read_text().split("```python\n")[1:]
    for block in blocks:
        exec(block.partition("```")[0], known)
    assert len(blocks) == 2 and known["result"].verdicts.shape == (len(x),)
    images, labels = x.numpy(), known["y"].numpy()
    assert selfheal.attack("my.onnx", images, labels, eps=8 / 255).robust_accuracy == known["result"].robust_accuracy
