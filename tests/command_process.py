"""An interpreter of its own that runs one `memsheaf` command after the other, for machines that lack something.

with CommandProcess({**os.environ, "PYTHONPATH": str(prepared)}, folder) as commands:
    code, printed = commands.run("remember", "I drink tea")
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

PROGRAM = """
import io, json, os, sys
from memsheaf.cli import main
for line in sys.stdin:
    words, data = json.loads(line)
    out = io.StringIO()
    code = main(words, environment=dict(os.environ), stdin=io.StringIO(data), stdout=out, stderr=out)
    print(json.dumps([code, out.getvalue()]), flush=True)
"""


class CommandProcess:
    """Starting a program for each command takes most of the time of such a test."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        words = [sys.executable, "-c", PROGRAM]
        self._process = subprocess.Popen(
            words, env=environment, cwd=folder, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def run(self, *words: str, data: str = "") -> tuple[int, str]:
        """Run a command; gives its exit code and all that it printed."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([words, data]) + "\n")
        self._process.stdin.flush()
        code, printed = json.loads(self._process.stdout.readline())
        return code, printed

    def __enter__(self) -> CommandProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=60)
