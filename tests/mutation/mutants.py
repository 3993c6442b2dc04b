"""Introduce one fault at a time and see whether the tests of its room notice.

    python tests/mutation/mutants.py                    all faults: a line each, and how many were caught
    python tests/mutation/mutants.py store guard        the faults of these rooms
    python tests/mutation/mutants.py --check            only whether each line to be changed is there, once

A fault is a line of the source and what stands there instead, in `faults.txt`. The source is copied, the copy is
changed, and the room's tests run against it until the first one fails.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FAULTS = Path(__file__).with_name("faults.txt")
TIMEOUT = 1_200  # seconds; a fault that makes a test hang is caught
TESTS = {
    "store": [
        "tests/store",
        "tests/test_sheaf.py",
        "tests/test_git.py",
        "tests/test_provenance.py",
        "tests/test_gates.py",
    ],
    "guard": ["tests/guard", "tests/text", "tests/test_secret_gate.py", "tests/test_traversal.py"],
    "recall": ["tests/recall", "tests/index/test_catalog.py", "tests/test_discipline.py"],
    "learn": ["tests/learn"],
    "tools": ["tests/test_tools.py", "tests/test_gates.py", "tests/test_provenance.py", "tests/test_sheaf.py"],
    "mcp": ["tests/mcp_server"],
}


class Fault(NamedTuple):
    """One line of the source, and what stands there instead."""

    room: str
    line: str
    instead: str

    def apply(self, source: Path) -> bool:
        """Change the copy; False when the line is not there exactly once."""
        found = [path for path in source.rglob("*.py") if self.line in path.read_text("utf-8")]
        if len(found) != 1 or found[0].read_text("utf-8").count(self.line) != 1:
            return False
        found[0].write_text(found[0].read_text("utf-8").replace(self.line, self.instead), "utf-8")
        return True


def read_faults() -> list[Fault]:
    """The faults of `faults.txt`: under each `# room`, the line and what replaces it, separated by an empty line."""
    faults, room = [], ""
    for block in FAULTS.read_text("utf-8").split("\n\n"):
        lines = [line for line in block.strip("\n").split("\n") if line]
        if lines and lines[0].startswith("# "):
            room = lines.pop(0)[2:]
        if lines:
            line, instead = lines
            faults.append(Fault(room, line.strip(), instead.strip()))
    return faults


def is_caught(fault: Fault, source: Path) -> bool:
    """Whether a test of the room fails while the fault is in the source."""
    paths = [path for path in TESTS[fault.room] if (ROOT / path).exists()]
    environment = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-n",
        "2",
        "--dist",
        "worksteal",
        *paths,
    ]
    try:
        ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return True
    return ran.returncode in (1, 2)  # 2: stopped at the first failure of several processes


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rooms", nargs="*", choices=[[], *TESTS], help="all unless named")
    parser.add_argument("--check", action="store_true", help="only look whether each fault can be introduced")
    options = parser.parse_args()
    faults = [fault for fault in read_faults() if not options.rooms or fault.room in options.rooms]
    missing = caught = 0
    for fault in faults:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "src"
            shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
            if not fault.apply(source):
                missing += 1
                print(f"{fault.room:8} NOT THERE ONCE  {fault.line}", flush=True)
            elif not options.check:
                found = is_caught(fault, source)
                caught += found
                print(
                    f"{fault.room:8} {'caught' if found else 'MISSED'}  {fault.line}  ->  {fault.instead}", flush=True
                )
    print(f"{len(faults)} faults, {missing} not there" + ("" if options.check else f", {caught} caught"))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
