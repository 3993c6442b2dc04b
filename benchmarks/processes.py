"""What a whole process costs at one size: the command line, and the memory that a program holds."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.measure import Sample, installed, measure_processes
from memsheaf.config import Settings


def environment_of(settings: Settings, scope: str) -> dict[str, str]:
    """The environment of a process that uses this memory."""
    return installed(
        os.path.join(settings.cache, "bytecode"),
        MEMSHEAF_HOME=settings.home,
        MEMSHEAF_CACHE=settings.cache,
        MEMSHEAF_SCOPE=scope,
        MEMSHEAF_EMBEDDER=settings.embedder,
    )


def list_command(environment: dict[str, str], size: int, times: int) -> tuple[Sample, Sample]:
    """Measure bare Python, and `memsheaf list` of `size` memories, in turn.

    Raises:
        Unmeasured: the command fails, or does not list them all.
    """
    command = [os.path.join(os.path.dirname(sys.executable), "memsheaf"), "list"]
    try:
        shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        if shown.count("\n") < size:
            raise Unmeasured(f"it printed {shown.count(chr(10))} lines")
        bare, ours = measure_processes([[sys.executable, "-c", "pass"], command], times, environment=environment)
    except OSError as error:
        raise Unmeasured(error.strerror or "it cannot be started") from None
    except subprocess.CalledProcessError as error:
        raise Unmeasured(f"it ended with status {error.returncode}") from None
    return bare, ours


class Unmeasured(Exception):
    """Why a command has no time; the text names no path of this machine."""


_USE = """
import os
from memsheaf.sheaf import Sheaf
with Sheaf.open(os.environ["MEMSHEAF_SCOPE"]) as sheaf:
    sheaf.prompt(); sheaf.search("one word", limit=5); rows = sheaf.list(); sheaf.read(rows[0].path)
# not ru_maxrss, which a child starts with at the size of the parent that made it
try:
    with open("/proc/self/status") as file:
        print(next(line.split()[1] for line in file if line.startswith("VmHWM")))
except OSError:
    import resource, sys
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1))
"""


def resident(environment: dict[str, str]) -> float:
    """The most memory that a process held which prompted, searched, listed and read, in MB."""
    command = [sys.executable, "-c", _USE]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return int(shown) / 1024
