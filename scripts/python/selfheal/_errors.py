"""What goes wrong, as exceptions."""

from __future__ import annotations


class SelfhealError(RuntimeError):
    """The program has ended with an error; the message is its one line, `exit_code` its exit code."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class UsageError(SelfhealError, ValueError):
    """An argument, config or file with which there is no run."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message, exit_code)
