"""Saves against the yardstick on a disk whose flush takes its time.

Where a flush takes a tenth of a millisecond, as on a virtual disk that keeps writes in memory, the ratio of a
save to the yardstick compares CPU time. So both are measured once more while every flush is held up by `HELD`
microseconds, which is what a good consumer SSD takes. `strace` does that to the flushes alone and leaves all other
system calls at their speed. `python -m benchmarks.flush FOLDER` is the process that it holds up.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from statistics import median

from benchmarks.measure import measure
from benchmarks.memories import fill, memory
from benchmarks.processes import Unmeasured
from benchmarks.sizes import SCOPE, SETTLING
from benchmarks.yardstick import yardstick
from memsheaf.config import Settings
from memsheaf.sheaf import Sheaf
from memsheaf.transfer import take_in

HELD = 1_000
SIZE = 1_000
_FLUSHES = "fsync,fdatasync,syncfs"


def yardsticks_when_held(folder: str, rounds: int) -> float:
    """How many yardsticks a usual save takes where a flush takes a millisecond.

    Raises:
        Unmeasured: there is no strace, or it may not be used.
    """
    tracer = shutil.which("strace")
    if not tracer:
        raise Unmeasured("it takes strace, which is not installed")
    hold = ["-f", "--seccomp-bpf", "-qq", "-o", os.devnull, "-e", f"trace={_FLUSHES}"]
    hold += ["-e", f"inject={_FLUSHES}:delay_exit={HELD}"]
    command = [tracer, *hold, sys.executable, "-m", "benchmarks.flush", folder, str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unmeasured(f"strace ended with status {done.returncode}")
    return float(done.stdout)


def main(folder: str, rounds: int) -> None:
    """Fill a folder, save in rounds, and print the middle of their ratios."""
    source = os.path.join(folder, "documents")
    settings = Settings(home=os.path.join(folder, "home"), cache=os.path.join(folder, "cache"), embedder="none")
    fill(source, SIZE)
    ratios = []
    with Sheaf.open(SCOPE, settings=settings) as sheaf, yardstick(os.path.join(folder, "yardstick")) as stick:
        take_in(sheaf.own, source)

        def save(number: int) -> None:
            one = memory(number)
            sheaf.write(one.name, one.description, one.kind, one.content)

        for first in range(SIZE, SIZE + rounds * SETTLING, SETTLING):
            before = stick.times(SETTLING // 2)
            saves = measure(lambda number, first=first: save(first + number), SETTLING)  # type: ignore[misc]
            ratios.append(saves.wall_ms / (before + stick.times(SETTLING // 2)).wall_ms)
    print(median(ratios))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
