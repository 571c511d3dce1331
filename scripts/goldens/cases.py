"""Declares what the cases of gradients.py are made of; the cases themselves stand beside this file, one file per family of
operators.

A case builds its ONNX nodes on a Model and returns the output's name and the
PyTorch function that must agree with it.
"""

from dataclasses import dataclass
from typing import Any, Callable

CASES = []


@dataclass
class Case:
    name: str
    shape: tuple
    build: Callable
    opset: int = 13
    batch: int = 2
    kink: bool = False  # x lies on a kink or tie: the gradient is a convention
    x: Any = None
    head: Any = None
    head_name: str = ""
    labels: Any = None
    targets: Any = None


def case(name, shape, build, **more):
    CASES.append(Case(name, tuple(shape), build, **more))


def unary(name, op, fn, shape=(2, 3, 4), attrs=None, **more):
    case(name, shape, lambda m, x: (m.op(op, x, **(attrs or {})), fn), **more)


# Samplers of x: each gives a function of the random generator.

def positive(*shape):
    return lambda rng: rng.uniform(0.3, 2, shape)


def ties(*shape):
    return lambda rng: rng.choice([0.0, 1.0], shape)


def spread_signs(rng, shape):
    """Values of either sign, none near 0."""
    return rng.uniform(0.4, 1.6, shape) * rng.choice([-1, 1], shape)
