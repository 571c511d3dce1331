"""The Go program in this package: where it is, which ONNX Runtime it takes, and calls that report, stop and fail as
Python's own functions do."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._errors import SelfhealError, UsageError
from ._progress import Progress

if TYPE_CHECKING:
    from ._function import Function

PROGRAM = pathlib.Path(__file__).parent / ("selfheal.exe" if os.name == "nt" else "selfheal")
# The variable names the onnxruntime package's library, for the CPU provider alone; the program's own search comes
# before it and after it.
LIBRARY_VARIABLE = "SELFHEAL_ONNXRUNTIME"
LIBRARIES = ("libonnxruntime.so.*", "libonnxruntime.*.dylib", "onnxruntime.dll")
USAGE = 2  # the program's exit code for wrong usage
# With the variable the program ends when this process has ended, however that was: then its standard input ends.
LIFELINE_VARIABLE = "SELFHEAL_LIFELINE"


def library() -> pathlib.Path | None:
    """ONNX Runtime's shared library in the onnxruntime package, which is not imported for that; None without one."""
    spec = importlib.util.find_spec("onnxruntime")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for pattern in LIBRARIES:
            for path in sorted((pathlib.Path(folder) / "capi").glob(pattern)):
                return path
    return None


def environment() -> dict[str, str]:
    """The program's environment: ours, and where the onnxruntime package has its library."""
    variables = dict(os.environ)
    found = library()
    if found is not None:
        variables.setdefault(LIBRARY_VARIABLE, str(found))
    return variables


def call(
    arguments: Sequence[str],
    progress: bool | Callable[[dict[str, Any]], None] = True,
    kept: str = "",
    function: Function | None = None,
) -> str:
    """Run a verb that tells its progress in records, such as run, to its end; progress may be what takes the records.

    function answers the program's questions in this thread. Returns the lines that close what the verb prints. Raises
    SelfhealError, UsageError where the program's exit code says so, what the function raises, and KeyboardInterrupt
    once the program has stopped in order; kept says what then becomes of the work.
    """
    records = Progress(sys.stderr if progress is True else None, progress if callable(progress) else None)

    def read(process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            records.line(line.decode(errors="replace"))

    try:
        asks = function is not None
        said = subprocess.PIPE if asks else subprocess.DEVNULL
        with started([*arguments, "--log-format", "json"], said, asks) as process:
            reader = threading.Thread(target=read, args=(process,), daemon=True)
            reader.start()
            try:
                if function is not None:
                    function.serve(process)
                process.wait()
            except BaseException:  # Ctrl-C, what a signal handler raises, or the function
                stop(process)
                raise
            reader.join()
    except KeyboardInterrupt:
        records.close()
        raise interrupted(kept) from None
    finally:
        records.close()
    fail(process.returncode, records.error)
    summary = "\n".join(records.closing)
    records.close(summary)
    return summary


class _Hook:
    """sys.excepthook that prints the line of a KeyboardInterrupt of ours, without a traceback."""

    def __init__(self) -> None:
        self.before = sys.excepthook

    def __call__(
        self, kind: type[BaseException], problem: BaseException, traceback: types.TracebackType | None
    ) -> None:
        if hasattr(problem, "_render_traceback_"):
            print(problem, file=sys.stderr)
        else:
            self.before(kind, problem, traceback)


def interrupted(kept: str) -> KeyboardInterrupt:
    """What Ctrl-C raises. A script, and a notebook, that does not catch it shows its line alone."""
    line = "selfheal: stopped" + f"; {kept}" * bool(kept)
    problem = KeyboardInterrupt(line)
    problem._render_traceback_ = lambda: [line]  # type: ignore[attr-defined]  # IPython's
    if not isinstance(sys.excepthook, _Hook):
        sys.excepthook = _Hook()
    return problem


def output(arguments: Sequence[str], accepted: Sequence[int] = (0,)) -> str:
    """What a verb prints; raises as call does where its exit code is not accepted."""
    with started(arguments) as process:
        try:
            out, err = process.communicate()
        except KeyboardInterrupt:
            stop(process)
            raise
    if process.returncode not in accepted:
        fail(process.returncode, err.decode(errors="replace").strip().removeprefix("selfheal: "))
    return out.decode(errors="replace")


@contextlib.contextmanager
def started(
    arguments: Sequence[str], stdout: int = subprocess.PIPE, asks: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """The program as a process of a session of its own, so that Ctrl-C reaches it once and through us.

    Its standard input ends with this process; only a program that asks reads something there.
    """
    if not PROGRAM.exists():
        raise SelfhealError(f"the selfheal program is not in {PROGRAM.parent}: install the wheel for this platform")
    own: Mapping[str, Any] = (
        {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
        if os.name == "nt"
        else {"start_new_session": True}
    )
    its, ours = os.pipe()
    try:
        try:
            process = subprocess.Popen(
                [str(PROGRAM), *arguments, *["--function"] * asks],
                env={**environment(), LIFELINE_VARIABLE: "function" if asks else "1"},
                stdin=subprocess.PIPE if asks else its,
                stdout=stdout,
                stderr=subprocess.PIPE,
                **own,
            )
        finally:
            os.close(its)
        yield process
    finally:
        os.close(ours)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask the program to stop and let it save what is done; a second Ctrl-C ends it at once."""
    interrupt = getattr(signal, "CTRL_BREAK_EVENT", signal.SIGINT)
    process.send_signal(interrupt)
    try:
        for pipe in (process.stdin, process.stdout):  # it asks in vain
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.wait()
    except KeyboardInterrupt:
        process.kill()
        process.wait()


def fail(code: int, message: str) -> None:
    """Raise what an exit code means; nothing for 0."""
    if code == 0:
        return
    message = message or f"the program ended with exit code {code}"
    raise UsageError(message) if code == USAGE else SelfhealError(message, code)
