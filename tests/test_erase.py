from __future__ import annotations

import json
import os
import socket
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from memsheaf.config import Settings
from memsheaf.errors import MemsheafError, NotFound, NotInHistory
from memsheaf.learn.consolidate import expect, expectations
from memsheaf.sheaf import Sheaf
from memsheaf.transfer import erase, take_in

NAME = "Zanzibar holiday"
DESCRIPTION = "Quixotic description of a trip"
BODY = 'The door code is "4711-äöü" and\tnobody knows.\nSecond telling line: ünïcödé 日本語 👩‍💻'
FIRST = "An earlier telling text that was replaced"
PATH = "user_zanzibar-holiday.md"


def live(sheaf: Sheaf) -> None:
    """A memory with a past: written, replaced, found, shown, removed and brought back."""
    sheaf.write("Neighbour", "Stays where it is", "user", "This text is not erased.")
    sheaf.write(NAME, DESCRIPTION, "user", FIRST)
    sheaf.revise(PATH, FIRST, BODY)
    assert sheaf.search("quixotic")
    sheaf.prompt()
    sheaf.forget(PATH)
    sheaf.undo()
    place = Path(sheaf.root, PATH)
    place.write_text(place.read_text() + "An edit made outside, telling as well\n")
    sheaf.list()


def spellings(text: str) -> set[bytes]:
    """A text as it may stand in any file: as it is, and as JSON spells it."""
    return {text.encode(), json.dumps(text)[1:-1].encode(), json.dumps(text, ensure_ascii=False)[1:-1].encode()}


def traces(folder: Path, *texts: str) -> list[str]:
    """Every file under a folder, of whatever kind, that holds one of these texts or its own name."""
    wanted = {spelt for text in texts for spelt in spellings(text)}
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and any(spelt in path.read_bytes() for spelt in wanted):
            found.append(str(path.relative_to(folder)))
        if path.name == PATH:
            found.append(str(path.relative_to(folder)))
    return found


EVERYTHING = (NAME, DESCRIPTION, FIRST, "An edit made outside", PATH, "Zanzibar", "zanzibar", *BODY.split("\n"))


def test_an_erased_memory_is_in_no_file_of_the_root_the_journal_or_the_index(sheaf: Sheaf, tmp_path: Path) -> None:
    live(sheaf)
    assert len(set(traces(tmp_path, *EVERYTHING))) >= 4, "file, journal, catalog and index hold it before"

    proof = erase(sheaf.own, PATH)

    assert traces(tmp_path, *EVERYTHING) == []
    assert (proof.gone, proof.left, proof.elsewhere) == (True, (), ())
    assert proof.path == PATH
    assert proof.versions >= 3
    assert (proof.files > 2, proof.bytes > 100) == (True, True)


def test_nothing_answers_for_an_erased_memory(sheaf: Sheaf) -> None:
    live(sheaf)
    version = sheaf.read(PATH).version

    erase(sheaf.own, PATH)

    assert [row.path for row in sheaf.list()] == ["user_neighbour.md"]
    assert (sheaf.search("quixotic"), sheaf.search("日本語"), list(sheaf.log(PATH))) == ([], [], [])
    assert NAME not in sheaf.prompt()
    assert NAME not in sheaf.catalog().text
    for ask in (lambda: sheaf.read(PATH), lambda: sheaf.own.blame(PATH), lambda: sheaf.own.diff(PATH)):
        with pytest.raises(NotFound):
            ask()
    with pytest.raises(NotInHistory):
        sheaf.own.restore(PATH, version)


def test_undo_does_not_bring_an_erased_memory_back(sheaf: Sheaf, tmp_path: Path) -> None:
    live(sheaf)
    commits = [commit.id for commit in sheaf.log()]
    erase(sheaf.own, PATH)

    for commit in [*commits, *[""] * 8]:
        try:
            sheaf.undo(commit)
        except MemsheafError:
            continue

    assert traces(tmp_path, *EVERYTHING) == []


def test_a_new_session_does_not_bring_it_back_either(settings: Settings, tmp_path: Path) -> None:
    with Sheaf.open("user", settings=settings) as sheaf:
        live(sheaf)
        erase(sheaf.own, PATH)
    with Sheaf.open("user", settings=settings) as sheaf:
        sheaf.write("Later", "D", "user", "x")
        sheaf.search("telling")
        sheaf.list()

    assert traces(tmp_path, *EVERYTHING) == []


