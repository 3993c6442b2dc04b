"""Introduce one fault at a time and see whether the tests that are named with it notice.

    python tests/mutation/mutants.py                    all faults: a line each, and how many were caught
    python tests/mutation/mutants.py store "if tail."   the faults of a room, and those in lines with these words
    python tests/mutation/mutants.py --check            only whether each line to be changed is there, once

A fault is a line of the source and what stands there instead, in `faults.txt`, with the tests that have to notice.
The source is copied, the copy is changed, and these tests run against it until the first one fails. First of all they
run without a fault: a test that fails then tells nothing.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PYTEST = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider")
TIMEOUT = 600  # seconds; a fault that makes a test hang is caught


class Fault(NamedTuple):
    """One line of the source, what stands there instead, and the tests that have to notice."""

    room: str
    line: str
    instead: str
    tests: list[str]

    def find(self, source: Path) -> Path | None:
        """The file that has the line; None when it is not there exactly once."""
        found = [path for path in source.rglob("*.py") for _ in range(path.read_text("utf-8").count(self.line))]
        return found[0] if len(found) == 1 else None

    def judge(self) -> bool:
        """Whether a test fails while the fault is in the source."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "src"
            os.chmod(folder, 0o755)  # some tests go on as another user
            shutil.copytree(ROOT / "src", source)
            path = self.find(source)
            assert path is not None
            path.write_text(path.read_text("utf-8").replace(self.line, self.instead), "utf-8")
            failed = run_tests(source, self.tests)
        print(f"{self.room:8} {failed or 'MISSED'}  {self.line}  ->  {self.instead}", flush=True)
        return bool(failed)


def run_tests(source: Path, tests: Iterable[str]) -> str:
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
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", ran.stdout.decode("utf-8", "replace"), re.MULTILINE)
    return found[1] if found else "(ends early)" * (ran.returncode != 0)


def read_faults() -> list[Fault]:
    """The faults of `faults.txt`, under each `# room`: the line, what replaces it, and the tests."""
    faults, room = [], ""
    for block in Path(__file__).with_name("faults.txt").read_text("utf-8").strip("\n").split("\n\n"):
        lines = block.split("\n")
        if lines[0].startswith("# "):
            room = lines.pop(0)[2:]
        line, instead, *tests = map(str.strip, lines)
        faults.append(Fault(room, line, instead, tests))
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("which", nargs="*", help="rooms, or words of lines; all unless named")
    parser.add_argument("--check", action="store_true", help="only look whether each fault can be introduced")
    parser.add_argument("--jobs", type=int, default=2, help="faults at a time")
    options = parser.parse_args()
    faults = read_faults()
    if options.which:
        faults = [one for one in faults if any(word == one.room or word in one.line for word in options.which)]
    missing = [fault.line for fault in faults if fault.find(ROOT / "src") is None]
    print("\n".join(f"not there once: {line}" for line in missing) or f"{len(faults)} faults", flush=True)
    if missing or options.check:
        return len(missing)
    if failed := run_tests(ROOT / "src", dict.fromkeys(test for fault in faults for test in fault.tests)):
        print(f"{failed} fails without a fault")
        return 1
    with ThreadPoolExecutor(options.jobs) as pool:
        caught = sum(pool.map(Fault.judge, faults))
    print(f"{caught} of {len(faults)} faults caught")
    return caught != len(faults)


if __name__ == "__main__":
    sys.exit(main())
