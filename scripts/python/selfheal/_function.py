"""A function of images that is attacked by its answers alone: labels or scores, of NumPy arrays or tensors."""

from __future__ import annotations

import contextlib
import struct
import subprocess
from collections.abc import Callable, Sequence
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from . import _arrays, _words
from ._errors import UsageError

LEAST = 1e-38  # probability: smaller ones have no logarithm


class Function:
    """What answers the program's questions about a function.

    like is an example of what the function takes, an array or a tensor; classes are names that it may answer.
    """

    def __init__(self, call: Callable[[Any], Any], like: Any, probabilities: bool, classes: Any) -> None:
        self._call, self._like, self._probabilities = call, like, probabilities
        self._classes: Sequence[str] | None = None if isinstance(classes, int) else classes

    def serve(self, process: subprocess.Popen[bytes]) -> None:
        """Answers a process's questions until it ends. The program's flag --function defines their form."""
        questions, answers = process.stdout, process.stdin
        assert questions is not None and answers is not None
        with contextlib.suppress(BrokenPipeError):  # its exit code says why
            while len(head := questions.read(16)) == 16:
                shape = struct.unpack("<4I", head)
                data = read(questions, 4 * int(np.prod(shape, dtype=np.int64)))
                if data is None:
                    return
                values = self.answer(np.frombuffer(data, dtype="<f4").reshape(shape))
                width = values.shape[1] if values.ndim == 2 else 0
                answers.write(struct.pack("<2I", len(values), width) + values.astype("<f4").tobytes())
                answers.flush()
        with contextlib.suppress(BrokenPipeError):
            answers.close()

    def answer(self, images: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
        """The function's logits [N, classes] or labels [N] of images."""
        try:
            given = self._call(_arrays.like(images.copy(), self._like))
        except Exception as problem:  # of the caller's code
            raise UsageError(
                f"the function fails on images of shape {list(images.shape)}: {_words.first_line(problem)}"
            ) from problem
        if given is None:
            raise UsageError("the function returns None: it must return labels [N] or scores [N, classes]")
        values, n = _arrays.array(given, "what the function returns"), len(images)
        shape = list(values.shape)
        if shape[:1] != [n] or values.ndim > 2 or shape[1:] == [1]:
            raise UsageError(
                f"the function returns shape {shape} for {n} images: it must return labels [{n}] or scores "
                f"[{n}, classes]"
            )
        if values.ndim == 1:
            return _arrays.labels_of(values, n, self._classes, "what the function returns")
        if not (np.issubdtype(values.dtype, np.number) or values.dtype == bool) or np.iscomplexobj(values):
            raise UsageError(f"the function returns scores of {values.dtype}, not numbers")
        scores = values.astype(np.float64)
        finite = np.isfinite(scores).all(axis=1)
        if not finite.all():
            raise UsageError(f"the function returns NaN or infinite scores, {n - int(finite.sum())} of {n} images")
        if self._probabilities:
            if scores.min() < 0 or scores.max() > 1 + 1e-5:
                raise UsageError(
                    f"the function returns values from {scores.min():.4g} to {scores.max():.4g}, which are no "
                    "probabilities: leave probabilities=True out"
                )
            scores = np.log(np.maximum(scores, LEAST))
        return scores


def read(pipe: IO[bytes], size: int) -> bytes | None:
    """So many bytes, None where the pipe ends before."""
    data = pipe.read(size)
    return data if len(data) == size else None


def of_module(module: Any) -> Callable[[Any], Any]:
    """A module as a function of tensors, in evaluation mode and without gradients; its mode is as before."""
    import torch

    device = next((p.device for p in (*module.parameters(), *module.buffers())), torch.device("cpu"))

    def call(images: Any) -> Any:
        training = [(part, part.training) for part in module.modules()]
        try:
            with torch.no_grad():
                return module.eval()(torch.as_tensor(images).to(device))
        finally:
            for part, mode in training:
                part.training = mode

    return call
