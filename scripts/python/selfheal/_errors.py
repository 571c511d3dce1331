"""What goes wrong, as exceptions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class SelfhealError(RuntimeError):
    """The program has ended with an error; the message is its one line, `exit_code` its exit code."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class UsageError(SelfhealError, ValueError):
    """An argument, config or file with which there is no run."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message, exit_code)


def brief(function: Callable[P, T]) -> Callable[P, T]:
    """A function whose errors show the caller's line and their message, not the lines of this package between."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except SelfhealError as problem:
            problem.__suppress_context__ = True
            raise problem.with_traceback(None)  # noqa: B904

    return call
