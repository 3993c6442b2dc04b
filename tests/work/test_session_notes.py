from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from corpus import SECRETS, read_cases
from memsheaf.config import Settings
from memsheaf.errors import BadHeader, Exists, NotFound, ScopeRefused, SecretFound, TextRefused
from memsheaf.index.vectors import passages
from memsheaf.prompts import read_prompt
from memsheaf.sheaf import Sheaf
from memsheaf.text.sections import SESSION_FILE, count_tokens, sections
from memsheaf.work.promotion import items
from memsheaf.work.sessions import (
    ARCHIVE_FOLDER,
    SessionNotes,
    list_ended,
    open_session,
    read_template,
    start_session,
)

NOON = 1_795_003_200.0  # 2026-11-18 12:00:00 UTC
SHORT = ["Current State", "Files and Functions", "Errors & Corrections", "Key Results", "Worklog"]


@pytest.fixture
def now() -> list[float]:
    """What time it is; a test may change it."""
    return [NOON]


@pytest.fixture
def layers(settings: Settings, work: Path, now: list[float]) -> Iterator[Sheaf]:
    with Sheaf.open(settings=settings, cwd=str(work), by="user", clock=lambda: now[0]) as layers:
        yield layers


@pytest.fixture
def notes(layers: Sheaf) -> SessionNotes:
    return start_session(layers, "Move the login", id="one")


def file_of(notes: SessionNotes) -> Path:
    return Path(notes.sheaf.root, SESSION_FILE)


def titles(text: str) -> list[str]:
    return [part.title for part in sections(text) if part.level > 1]


def local(form: str, seconds: float = NOON) -> str:
    return time.strftime(form, time.localtime(seconds))


def bytes_below(folder: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "cache" not in path.parts and path.name != ".gitignore"
    }


# beginning


def test_a_session_begins_blank_with_its_headings_and_a_header(notes: SessionNotes) -> None:
    page = notes.memory.page

    assert titles(notes.body) == SHORT
    assert notes.body == read_prompt("session")
    assert notes.is_blank
    assert (page.get("name"), page.get("type"), page.get("pinned")) == ("Move the login", "project", "true")
    assert page.get("description") == "Move the login"
    assert page.get("started") == "2026-11-18T12:00:00Z"
    assert page.get("created") == page.get("updated") == local("%Y-%m-%d")
    assert page.get("source") == "user"
    state = notes.state()
    assert (state.id, state.title, state.started) == ("one", "Move the login", "2026-11-18T12:00:00Z")
    assert (state.is_open, state.is_blank, state.tokens) == (True, True, count_tokens(read_prompt("session")))


def test_an_id_that_is_or_was_in_use_is_refused_and_its_notes_stay(layers: Sheaf, notes: SessionNotes) -> None:
    notes.note("first")
    before = notes.memory.text

    with pytest.raises(Exists, match="it is open") as caught:
        start_session(layers, id="ONE")
    assert "memsheaf session show -s session/one" in caught.value.hint
    assert notes.memory.text == before
    notes.end()
    with pytest.raises(Exists, match="it has ended") as caught:
        start_session(layers, id="one")
    assert "memsheaf undo --scope session/one" in caught.value.hint
    assert notes.memory.text == before


# noting


def test_a_text_that_would_change_the_headings_is_refused_instead_of_a_section(notes: SessionNotes) -> None:
    for text in ("## Worklog", "a\n## New", "# T\nx", "```\nnever closed", "a\n~~~\nb", "- ```", "x\r## Old Mac"):
        for name in ("current", "worklog"):
            with pytest.raises(TextRefused, match="headings stay as they are"):
                notes.note(text, section=name, replace=True)
    assert notes.is_blank


# what people do to the file


def test_a_file_that_is_not_understood_is_not_rewritten_and_can_be_archived(notes: SessionNotes) -> None:
    for data in (b"## Worklog\n\xff\n", b"---\nname: x\n## Worklog\n", b"---\nname: [\n---\n## Worklog\n"):
        file_of(notes).write_bytes(data)
        with pytest.raises(BadHeader):
            notes.note("x")
        assert file_of(notes).read_bytes() == data
    notes.end()
    assert Path(notes.sheaf.root, ARCHIVE_FOLDER, SESSION_FILE).read_bytes() == data


# what is found and shown of it

NOBODYS = [
    "what went wrong yesterday with the deploy?",
    "Which command runs before make check?",
    "confirmed facts",
    "Key Results and approved verdicts",
    "where does the session cookie live?",
    "which files and functions matter here?",
]
"""Questions that share words with our templates."""


def test_a_blank_session_is_never_found_nor_shown(layers: Sheaf, settings: Settings) -> None:
    for title, long in (("", False), ("Move the login", True)):
        notes = start_session(layers, title, template=read_template(settings, long=long))
        for question in [*NOBODYS, "how do I move the login?"]:
            assert layers.search(question) == [], question
        assert layers.session().recall(NOBODYS[0]).memories == ()
        assert passages(notes.memory) == []
        notes.end()


