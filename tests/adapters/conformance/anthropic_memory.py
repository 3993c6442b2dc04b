"""The tests that Anthropic's SDK has for its own memory backend, run against ours: `python anthropic_memory.py`.

The test file comes with the source distribution of the installed version, which pip fetches once. The plugin beside
this file puts our tools in the place of the SDK's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / ".cache"
SUITE = "tests/lib/tools/memory_tools/test_filesystem.py"
SYNC, ASYNC = "TestBetaLocalFilesystemMemoryTool", "TestBetaAsyncLocalFilesystemMemoryTool"

_TOO_LARGE = "a file has at most 256 KiB, so one of a million lines is refused when it is made, not when it is viewed"
DEVIATIONS = {
    f"{SYNC}::test_view_error_for_files_with_too_many_lines": _TOO_LARGE,
    f"{ASYNC}::test_view_error_for_files_with_too_many_lines": _TOO_LARGE,
    f"{ASYNC}::test_validate_path_returns_resolved_path_not_symlink_target": (
        "it calls a private method to see where a link inside of the root leads; no link is followed here"
    ),
}
"""Which of the tests fail, and why."""


class Outcome(NamedTuple):
    """The names of the tests that passed, and of those that did not, with the first line of what was said."""

    passed: tuple[str, ...]
    failed: dict[str, str]


class Unreachable(Exception):
    """There is no package index to fetch the source distribution from."""


def fetched() -> Path:
    """The source distribution of the SDK that is installed; from pip once, then from the cache.

    Raises:
        Unreachable: pip knows of no index that has the package.
    """
    wanted = f"anthropic=={version('anthropic')}"
    kept = CACHE / f"anthropic-{version('anthropic')}.tar.gz"
    if kept.exists():
        return kept
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        command = ["download", "--no-deps", "--no-binary", "anthropic", "--dest", folder, wanted]
        done = _pip(*command)
        if done.returncode and _pip("index", "versions", "anthropic").returncode:
            raise Unreachable(done.stderr)
        assert done.returncode == 0, done.stderr
        (archive,) = Path(folder).glob("*.tar.gz")
        os.replace(archive, kept)
    return kept


def _pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def run() -> Outcome:
    """Run the SDK's tests against our tools, in a process of their own."""
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fetched()) as archive:
        (suite,) = [member for member in archive.getmembers() if member.name.endswith(f"/{SUITE}")]
        text = archive.extractfile(suite)
        assert text is not None
        Path(folder, "test_filesystem.py").write_bytes(text.read())
        Path(folder, "pytest.ini").write_text("[pytest]\n")
        report = Path(folder, "report.xml")
        plugins = ["-p", "no:anyio", "-p", "no:cacheprovider", "-p", "anthropic_memory_plugin"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *plugins, "test_filesystem.py"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert report.exists(), done.stdout + done.stderr
        return _read(report)


def _read(report: Path) -> Outcome:
    passed, failed = [], {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        problems = [child for child in case if child.tag in ("failure", "error", "skipped")]
        if problems:
            failed[name] = (problems[0].get("message") or "").partition("\n")[0]
        else:
            passed.append(name)
    return Outcome(tuple(passed), failed)


if __name__ == "__main__":
    outcome = run()
    for name, said in outcome.failed.items():
        print(f"failed  {name}\n        {said}\n        {DEVIATIONS.get(name, 'not expected')}")
    print(f"{len(outcome.passed)} passed, {len(outcome.failed)} failed, {len(DEVIATIONS)} of them expected")
    sys.exit(set(outcome.failed) != set(DEVIATIONS))
