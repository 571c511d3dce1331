"""What is attacked, as an ONNX file: a path, bytes, an onnx.ModelProto, or a torch.nn.Module that is exported."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from . import _words
from ._errors import UsageError

if TYPE_CHECKING:
    import onnx
    import torch

    Network: TypeAlias = str | os.PathLike[str] | bytes | onnx.ModelProto | torch.nn.Module | Callable[[Any], Any]

OPSETS = {"torchscript": 17, "dynamo": 18}
FUNCTION = "model.function"  # the program asks for its answers
CHECKED = 16  # images on which an exported network must answer as the module does
TOLERANCE = 1e-3  # largest difference of logits, as a share of their largest absolute value


class ExportError(UsageError):
    """A module that no exporter takes."""


def is_module(value: object) -> bool:
    """Whether a value is of a kind named torch.nn.Module, without importing PyTorch."""
    return any(f"{c.__module__}.{c.__qualname__}" == "torch.nn.modules.module.Module" for c in type(value).__mro__)


def module_of(network: Any) -> Any:
    """The module that a bound method such as module.forward belongs to, or what was given."""
    owner = getattr(network, "__self__", None)
    return owner if is_module(owner) and not is_module(network) else network


def size(network: Any) -> int:
    """About how many bytes a network's file takes that write makes."""
    if is_module(network):
        return sum(p.numel() * p.element_size() for p in (*network.parameters(), *network.buffers()))
    return network.ByteSize() if hasattr(network, "ByteSize") else len(network) if isinstance(network, bytes) else 0


def write(network: Network, images: npt.NDArray[np.float32], folder: pathlib.Path) -> pathlib.Path:
    """The ONNX file of a network: where it lies, or model.onnx in the folder. A function has one that stands for it.

    Raises UsageError where there is no file, where a module cannot be exported, and where what was exported does not
    give the module's own logits on the first images.
    """
    if isinstance(network, (str, os.PathLike)):
        path = pathlib.Path(network).absolute()
        if not path.is_file():
            raise UsageError(f"there is no file {network}")
        return path
    path = folder / "model.onnx"
    if isinstance(network, (bytes, bytearray)):
        path.write_bytes(network)
    elif (serialize := getattr(network, "SerializeToString", None)) is not None:
        path.write_bytes(serialize())
    elif is_module(network):
        export(cast("torch.nn.Module", network), images, path)
    elif callable(network) and not isinstance(network, type):
        path = folder / FUNCTION
        path.write_text(f"{name(network)}, a function of a Python that has ended\n", encoding="utf-8")
    else:
        raise UsageError(
            f"a network is a path, bytes, an onnx.ModelProto, a torch.nn.Module or a function, not {kind(network)}"
        )
    return path


def name(network: Network) -> str:
    """What a network is called in results: its file's name, or its class's."""
    given = type(network).__name__
    if isinstance(network, (str, os.PathLike)):
        given = pathlib.Path(network).stem
    elif not is_module(network):
        given = getattr(network, "__name__", given)
    return re.sub(r"[^A-Za-z0-9._+@-]+", "-", given).strip("-_.+@")[:100] or "model"


def kind(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def export(module: torch.nn.Module, images: npt.NDArray[np.float32], path: pathlib.Path) -> None:
    """Write a module in evaluation mode, with its normalisation, and check its logits; its mode is as before."""
    import torch

    from . import exporters  # of scripts/zoo, put beside this file by the build

    training = [(part, part.training) for part in module.modules()]
    device = next((p.device for p in (*module.parameters(), *module.buffers())), torch.device("cpu"))
    if device.type == "meta":
        raise UsageError("the module's parameters are meta tensors, which have no values: load its weights first")
    first = torch.from_numpy(images[:CHECKED]).to(device)
    problems = []
    try:
        own: Any
        try:
            with torch.no_grad():
                own = module.eval()(first)
        except Exception as problem:  # of the caller's code
            raise UsageError(
                f"the module fails on images of shape {list(first.shape)}: {_words.first_line(problem)}"
            ) from problem
        if not isinstance(own, torch.Tensor) or own.ndim != 2:
            raise UsageError("the module must return logits, a tensor [N, classes]")
        for exporter in exporters.available():
            example = first[[0, min(1, len(first) - 1)]]  # two: of one the batch would be taken for a constant
            try:
                path.write_bytes(exporters.export(module, example, exporter, OPSETS[exporter], "input", "logits"))
                compare(own.float().cpu().numpy(), Session(path)(images[:CHECKED]))
                return
            except Exception as problem:  # of exporters and ONNX Runtime, which raise many kinds
                problems.append(f"{exporter}: {_words.first_line(problem)}")
    finally:
        for part, mode in training:
            part.training = mode
    raise ExportError(f"the module cannot be exported: {'; '.join(problems)}")


def compare(own: npt.NDArray[np.float32], exported: npt.NDArray[np.float32]) -> None:
    """UsageError where an exported file's logits are not the module's."""
    if exported.shape != own.shape:
        raise UsageError(f"it returns {list(exported.shape)}, where the module returns {list(own.shape)}")
    difference = float(np.abs(exported - own).max())
    if not difference <= TOLERANCE * max(float(np.abs(own).max()), 1e-6):
        raise UsageError(f"its logits differ from the module's by {difference:.2g}")


class Session:
    """An ONNX file on ONNX Runtime: images [N, C, H, W] to its first output, on the CPU."""

    def __init__(self, path: os.PathLike[str] | str) -> None:
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # which 1.32 sends otherwise
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])
        given = self.session.get_inputs()[0]
        self._name, size = given.name, given.shape[0]
        self._batch = size if isinstance(size, int) else None  # a batch that the file fixes

    def __call__(self, images: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        if self._batch is None:
            return self._run(images)
        parts = []
        for start in range(0, len(images), self._batch):
            part = images[start : start + self._batch]
            parts.append(self._run(np.resize(part, (self._batch, *part.shape[1:])))[: len(part)])
        return np.concatenate(parts)

    def _run(self, images: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        return np.asarray(self.session.run(None, {self._name: images})[0])
