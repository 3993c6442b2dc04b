"""The yardstick: the least a program must do so that one small file survives a power cut."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.measure import Sample, measure

TEXT = b"x" * 1024


class Yardstick:
    """A folder of its own on the measured file system, and one bare durable write into it."""

    def __init__(self, folder: str) -> None:
        os.makedirs(folder)
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    def close(self) -> None:
        """Let the folder go."""
        os.close(self._folder)

    def write(self, number: int) -> None:
        """Write 1 KB, flush it, rename it into place, flush the folder."""
        draft, name = f"draft-{number}", f"file-{number}"
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self._folder)
        try:
            os.write(file, TEXT)
            os.fsync(file)
        finally:
            os.close(file)
        os.rename(draft, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        os.fsync(self._folder)

    def times(self, count: int, *, first: int) -> Sample:
        """Measure a run of writes, numbered from `first`.

        Runs, not single writes between single saves: a flush also carries what others left unflushed, so one
        right after each save would pay a part of the save and make the yardstick longer.
        """
        return measure(self.write, count, first=first)


@contextmanager
def yardstick(folder: str) -> Iterator[Yardstick]:
    """Open a yardstick for a while."""
    stick = Yardstick(folder)
    try:
        yield stick
    finally:
        stick.close()
