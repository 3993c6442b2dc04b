"""The yardstick: the least a program must do so that one small file survives a power cut."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from benchmarks.measure import Sample, measure

TEXT = b"x" * 1024


class Yardstick:
    """A folder of its own on the measured file system, and bare durable writes into it."""

    def __init__(self, folder: int) -> None:
        self._folder = folder
        self._numbers = count()

    def write(self) -> None:
        """Write 1 KB, flush it, rename it into place, flush the folder."""
        number = next(self._numbers)
        draft, name = f"draft-{number}", f"file-{number}"
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self._folder)
        try:
            os.write(file, TEXT)
            os.fsync(file)
        finally:
            os.close(file)
        os.rename(draft, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        os.fsync(self._folder)

    def times(self, count: int) -> Sample:
        """Measure a run of writes.

        Runs, not single writes between single saves: a flush also carries what others left unflushed, so one
        right after each save would pay a part of the save and make the yardstick longer.
        """
        return measure(lambda _: self.write(), count)


@contextmanager
def yardstick(folder: str) -> Iterator[Yardstick]:
    """Make a folder, and a yardstick that writes to it."""
    os.makedirs(folder)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield Yardstick(handle)
    finally:
        os.close(handle)
