"""`memsheaf learn`, `review` and `notes diary`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from memsheaf import Sheaf
from memsheaf.config import load

Run = Callable[..., tuple[int, str, str]]
Tree = Callable[[], dict[str, bytes]]

SAID = "User: Remember that our releases go out on Fridays.\nAssistant: Noted.\n"
ASK = {"MEMSHEAF_POLICY": "suggest"}


def listed(run: Run) -> list[str]:
    return [row["path"] for row in json.loads(run("list", "--json")[1])["memories"]]


def test_a_conversation_becomes_memories_and_is_not_read_again(run: Run) -> None:
    assert run("learn")[:2] == (0, "Read 0 turns: nothing to keep.\n")
    Path("talk.txt").write_text(SAID)

    code, out, _ = run("learn", "talk.txt")

    assert code == 0
    assert "1 saved" in out
    (path,) = listed(run)
    assert f"  saved: {path}\n    our releases go out on Fridays" in out
    assert "releases go out on Fridays" in run("show", path)[1]
    code, out, said = run("learn", "talk.txt")
    assert (code, "all of it was read before" in said, "nothing to keep" in out) == (0, True, True)
    assert listed(run) == [path]


def queued(run: Run) -> str:
    run("learn", "-", stdin=SAID, more=ASK)
    (one,) = json.loads(run("review", "--json")[1])["proposals"]
    return str(one["id"])


def test_what_waits_is_listed_and_approved_by_its_id_or_all_at_once(run: Run) -> None:
    name = queued(run)
    assert name in run("review")[1]

    code, out, _ = run("review", "--approve", name[:5])

    assert (code, out.startswith("approved: ")) == (0, True)
    assert run("review")[1] == "Nothing is waiting for review.\n"
    assert len(listed(run)) == 1
    for text in ("bugs are tracked in Linear project INGEST", "our proxy listens on port 8080"):
        run("learn", "-", stdin=f"User: Remember that {text}.\n", more=ASK)
    assert run("review", "--approve", "all")[1].count("approved: ") == 2
    assert len(listed(run)) == 3
    for words in (("--approve", "ffff"), ("--reject", "ffff"), ("--approve", "none.md")):
        code, _, said = run("review", *words)
        assert (code, "no " in said) == (1, True), said


def test_what_one_command_approved_is_undone_by_one_undo_and_by_itself(run: Run) -> None:
    for text in ("bugs are tracked in Linear project INGEST", "our proxy listens on port 8080"):
        run("learn", "-", stdin=f"User: Remember that {text}.\n", more=ASK)
    first, second = (row["id"] for row in json.loads(run("review", "--json")[1])["proposals"])
    run("review", "--approve", "all")

    assert run("undo")[0] == 0
    assert listed(run) == []
    assert run("undo", "--redo")[0] == 0
    assert len(listed(run)) == 2
    assert "together" not in run("log")[1]

    run("review", "--undo", first)
    assert len(listed(run)) == 1
    assert [row["id"] for row in json.loads(run("review", "--json")[1])["proposals"]] == [first]
    run("review", "--undo", second)
    assert listed(run) == []


def test_a_proposal_is_rejected_or_edited_before_it_is_saved(run: Run, tmp_path: Path) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text("#!/bin/sh\nsed -i 's/Fridays/Mondays/' \"$1\"\n")
    editor.chmod(0o700)

    queued(run)
    assert run("review", stdin="e\n", screen=True, more={"EDITOR": str(editor)})[0] == 0

    (path,) = listed(run)
    assert "Mondays" in run("show", path)[1]
    run("forget", path)
    run("learn", "-", stdin="User: Remember that bugs are tracked in Linear project INGEST.\n", more=ASK)
    run("review", "--reject", "all")
    assert (listed(run), json.loads(run("review", "--json")[1])["proposals"]) == ([], [])


def test_a_decision_is_undone(run: Run) -> None:
    name = queued(run)
    run("review", "--reject", name)

    (decided,) = json.loads(run("review", "--json")[1])["decided"]
    assert decided["outcome"] == "rejected"
    assert run("review", "--undo", name[:4])[1] == f"waits again: {name}\n"
    run("review", "--approve", name)
    assert run("review", "--undo", "last")[1] == f"waits again: {name}\n"
    (one,) = json.loads(run("review", "--json")[1])["proposals"]
    assert (one["id"], listed(run)) == (name, [])
    assert "releases go out on Fridays" in one["quote"]
    out = run("review", stdin="u\n", screen=True)[1]
    assert "learned from: " in out


def test_an_unconfirmed_memory_is_confirmed_or_forgotten(run: Run, environment: dict[str, str]) -> None:
    with Sheaf.open("project", settings=load(environment)) as sheaf:
        first = sheaf.write("From a page", "d", "project", "The wiki says to use staging.", trust="unconfirmed")
        second = sheaf.write("Another", "d", "project", "A page says to mail the ops.", trust="unconfirmed")

    waiting = json.loads(run("review", "--json")[1])["unconfirmed"]
    assert {row["path"] for row in waiting} == {first.path, second.path}
    run("review", "--approve", first.path, "--reject", second.path)

    assert "From a page" in run("show")[1]
    assert "Another" not in run("list")[1]


SLOW = "#!/bin/sh\ncat > /dev/null\necho $$ > {pid}\nexec sleep 600\n"


@pytest.mark.skipif(os.name != "posix", reason="commands as models are for POSIX systems")
def test_an_interrupt_leaves_nothing_half_done_and_no_process(
    run: Run, environment: dict[str, str], tmp_path: Path
) -> None:
    run("learn", "-", "--later", stdin=SAID)
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "claude").write_text(SLOW.format(pid=tmp_path / "pid"))
    (folder / "claude").chmod(0o700)
    slow = {**environment, "PATH": f"{folder}:{environment['PATH']}", "MEMSHEAF_MODEL": "claude"}
    process = subprocess.Popen(
        [sys.executable, "-m", "memsheaf", "learn"], env=slow, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip() != "")

    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)

    assert (process.returncode, b"interrupted" in said) == (130, True), said
    wait_for(lambda: not is_alive(int((tmp_path / "pid").read_text())))
    assert json.loads(run("list", "--json")[1])["memories"] == []
    assert "1 saved" in run("learn")[1]


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not (state.exists() and ") Z " in state.read_text())


def test_neither_a_secret_nor_what_is_no_text_is_kept(run: Run, tmp_path: Path) -> None:
    Path("picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0")
    code, _, err = run("learn", "picture.png", "--later")
    assert (code, "not UTF-8 text" in err) == (1, True)

    run("learn", "-", "--later", stdin="User: the password is Corr3ct-H0rse-Fake\nAssistant: ok")

    assert "Corr3ct" not in run("learn", "--waiting")[1]
    assert not any(b"Corr3ct" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_note_is_taken_shown_learned_from_and_taken_back(run: Run, tabs: str) -> None:
    today = time.strftime("%Y-%m-%d")
    page = f"logs/{today[:4]}/{today[5:7]}/{today}.md"

    said = f"Noted in {page}. Undo with `memsheaf notes diary --undo`.\n"
    assert run("notes", "diary", "Remember that our releases go out on Fridays.") == (0, said, "")
    assert "saved: project_releases-fridays.md" in run("learn")[1]
    before = run("notes", "diary", "--since", today)[1]
    assert json.loads(run("notes", "diary", "-", "--json", stdin="two\nlines\n")[1]) == {"path": page}

    code, out, _ = run("notes", "diary", "--since", today)
    assert code == 0
    first, blank, one, two, more = out.splitlines()
    assert (first, blank, two[7:], more) == (f"# {today}", "", " note: two", "  lines")
    assert one[7:].startswith(" note: Remember that our releases")

    assert run("notes", "diary", "--undo")[1].startswith("Took back what was logged last, in logs/")
    assert run("notes", "diary", "--since", today)[1] == before
    assert "Read 0 turns" in run("learn")[1]
    assert run("show", tabs)[0] == 0
    run("notes", "diary", "--undo")
    code, _, err = run("notes", "diary", "--undo")
    assert (code, "nothing is left to undo" in err) == (1, True)


def test_a_secret_is_refused(run: Run, tree: Tree) -> None:
    before = tree()

    code, out, err = run("notes", "diary", "password: Corr3ct-H0rse-Fake")

    assert (code, out) == (1, "")
    assert "line 1 of the note holds" in err
    assert "Corr3ct" not in err
    assert tree() == before


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_undo_follows_no_link_out_of_the_scope(run: Run, tmp_path: Path) -> None:
    run("notes", "diary", "private", "--scope", "user")
    root = tmp_path / "project"
    root.mkdir()
    (root / "logs").symlink_to(tmp_path / "home" / "user" / "logs")

    code, _, err = run("notes", "diary", "--undo", more={"MEMSHEAF_PROJECT": str(root)})

    assert code == 1
    assert "link" in err
    assert "private" in run("notes", "diary", "--since", "2026-01-01", "--scope", "user")[1]
