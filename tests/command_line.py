"""Commands of `memsheaf`, run in this process."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from contextlib import chdir
from pathlib import Path

from memsheaf.cli import main


def environment_in(folder: Path, **more: str) -> dict[str, str]:
    """Home, cache and state below a folder, and search by words."""
    places = {f"MEMSHEAF_{name.upper()}": str(folder / name) for name in ("home", "cache", "state")}
    return places | {"MEMSHEAF_EMBEDDER": "none", "HOME": str(folder), "PATH": os.environ["PATH"]} | more


def run_command(
    words: Sequence[str], environment: Mapping[str, str], *, folder: Path | str = ".", stdin: str = ""
) -> tuple[int, str, str]:
    """Run a command in a folder; gives its exit code, what it answered and what it noted."""
    out, err = io.StringIO(), io.StringIO()
    with chdir(folder):
        code = main(words, environment=environment, stdin=io.StringIO(stdin), stdout=out, stderr=err)
    return code, out.getvalue(), err.getvalue()
