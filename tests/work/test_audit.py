"""What an audit finds in a scope, and that it leaves no trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus import SECRETS
from databases import SIDE_FILES
from memsheaf import Settings, Sheaf
from memsheaf.memory import Allow
from memsheaf.work.checks import Audit, audit
from memsheaf.work.sessions import start_session
from memsheaf.worktree import WorkingTree

DAY = 86_400
TODAY = "2026-11-15"
NOON = 1_794_744_000.0  # of that day
TEST = "`cd evals && npm test`"


class Place:
    """A project on disk, and a clock that can be set."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        self.now = NOON
        self.settings = Settings(
            str(folder / "home"), str(folder / "cache"), state=str(folder / "state"), embedder="none"
        )

    def layers(self, *, read_only: bool = False, by: str = "user") -> Sheaf:
        return Sheaf(self.settings, str(self.work), by=by, read_only=read_only, clock=lambda: self.now)

    def sheaf(self, *, by: str = "user") -> Sheaf:
        return Sheaf.open("project", settings=self.settings, cwd=str(self.work), by=by, clock=lambda: self.now)

    def audit(self, *, tree: bool = False) -> Audit:
        self.now = NOON
        with self.layers(read_only=True) as layers:
            if not tree:
                return audit(layers.only("project"), today=TODAY)
            with WorkingTree(str(self.work), memories=layers.only("project").root) as opened:
                return audit(layers.only("project"), today=TODAY, tree=opened)

    def files(self) -> dict[str, tuple[bytes, int]]:
        """All that is on disk, the cache aside, with the times of the last change."""
        return {
            str(path): (path.read_bytes() if path.is_file() else b"", path.lstat().st_mtime_ns)
            for path in sorted(self.folder.rglob("*"))
            if not path.is_relative_to(self.folder / "cache")
            and not path.name.endswith((*SIDE_FILES, ".history"))  # SQLite makes files there while it reads
        }

    def write(self, name: str, data: str | bytes) -> None:
        """A file of the scope, as somebody's editor makes it."""
        with self.sheaf() as sheaf:
            path = Path(sheaf.root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def remember(sheaf: Sheaf, name: str, text: str, **more: str) -> str:
    return sheaf.write(name, "d", "project", text, allow=Allow(anyway=True), **more).path  # type: ignore[arg-type]


# the promise


def test_a_scope_that_is_not_there_is_clean_and_stays_away(place: Place) -> None:
    before = place.files()

    report = place.audit(tree=True)

    assert report.findings == ()
    assert report.files == 0
    assert place.files() == before


def test_an_audit_changes_nothing_not_even_what_an_editor_did_unseen(place: Place) -> None:
    with place.layers() as layers:
        start_session(layers, "Parser")
        sheaf = layers.only("project")
        for number in range(7):
            remember(sheaf, f"Test command {number}", f"Run {TEST} number {number}.", trust="unconfirmed")
        sheaf.own.count_use(["project_test-command-1.md"])
    place.write("MEMORY.md", "not the catalog")
    place.write("project_outside.md", "---\nname: n\ndescription: d\ntype: user\n---\nAn editor wrote this.\n")
    place.write("bad.md", "---\nname: [\n")
    before = place.files()

    report = place.audit(tree=True)

    assert report.findings
    assert place.files() == before
    assert place.audit(tree=True) == report


# what says the same


def test_no_secret_of_a_memory_is_repeated(place: Place) -> None:
    with place.sheaf() as sheaf:
        for number, (text, _) in enumerate(SECRETS[:20]):
            for twin in ("", " Daily."):
                body = f"The nightly job of the billing team runs `curl {text.strip()} --fail` in the vault.{twin}"
                sheaf.write(f"Entry {number}{twin}", "d", "project", body, allow=Allow(secrets=True, anyway=True))
    (place.work / "app.py").write_text("LIMIT = 3\n")

    shown = str(place.audit(tree=True))

    assert shown.count("'duplicate'") > 10
    for _, secret in SECRETS[:20]:
        assert secret not in shown


# what its evidence shows


def test_stale_citations_come_with_the_path_and_why(place: Place) -> None:
    (place.work / "app.py").write_text("LIMIT = 3\n")
    with place.sheaf() as sheaf:
        held = sheaf.write("Held", "d", "project", "The limit is kept low.", citations=["app.py:1"])
        lost = sheaf.write("Lost", "d", "project", "The cache is cold at start.", citations=["src/gone.py:3"])
        sheaf.write("Page", "d", "project", "Written elsewhere, see there.", citations=["https://ci.example/a"])

    report = place.audit(tree=True)

    assert held.path not in str(report)
    (stale,) = report.section("citations")
    assert (stale.path, stale.level) == (lost.path, "warning")
    assert stale.problem == "src/gone.py no longer exists. Stale citation: candidate for a superseding fact"


# what is in the way


# what waits


def test_the_unconfirmed_and_the_expired_wait_for_somebody(place: Place) -> None:
    place.now = NOON - 9 * DAY
    with place.sheaf(by="extraction") as sheaf:
        doubted = remember(sheaf, "Doubted", "The queue drops jobs at night.", trust="unconfirmed")
        ended = remember(sheaf, "Freeze", "No merges on the main branch.", expires="2026-11-14")
        remember(sheaf, "Last day", "The trial of the vendor ends.", expires=TODAY)

    found = place.audit().section("waiting")

    assert [(one.kind, one.path, one.level, one.problem) for one in found] == [
        ("expired", ended, "warning", "expired on 2026-11-14"),
        ("unconfirmed", doubted, "info", "unconfirmed for 9 days, so it stays out of the catalog"),
    ]