def test_a_session_that_has_ended_is_found_by_what_was_noted_and_not_recalled(
    layers: Sheaf, notes: SessionNotes, settings: Settings, tmp_path: Path
) -> None:
    notes.note("The proxy listens on 8443", section="key")
    notes.note("```sh\n# reload\n```", section="current", replace=True)
    file_of(notes).write_bytes(notes.memory.text.replace("\n", "\r\n").encode())
    notes.end()

    with Sheaf.open(settings=settings._replace(session="one"), cwd=str(tmp_path / "work")) as chosen:
        for question in NOBODYS:
            assert chosen.session().recall(question).memories == (), question
            assert chosen.search(question) == [], question
        assert chosen.session().recall("Which port does the proxy listen on?").memories == ()
        assert [str(one.ref) for one in chosen.search("proxy port")] == [
            "session/one:" + ARCHIVE_FOLDER + SESSION_FILE
        ]


# ending


def test_the_end_moves_the_notes_to_the_archive_and_one_undo_brings_them_back(
    layers: Sheaf, notes: SessionNotes
) -> None:
    notes.note("Tests need Redis", section="key")
    notes.sheaf.write("Port", "Where it listens", "project", "The proxy listens on 8443.", path="deep/port.md")
    file_of(notes).write_text(notes.memory.text + "password: Corr3ct-H0rse-Fake\n")  # by a person
    text = notes.memory.text

    commit = notes.end()

    assert [row.path for row in notes.sheaf.list()] == ["archive/session.md", "deep/port.md"]
    assert (layers.work.going("session"), list_ended(layers)) == ([], ["one"])
    assert open_session(layers, "one").memory.text == text
    assert not notes.state().is_open
    assert [item.text for item in items(notes.sheaf)] == ["Tests need Redis"]

    assert notes.sheaf.undo()[0].undoes == commit
    assert [row.path for row in notes.sheaf.list()] == ["deep/port.md", "session.md"]
    assert (layers.work.going("session"), list_ended(layers)) == (["one"], [])


def test_a_blank_session_leaves_nothing_but_the_journal(layers: Sheaf, notes: SessionNotes) -> None:
    notes.end()

    assert [row.path for row in notes.sheaf.list()] == []
    assert (layers.work.going("session"), list_ended(layers)) == ([], [])
    with pytest.raises(NotFound, match="no open session"):
        open_session(layers, "one")
    notes.sheaf.undo()
    assert notes.is_blank
    notes.end()
    assert start_session(layers, "again", id="one").state().title == "again"


# hostile input


NAMES = [case["input"] for case in read_cases("traversal") if isinstance(case.get("input"), str)]


def test_hostile_names_name_no_session_and_hostile_titles_are_only_titles(layers: Sheaf, tmp_path: Path) -> None:
    assert len(NAMES) > 60
    for name in NAMES:
        with pytest.raises((ScopeRefused, NotFound)):
            open_session(layers, name)
        if name:
            with pytest.raises(ScopeRefused):
                start_session(layers, id=name)
    assert bytes_below(tmp_path) == {}
    made = []
    for name in NAMES[::6]:
        with suppress(TextRefused):
            made.append(start_session(layers, name))
    roots = [Path(layers.only("project").root, "sessions", one.id) for one in made]
    assert made
    assert all(any(Path(path).is_relative_to(root) for root in roots) for path in bytes_below(tmp_path))


def test_no_secret_reaches_the_disk(layers: Sheaf, notes: SessionNotes, tmp_path: Path) -> None:
    before = bytes_below(tmp_path)
    for number, (secret, _) in enumerate(SECRETS[::2]):  # the gate itself is tested with all of them
        with pytest.raises(SecretFound, match="the note holds "):
            notes.note(secret, section="key", replace=bool(number % 2))
    for secret, _ in SECRETS[:3]:
        with pytest.raises(TextRefused):
            start_session(layers, secret)
        with pytest.raises(TextRefused):
            start_session(layers, template=f"## Log\n{secret}\n")
    with pytest.raises(SecretFound):
        start_session(layers, id="sk-ant-api03-" + "zk3" * 15)
    assert bytes_below(tmp_path) == before


def test_a_session_folder_that_is_a_link_is_refused(layers: Sheaf, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / SESSION_FILE).write_text("## Worklog\n")
    sessions = Path(layers.only("project").root, "sessions")
    sessions.mkdir(parents=True)
    (sessions / "one").symlink_to(elsewhere)

    assert layers.work.going("session") == []
    with pytest.raises(ScopeRefused):
        open_session(layers, "one")
    with pytest.raises(ScopeRefused):
        start_session(layers, id="one")
    assert [path.name for path in elsewhere.iterdir()] == [SESSION_FILE]
