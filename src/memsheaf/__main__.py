"""`python -m memsheaf` is the command `memsheaf`."""

from __future__ import annotations

import sys

from memsheaf.cli import main

if __name__ == "__main__":
    sys.exit(main())
