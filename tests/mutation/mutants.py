"""Introduce one fault at a time and see whether the tests of its room notice.

    python tests/mutation/mutants.py                    all faults: a line each, and how many were caught
    python tests/mutation/mutants.py store guard        the faults of these rooms
    python tests/mutation/mutants.py --check            only whether each line to be changed is there, once

A fault is a line of the source and what stands there instead, in `faults.txt`, with the tests that are likely to
notice. The source is copied, the copy is changed, and these tests and then all of the room run against it until the
first one fails. First of all they run against a copy without a fault: a test that fails there tells nothing.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FAULTS = Path(__file__).with_name("faults.txt")
PYTEST = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider")
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
    """One line of the source, what stands there instead, and the tests that are likely to notice."""

    room: str
    line: str
    instead: str
    tests: tuple[str, ...]

    def find(self, source: Path) -> Path | None:
        """The file that has the line; None when it is not there exactly once."""
        found = [path for path in source.rglob("*.py") for _ in range(path.read_text("utf-8").count(self.line))]
        return found[0] if len(found) == 1 else None

    def judge(self) -> str:
        """The first test that fails while the fault is in the source and passes without it, "" when there is none."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "src"
            os.chmod(folder, 0o755)  # some tests go on as another user
            shutil.copytree(ROOT / "src", source)
            path = self.find(source)
            assert path is not None
            path.write_text(path.read_text("utf-8").replace(self.line, self.instead), "utf-8")
            likely = run_tests(source, self.tests)
            caught = likely or run_tests(source, TESTS[self.room])
        said = caught or "MISSED"
        if caught and run_tests(ROOT / "src", [caught] if "::" in caught else [*self.tests, *TESTS[self.room]]):
            caught, said = "", f"{caught} FAILS WITHOUT THE FAULT"
        print(f"{self.room:8} {said}{'' if likely else ' (unlikely)'}  {self.line}  ->  {self.instead}", flush=True)
        return caught


def run_tests(source: Path, tests: Sequence[str]) -> str:
    """The first test that fails against this source, "" when none does."""
    environment = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": ""}
    with tempfile.TemporaryDirectory() as folder:
        command = [*PYTEST, "--basetemp", f"{folder}/t", *tests]
        try:
            ran = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, timeout=TIMEOUT, check=False
            )
        except subprocess.TimeoutExpired:
            return "(does not end)"
    found = re.search(r"^(?:FAILED|ERROR) ([^\s\[]+)", ran.stdout.decode("utf-8", "replace"), re.MULTILINE)
    return found[1] if found else "(ends early)" * (ran.returncode != 0)


def read_faults() -> list[Fault]:
    """The faults of `faults.txt`, under each `# room`: the line, what replaces it, and the tests to begin with."""
    faults, room = [], ""
    for block in FAULTS.read_text("utf-8").strip("\n").split("\n\n"):
        lines = block.split("\n")
        if lines[0].startswith("# "):
            room = lines.pop(0)[2:]
        line, instead, tests = map(str.strip, lines)
        faults.append(Fault(room, line, instead, tuple(tests.split())))
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rooms", nargs="*", choices=[[], *TESTS], help="all unless named")
    parser.add_argument("--check", action="store_true", help="only look whether each fault can be introduced")
    parser.add_argument("--jobs", type=int, default=2, help="faults at a time")
    options = parser.parse_args()
    faults = [fault for fault in read_faults() if not options.rooms or fault.room in options.rooms]
    missing = [fault.line for fault in faults if fault.find(ROOT / "src") is None]
    print("\n".join(f"not there once: {line}" for line in missing) or f"{len(faults)} faults", flush=True)
    if missing or options.check:
        return len(missing)
    with ThreadPoolExecutor(options.jobs) as pool:
        caught = list(filter(None, pool.map(Fault.judge, faults)))
    print(f"{len(caught)} of {len(faults)} faults caught")
    return 0 if len(caught) == len(faults) else 1


if __name__ == "__main__":
    sys.exit(main())
