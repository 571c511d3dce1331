"""Progress lines in the manner of tqdm, made of the program's records: docs/progress.md of the program."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, TextIO

from . import _words

BAR = 20  # characters
PATIENCE = 10.0


class Progress:
    """Takes the program's records one by one and shows them on a terminal, in a notebook or in a file.

    A component of an attack is a line. A terminal and a notebook redraw it while it works; elsewhere it is written
    once it has ended, and before that every PATIENCE seconds.
    """

    def __init__(self, out: TextIO | None, taker: Callable[[dict[str, Any]], None] | None = None) -> None:
        self.out, self.taker = out, taker
        self.error = ""  # what has ended the program
        self.closing: list[str] = []  # the lines that close what the program prints
        self._open = 0  # characters of the line that can still be redrawn
        self._redraws = out is not None and (out.isatty() or type(out).__module__.startswith("ipykernel"))
        self._drawn = time.monotonic()

    def line(self, text: str) -> None:
        """Take one line of the program's stderr."""
        try:
            record = json.loads(text)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            self.error = self.error or text.strip()  # no record: the program broke down
            return
        self.record(record)

    def record(self, r: dict[str, Any]) -> None:
        message = r.get("msg")
        if self.taker is not None:
            self.taker(r)
        if message == "failed":
            self.error = str(r.get("error", ""))
        elif message == "answered":
            self.closing = list(r["lines"])
        elif message == "component progress":
            self._draw(bar(r, r["images_done"], r["share"]), whole=False)
        elif message == "component finished":
            self._draw(bar(r, r["images"], 1), whole=True)
        elif message == "cell finished":
            self._draw(f"{where(r)}: {100 * r['accuracy']:.1f} % of {r['n']} right", whole=True)
        elif message in ("cell failed", "cell warning"):
            self._draw(f"{where(r)}: {r.get('error') or r.get('message')}", whole=True)
        elif message == "runtime fetch" and r.get("stage") == "started":
            self._draw(f"fetching {r.get('package')}, about {r.get('megabytes')} MB", whole=True)

    def close(self, closing: str = "") -> None:
        """End a line that is still open, and print what closes all."""
        if self.out is not None and (self._open or closing):
            self.out.write("\n" * bool(self._open) + (closing and closing + "\n"))
            self.out.flush()
            self._open = 0

    def _draw(self, text: str, whole: bool) -> None:
        if self.out is None:
            return
        if not self._redraws:
            if not whole and time.monotonic() - self._drawn < PATIENCE:
                return
            self._drawn, whole = time.monotonic(), True
        self.out.write("\r" * bool(self._open) + text.ljust(self._open) + "\n" * whole)
        self.out.flush()
        self._open = 0 if whole else len(text)


def where(r: dict[str, Any]) -> str:
    """What a record's cell is: the network, its control and the attack."""
    parts = [r.get("model", "")]
    if r.get("defense", "none") != "none":
        parts.append(r["defense"])
    parts.append("clean" if r.get("attack") == "none" else r.get("attack", ""))
    if r.get("epsilon") is not None:
        parts.append(_words.radius(r["epsilon"]))
    return " ".join(parts)


def bar(r: dict[str, Any], done: int, share: float) -> str:
    """A component's line; share is that of its work, which moves while no image is done."""
    drawn = "#" * int(share * BAR)
    return (
        f"{where(r)} {r.get('component', '')}: {100 * share:3.0f}%|{drawn.ljust(BAR)}| {done}/{r['images']}, "
        f"{r.get('robust', 0)} of {r.get('n', 0)} stand{left(r)}"
    )


def left(r: dict[str, Any]) -> str:
    """How long it takes still, or has taken."""
    if r.get("seconds_left") is not None:
        return f" [at most {clock(r['seconds_left'])} left]"
    return f" [{clock(r['seconds'])}]" if r.get("seconds") is not None else ""


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"
