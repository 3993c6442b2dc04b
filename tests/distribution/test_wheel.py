"""The wheel has all of the package and nothing else, and says what a package index needs. `make dist` tries more.

The workflow for hosted CI cannot be run here; what it names exists.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from distribution.check_dist import PYTHONS, ROOT, metadata_problems, wheel_problems


def test_the_wheel_is_whole_and_its_metadata_complete(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert list(wheel_problems(wheel)) == []


def test_a_link_that_leads_nowhere_on_a_package_index_is_found() -> None:
    metadata = (
        "Name: memsheaf\n\n# memsheaf\n\n[here](#memsheaf) [there](https://example.com) [format](docs/format.md)\n"
    )
    problems = list(metadata_problems(metadata))
    assert "the description links to 'docs/format.md', which is not there on a package index" in problems
    assert not any("example.com" in problem or "#memsheaf" in problem for problem in problems)


def test_the_workflow_tests_each_python_that_the_package_names_with_targets_and_tests_that_exist() -> None:
    text = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    matrices = {name: tuple(job["strategy"]["matrix"]["python"]) for name, job in jobs.items() if "strategy" in job}
    targets = set(re.findall(r"run: make (\w+)", text))
    paths = set(re.findall(r"\btests/[\w/.]+", text))

    assert matrices == dict.fromkeys(("linux", "macos", "windows"), PYTHONS)
    assert targets == {"test", "check", "dist"}
    assert targets <= set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert [path for path in paths if not (ROOT / path).exists()] == []
