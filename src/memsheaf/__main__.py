"""`python -m memsheaf` is the command `memsheaf`. A hook goes its own way: it has to start quickly."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Run the command line of this process."""
    if sys.argv[1:2] == ["hook"] and not {"-h", "--help"} & set(sys.argv):
        import gc

        from memsheaf.hosts.hook import run

        if sys.argv[2:3] in (["work"], ["sync"]):
            return run(sys.argv[2:])
        gc.disable()  # it ends soon, and nobody needs what would be collected
        os._exit(run(sys.argv[2:]))
    from memsheaf.cli import main as run_command

    return run_command()


if __name__ == "__main__":
    sys.exit(main())
