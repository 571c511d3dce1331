"""Folders of one call and of this process. Each is locked while its process lives; a later call removes those whose
process has ended without doing so, however it was ended."""

from __future__ import annotations

import atexit
import contextlib
import os
import pathlib
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator

LOCK = ".lock"
OF_PROCESS = "selfheal-python-"  # in the system's temporary folder
OF_CALL = ".selfheal-call-"  # in a folder for results


class Owned:
    """A new folder in another one, which is this process's."""

    def __init__(self, parent: str | os.PathLike[str], prefix: str) -> None:
        self._process = os.getpid()
        while True:
            self.path = pathlib.Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            try:
                self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            except FileNotFoundError:  # another call has taken the folder for a dead process's
                continue
            if lock(self._lock) is not False and not os.fstat(self._lock).st_size:
                return
            os.close(self._lock)  # likewise

    def remove(self) -> None:
        """Remove the folder, unless it belongs to the process that this one was forked from."""
        if self._process == os.getpid():
            os.close(self._lock)
            shutil.rmtree(self.path, ignore_errors=True)


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


_of_processes: dict[int, Owned] = {}  # by their numbers: a fork has its own


def temporary() -> pathlib.Path:
    """A new folder that stays until this process ends."""
    sweep(tempfile.gettempdir(), OF_PROCESS)
    own = _of_processes.get(os.getpid())
    if own is None or not own.path.is_dir():  # something tidies up temporary folders
        own = _of_processes[os.getpid()] = Owned(tempfile.gettempdir(), OF_PROCESS)
        atexit.register(own.remove)
    return pathlib.Path(tempfile.mkdtemp(dir=own.path))


@contextlib.contextmanager
def of_call(out: str | os.PathLike[str] | None) -> Iterator[tuple[pathlib.Path, pathlib.Path]]:
    """A call's folders: for its inputs, which it alone writes to and which goes with it, and for its results.

    The latter is out, or a temporary one, from which an error, too, removes all.
    """
    if out is None:
        results = temporary()
        inputs = results / "input"
        inputs.mkdir()
        try:
            yield inputs, results
        except BaseException:
            shutil.rmtree(results, ignore_errors=True)
            raise
        shutil.rmtree(inputs, ignore_errors=True)
        return
    results = pathlib.Path(out)
    if made := not results.exists():
        results.mkdir(parents=True, exist_ok=True)
    sweep(tempfile.gettempdir(), OF_PROCESS)
    sweep(results, OF_CALL)
    own = Owned(results, OF_CALL)
    try:
        yield own.path, results
    finally:
        own.remove()
        if made:
            with contextlib.suppress(OSError):  # it holds results
                results.rmdir()
