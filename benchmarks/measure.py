"""Clocks: how long a piece of work takes, in CPU and in wall time, over many repetitions."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from time import perf_counter, process_time

AT_LEAST = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """The seconds that each repetition took."""

    cpu: tuple[float, ...]
    wall: tuple[float, ...]

    def __add__(self, other: Sample) -> Sample:
        return Sample(self.cpu + other.cpu, self.wall + other.wall)

    @property
    def cpu_ms(self) -> float:
        """The median CPU time."""
        return median(self.cpu) * 1000

    @property
    def wall_ms(self) -> float:
        """The median wall time."""
        return median(self.wall) * 1000

    @property
    def cpu_p95_ms(self) -> float:
        """The CPU time that one in twenty exceeds."""
        return p95(self.cpu) * 1000

    @property
    def wall_p95_ms(self) -> float:
        """The wall time that one in twenty exceeds."""
        return p95(self.wall) * 1000

    @property
    def cpu_mean_ms(self) -> float:
        """The mean CPU time, which work that is done only now and then cannot hide from."""
        return fmean(self.cpu) * 1000

    @property
    def wall_mean_ms(self) -> float:
        """The mean wall time."""
        return fmean(self.wall) * 1000

    @property
    def wall_worst_ms(self) -> float:
        """The longest anyone waited."""
        return max(self.wall) * 1000


NOTHING = Sample((), ())


def p95(values: Sequence[float]) -> float:
    """The value that one in twenty exceeds.

    >>> p95(range(1, 101)), p95([7])
    (95, 7)
    """
    return sorted(values)[-(-19 * len(values) // 20) - 1]


def measure(work: Callable[[int], object], times: int, *, at_least: int = AT_LEAST, budget: float = 20.0) -> Sample:
    """Do the work `times` times, or `at_least` times and then for as long as the budget of seconds lasts.

    The work gets the number of the repetition.
    """
    cpu: list[float] = []
    wall: list[float] = []
    while len(cpu) < times and (len(cpu) < at_least or sum(wall) < budget):
        wall_before, cpu_before = perf_counter(), process_time()
        work(len(cpu))
        cpu_after, wall_after = process_time(), perf_counter()
        cpu.append(cpu_after - cpu_before)
        wall.append(wall_after - wall_before)
    return Sample(tuple(cpu), tuple(wall))


def installed(cache: str, **more: str) -> dict[str, str]:
    """The environment of a process that finds its bytecode ready, as an installed program does.

    The bytecode is kept in `cache`. Where the harness runs with it switched off, every start would otherwise
    compile the whole package, which no user waits for.
    """
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "PYTHONPYCACHEPREFIX": cache, **more}


def measure_processes(
    commands: Sequence[Sequence[str]], times: int, *, environment: Mapping[str, str], budget: float = 60.0
) -> list[Sample]:
    """Run several commands in turn, so that all meet the same noise.

    The first round warms the caches and is left out. As in `measure`, the budget of seconds ends it early.

    Raises:
        subprocess.CalledProcessError: a command failed, so its time would say nothing.
    """
    samples = [NOTHING] * len(commands)
    started = perf_counter()
    for number in range(times + 1):
        if number > AT_LEAST and perf_counter() - started > budget:
            break
        for place, command in enumerate(commands):
            run = _run(command, environment)
            if number:
                samples[place] += run
    return samples


def _run(command: Sequence[str], environment: Mapping[str, str]) -> Sample:
    started = perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)  # it is waited for already
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Sample((usage.ru_utime + usage.ru_stime,), (wall,))