def test_other_memories_of_the_same_commit_survive_with_their_history(sheaf: Sheaf, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name, text in ((PATH, BODY), ("user_other.md", "The other text"), ("user_third.md", "The third")):
        (source / name).write_text(f"---\nname: {name}\ndescription: About {name}\ntype: user\n---\n{text}\n")
    take_in(sheaf.own, str(source))
    for path in source.iterdir():
        path.unlink()
    before = sheaf.read("user_other.md")

    assert erase(sheaf.own, PATH).gone

    assert traces(tmp_path, *BODY.split("\n"), PATH) == []
    assert sheaf.read("user_other.md") == before
    assert [[step.path for step in commit.revisions] for commit in sheaf.log("user_other.md")] == [["user_other.md"]]
    sheaf.forget("user_other.md")
    sheaf.undo()
    assert sheaf.read("user_other.md") == before


def test_a_forgotten_memory_can_still_be_erased(sheaf: Sheaf, tmp_path: Path) -> None:
    live(sheaf)
    sheaf.forget(PATH)

    assert erase(sheaf.own, PATH).gone

    assert traces(tmp_path, *EVERYTHING) == []


def test_a_memory_that_nobody_journalled_can_be_erased(sheaf: Sheaf, tmp_path: Path) -> None:
    os.makedirs(sheaf.root)
    Path(sheaf.root, PATH).write_bytes(b"---\nname: [broken\n---\nLatin caf\xe9 telling bytes\n")

    assert erase(sheaf.own, PATH).gone

    assert traces(tmp_path, PATH, "telling bytes", "broken") == []


def test_erasing_again_finds_nothing(sheaf: Sheaf) -> None:
    live(sheaf)
    erase(sheaf.own, PATH)

    for path in (PATH, "user_never-was.md"):
        with pytest.raises(NotFound):
            erase(sheaf.own, path)

    assert [row.name for row in sheaf.list()] == ["Neighbour"]


def test_the_proof_says_so_when_another_memory_says_the_same(sheaf: Sheaf) -> None:
    live(sheaf)
    sheaf.write("Twin", "D", "user", FIRST)

    proof = erase(sheaf.own, PATH)

    assert proof.elsewhere == ("user_twin.md",)
    assert sheaf.read("user_twin.md").body == FIRST + "\n"


@pytest.mark.parametrize("name", ["note.txt", "backup.md~", ".hidden.md", ".history/journal.bak", "sub/copy.bak"])
def test_the_proof_names_what_still_holds_the_text(name: str, sheaf: Sheaf) -> None:
    live(sheaf)
    place = Path(sheaf.root, name)
    place.parent.mkdir(exist_ok=True)
    place.write_text(f"somebody copied this: {FIRST}\n")

    proof = erase(sheaf.own, PATH)

    assert (proof.gone, proof.left) == (False, (name,))
    assert place.exists(), "it is not ours to remove"


def test_a_text_under_a_former_name_is_gone_or_told(sheaf: Sheaf, tmp_path: Path) -> None:
    sheaf.write("Former", "D", "user", FIRST)
    os.rename(os.path.join(sheaf.root, "user_former.md"), os.path.join(sheaf.root, PATH))
    sheaf.list()

    proof = erase(sheaf.own, PATH)

    assert traces(tmp_path, FIRST) == [] or not proof.gone or proof.elsewhere


def test_erasing_leaves_other_scopes_alone(settings: Settings) -> None:
    with Sheaf.open("agent/one", settings=settings) as one, Sheaf.open("agent/two", settings=settings) as two:
        for sheaf in (one, two):
            sheaf.write(NAME, DESCRIPTION, "user", BODY)

        erase(one.own, PATH)

        assert two.read(PATH).body == BODY + "\n"


def test_a_memory_in_a_folder_with_blanks_in_its_name_is_erased_as_well(sheaf: Sheaf, tmp_path: Path) -> None:
    path = "trip notes/zanzibar (old).md"
    sheaf.write(NAME, DESCRIPTION, "user", BODY, path=path)
    sheaf.search("door")

    assert erase(sheaf.own, path).gone

    assert traces(tmp_path, NAME, DESCRIPTION, "zanzibar (old)", *BODY.split("\n")) == []


def test_a_second_reader_with_the_index_open_does_not_keep_it(settings: Settings, tmp_path: Path) -> None:
    with Sheaf.open("user", settings=settings) as sheaf:
        live(sheaf)
        with Sheaf.open("user", settings=settings, read_only=True) as reader:
            assert reader.search("quixotic")
            erase(sheaf.own, PATH)
            assert reader.search("quixotic") == []
            assert NAME not in reader.prompt()

    assert traces(tmp_path, *EVERYTHING) == []


def test_an_erasure_that_was_cut_short_is_finished_by_the_next(sheaf: Sheaf, settings: Settings) -> None:
    live(sheaf)
    sheaf.own.store.erase(PATH, by="user")  # and here the process dies: the index still knows it

    with pytest.raises(NotFound):
        erase(sheaf.own, PATH)

    sheaf.own.index.close()
    held = [file for file in Path(settings.cache).rglob("*") if file.is_file()]
    assert not [file for file in held if any(text in file.read_bytes() for text in spellings(DESCRIPTION))]


def test_what_tasks_and_sessions_inside_a_project_say_is_named(settings: Settings, tmp_path: Path) -> None:
    said = "Heliotrope is the colour of the new brand."
    with Sheaf.open("session/z", settings=settings, cwd=str(tmp_path)) as session:
        session.put("notes.md", f"{said}\n", free=True)
    with Sheaf.open("project", settings=settings, cwd=str(tmp_path)) as project:
        path = project.write("Brand", "Colour", "project", said).path

        proof = erase(project.own, path)

    assert proof.gone
    assert "sessions/z/notes.md" in proof.elsewhere


def test_what_compaction_spilled_is_searched_whichever_scope_is_erased_from(
    settings: Settings, tmp_path: Path
) -> None:
    from memsheaf.recall.turns import Message
    from memsheaf.work.compaction import run

    said = "My passport is in the blue drawer."
    with Sheaf.open("project", settings=settings, cwd=str(tmp_path)) as project:
        talk = [Message("user", f"{said} {number}" + " x" * 900) for number in range(40)]
        done = run(talk, 2_000, state=project.own.state, now=0.0)
        assert done.spill
        assert said.encode() in (project.own.state.read(done.spill.name) or b"")
    with Sheaf.open("user", settings=settings) as user:
        path = user.write("Passport", "Where it is", "user", said).path

        assert erase(user.own, path).gone

    with Sheaf.open("project", settings=settings, cwd=str(tmp_path)) as project:
        assert said.encode() not in (project.own.state.read(done.spill.name) or b"")


def test_what_waits_in_another_scope_is_dropped_and_json_is_read_as_it_is_written(
    settings: Settings, tmp_path: Path
) -> None:
    from memsheaf.recall.turns import Message, Turn

    said = 'He calls "Zed the Great" his boss.'
    with Sheaf.open("project", settings=settings, cwd=str(tmp_path)) as project:
        assert project.learn(Turn("c", (Message("user", f"Remember: {said}"), Message("assistant", "Ok."))))
    with Sheaf.open("user", settings=settings) as user:
        user.write("Other", "Something else", "user", "Tea is fine.")
        path = user.write("Boss", "Who it is", "user", said).path
        expect(user.own.state, f"Who says: {said}", "user_other.md")

        proof = erase(user.own, path)

        assert expectations(user.own.state) == []
    assert proof.gone


def test_a_page_of_the_log_that_cannot_be_changed_is_named_as_left(settings: Settings) -> None:
    said = "The combination of the safe is on the back of the mirror."
    with Sheaf.open("user", settings=settings) as user:
        path = user.write("Safe", "Where it is written", "user", said).path
        page = Path(user.root, "logs", "2026", "11", "2026-11-15.md")
        page.parent.mkdir(parents=True)
        page.write_text(f"# 2026-11-15\n\n- 09:00 note: {said}\n" + "x" * (2 << 20))

        proof = erase(user.own, path)

    assert not proof.gone
    assert any(name.endswith("2026-11-15.md") for name in proof.left)


@pytest.mark.skipif(os.name != "posix", reason="sockets and pipes have names on POSIX systems")
def test_a_socket_or_a_pipe_in_a_temporary_folder_is_no_trace(sheaf: Sheaf) -> None:
    live(sheaf)

    with tempfile.TemporaryDirectory(prefix="memsheaf-") as folder, closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(f"{folder}/server")
        os.mkfifo(f"{folder}/pipe")
        proof = erase(sheaf.own, PATH)

    assert (proof.gone, proof.left) == (True, ())
