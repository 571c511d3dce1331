"""The commands: `selfheal`, which is the Go program, and `python -m selfheal`, which has publish besides."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NoReturn

from . import _program
from ._errors import SelfhealError


def program() -> NoReturn:
    """Become the Go program, with this process's arguments."""
    arguments = [str(_program.PROGRAM), *sys.argv[1:]]
    if os.name == "nt":  # where no process becomes another one
        sys.exit(subprocess.run(arguments, env=_program.environment(), check=False).returncode)
    os.execve(_program.PROGRAM, arguments, _program.environment())


def main() -> NoReturn:
    if sys.argv[1:2] != ["publish"]:
        program()
    from . import publish

    try:
        sys.exit(publish.main(sys.argv[2:]))
    except SelfhealError as problem:
        sys.exit(f"selfheal: {problem}")


if __name__ == "__main__":
    main()
