"""A home as the code of an earlier commit wrote it, on this machine's paths.

`home.json` has its files; paths and the hashes that roots are named by stand there as marks.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import pytest

from memsheaf import config
from memsheaf.cli import main
from memsheaf.scope import Scope, resolve
from memsheaf.sheaf import Sheaf
from memsheaf.state import State

RECORDED = Path(__file__).parent / "home.json"


class EarlierHome:
    """The home, with the means to ask it something."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.project = base / "project"
        self.repository = base / "repository"
        self.state = base / "home" / "state"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(base / "user"),
            "MEMSHEAF_HOME": str(base / "home"),
            "MEMSHEAF_EMBEDDER": "none",
        }
        for folder in (self.project, self.repository / ".git"):
            folder.mkdir(parents=True)
        self.settings = config.load(self.environment)
        project_root = resolve(Scope.parse("project"), self.settings.places(str(self.project)))
        self.roots = {
            "project": project_root,
            "user": str(base / "home" / "user"),
            "repository": str(self.repository / ".memory"),
        }
        marks = {"@BASE@": str(base), "@PYTHON@": sys.executable, "@PROJECT@": Path(project_root).name}
        for name, root in self.roots.items():
            digest = sha256(os.fsencode(root)).hexdigest()
            marks |= {f"@HASH:{name}@": digest[:24], f"@SHORT:{name}@": digest[:16]}
        files = json.loads(RECORDED.read_text())
        for place in sorted(files, key=lambda place: "@SHA256:" in files[place]):
            path, text = base / replace_all(place, marks), replace_all(files[place], marks)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            marks[f"@SHA256:{place}@"] = sha256(text.encode()).hexdigest()

    def state_of(self, name: str) -> State:
        """What is kept about a root."""
        return State.of(self.roots[name], str(self.state))

    def files(self) -> dict[str, bytes]:
        """What the earlier version wrote into the state directory, as it is now."""
        paths = (path for path in self.state.rglob("*") if path.is_file() and not path.name.startswith("state.db"))
        return {str(path.relative_to(self.state)): path.read_bytes() for path in paths if path.suffix != ".lock"}

    def sheaf(self, scope: str = "project") -> Sheaf:
        """Open a scope of the home."""
        return Sheaf.open(scope, settings=self.settings, cwd=str(self.project))

    def run(self, *words: str, cwd: Path | None = None, stdin: str = "") -> str:
        """Run a command as a person; gives what it prints."""
        out, err, here = io.StringIO(), io.StringIO(), os.getcwd()
        os.chdir(cwd or self.project)
        try:
            code = main(words, environment=self.environment, stdin=io.StringIO(stdin), stdout=out, stderr=err)
        finally:
            os.chdir(here)
        assert code == 0, f"{words}: {out.getvalue()}{err.getvalue()}"
        return out.getvalue()


def replace_all(text: str, marks: Mapping[str, str]) -> str:
    """Return a text with the values of its marks."""
    for mark, value in marks.items():
        text = text.replace(mark, value)
    return text


@pytest.fixture
def earlier(tmp_path: Path) -> EarlierHome:
    return EarlierHome(tmp_path.resolve())


@pytest.fixture(params=["writable", "read-only", "copied"])
def looked_at(request: pytest.FixtureRequest, earlier: EarlierHome) -> EarlierHome:
    """The home before anything is written: as it was, as a state that cannot be written, or moved elsewhere."""
    if request.param == "read-only":
        (earlier.state / "state.db").mkdir()
    if request.param == "copied":
        shutil.copytree(earlier.state, earlier.base / "copy")
        shutil.rmtree(earlier.state)
        (earlier.base / "copy").rename(earlier.state)
    return earlier
