"""A sign on a terminal that something goes on, which leaves no trace."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

FRAMES = "|/-\\"
EVERY = 0.1
IDLE = 0.5  # seconds without a word after which it shows
COUNTED = 3.0  # seconds after which it says how long it has been
_ROOM = 10


class Spinner:
    """Turns where the text ends, as long as nothing is written there. Whoever writes does so `away` from it."""

    def __init__(self, err: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._err = err
        self._clock = clock
        self._guard = threading.RLock()
        self._done = threading.Event()
        self._worker: threading.Thread | None = None
        self._shown = 0
        self._fits = True
        self._is_resting = False
        self._since = 0.0

    def __enter__(self) -> Spinner:
        self._done.clear()
        self._since = self._clock()
        self._worker = threading.Thread(target=self._turn, name="memsheaf-spinner", daemon=True)
        self._worker.start()
        return self

    def __exit__(self, *why: object) -> None:
        self._done.set()
        if self._worker:
            self._worker.join()
            self._worker = None
        with self._guard:
            self._erase()

    @contextmanager
    def away(self, column: int, width: int) -> Iterator[None]:
        """Let something be written that ends in this column; with no room behind it, nothing turns there."""
        with self._guard:
            self._erase()
            try:
                yield
            finally:
                self._fits = column + _ROOM < width
                self._since = self._clock()

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Turn no more until somebody has answered."""
        with self._guard:
            self._erase()
            before, self._is_resting = self._is_resting, True
        try:
            yield
        finally:
            with self._guard:
                self._is_resting = before
                self._since = self._clock()

    def _turn(self) -> None:
        frame = 0
        while not self._done.wait(EVERY):
            with self._guard:
                waited = self._clock() - self._since
                if self._is_resting or not self._fits or waited < IDLE:
                    continue
                self._erase()
                sign = FRAMES[frame % len(FRAMES)] + (f" {waited:.0f} s" if waited >= COUNTED else "")
                self._write(sign)
                self._shown = len(sign)
                frame += 1

    def _erase(self) -> None:
        if self._shown:
            self._write("\b" * self._shown + " " * self._shown + "\b" * self._shown)
            self._shown = 0

    def _write(self, text: str) -> None:
        try:
            self._err.write(text)
            self._err.flush()
        except (OSError, ValueError):  # nobody watches any more
            self._done.set()
