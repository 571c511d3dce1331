"""Folders of one call. Each is locked while its process lives; a later call removes those whose process has ended
without doing so, however it was ended."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import stat
import sys
import tempfile
import weakref
from collections.abc import Iterator

from ._errors import UsageError

LOCK = ".lock"
MEMORY = pathlib.Path("/dev/shm")  # Linux's folder that is no disk
OF_PROCESS = "selfheal-python-"  # in the system's temporary folder, and in memory
OF_CALL = ".selfheal-call-"  # in a folder for results


class Owned:
    """A new folder in another one, which is this process's and goes with this object."""

    def __init__(self, parent: str | os.PathLike[str], prefix: str) -> None:
        while True:
            self.path = pathlib.Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            try:
                self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            except FileNotFoundError:  # another call has taken the folder for a dead process's
                continue
            if lock(self._lock) is not False and not os.fstat(self._lock).st_size:
                break
            os.close(self._lock)  # likewise
        self.remove = weakref.finalize(self, remove, self.path, self._lock, os.getpid())  # at the latest as Python ends


def remove(path: pathlib.Path, file: int, process: int) -> None:
    """Remove an owned folder, unless it belongs to the process that this one was forked from."""
    if process == os.getpid():
        os.close(file)
        shutil.rmtree(path, ignore_errors=True)


def lock(file: int) -> bool | None:
    """Lock an open file until it is closed; False where another process has it, None where nothing can be locked."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # some network file systems
        return None
    return True


def sweep(parent: str | os.PathLike[str], prefix: str) -> None:
    """Remove the folders with a prefix that this user's dead processes have left in another one."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(prefix):
                with contextlib.suppress(OSError):
                    remove_dead(entry)


def remove_dead(folder: os.DirEntry[str]) -> None:
    found = folder.stat(follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode) or (hasattr(os, "getuid") and found.st_uid != os.getuid()):
        return
    try:
        file = os.open(os.path.join(folder.path, LOCK), os.O_RDWR)
    except FileNotFoundError:
        os.rmdir(folder.path)  # whoever is about to lock it makes another one
        return
    try:
        dead = lock(file)
        if dead:
            os.write(file, b"dead")  # for who waits for the lock: only a closed file can be removed everywhere
    finally:
        os.close(file)
    if dead:
        shutil.rmtree(folder.path, ignore_errors=True)


def temporary(size: int | None = None) -> Owned:
    """A new folder outside of all results: in memory, where it has room for so many bytes, or the system's temporary
    one."""
    parents = [pathlib.Path(tempfile.gettempdir())]
    for name in ("TMPDIR", "TEMP", "TMP"):
        if os.environ.get(name):
            size = None  # the user has chosen one
    if size is not None:
        with contextlib.suppress(OSError):
            if shutil.disk_usage(MEMORY).free > 4 * size + 2**20:
                parents.insert(0, MEMORY)
    for parent in parents:
        sweep(parent, OF_PROCESS)
        with contextlib.suppress(PermissionError):
            return Owned(parent, OF_PROCESS)
    raise UsageError(f"{parents[-1]} takes no files: let TMPDIR name a folder that does")


@contextlib.contextmanager
def of_call(out: str | os.PathLike[str] | None, size: int) -> Iterator[tuple[pathlib.Path, pathlib.Path, Owned]]:
    """A call's folders: for its inputs of so many bytes, which it alone writes to and which goes with it, and for its
    results; and what owns the latter.

    Results are in out, or in a temporary folder, which goes with its owner, and at once where there is an error.
    """
    if out is None:
        own, inputs = temporary(size), temporary(size)
        try:
            yield inputs.path, own.path, own
        except BaseException:
            own.remove()
            raise
        finally:
            inputs.remove()
        return
    results = pathlib.Path(out)
    if made := not results.exists():
        results.mkdir(parents=True, exist_ok=True)
    sweep(tempfile.gettempdir(), OF_PROCESS)
    sweep(results, OF_CALL)
    own = Owned(results, OF_CALL)
    try:
        yield own.path, results, own
    finally:
        own.remove()
        if made:
            with contextlib.suppress(OSError):  # it holds results
                results.rmdir()
