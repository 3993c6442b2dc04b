"""`python -m memsheaf` is the command `memsheaf`. A hook goes its own way: a running server may answer it."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Run the command line of this process.

    numpy's OpenBLAS starts a thread for each core, which costs a short process more than all else about numpy and
    gains nothing here. `putenv` keeps `os.environ`, and so the commands that a chat runs, as the user has them.
    """
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        os.putenv("OPENBLAS_NUM_THREADS", "1")
    if sys.argv[1:2] == ["hook"] and not {"-h", "--help"} & set(sys.argv):
        from memsheaf.hosts.hook import run

        return run(sys.argv[2:])
    from memsheaf.cli import main as run_command

    return run_command()


if __name__ == "__main__":
    sys.exit(main())
