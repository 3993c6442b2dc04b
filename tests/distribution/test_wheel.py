"""The wheel has all of the package and nothing else, and says what a package index needs. `make dist` tries more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from distribution.check_dist import ROOT, metadata_problems, wheel_problems


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
