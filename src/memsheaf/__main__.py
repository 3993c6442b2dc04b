"""`python -m memsheaf` is the command `memsheaf`. A hook goes its own way: a running server may answer it."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line of this process."""
    if sys.argv[1:2] == ["hook"] and not {"-h", "--help"} & set(sys.argv):
        from memsheaf.hosts.hook import run

        return run(sys.argv[2:])
    from memsheaf.cli import main as run_command

    return run_command()


if __name__ == "__main__":
    sys.exit(main())
