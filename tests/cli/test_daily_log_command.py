"""The daily log, at the command line."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]
Tree = Callable[[], dict[str, bytes]]


@pytest.fixture
def logs(environment: dict[str, str], tmp_path: Path) -> Path:
    """The log of the project, with two days that are past."""
    environment["MEMSHEAF_PROJECT"] = str(tmp_path / "project")
    folder = tmp_path / "project" / "logs" / "2026" / "10"
    folder.mkdir(parents=True)
    (folder / "2026-10-01.md").write_text("# 2026-10-01\n\n- 09:30 user: Ship it.\n- 09:31 agent: Done.\n")
    (folder / "2026-10-02.md").write_text("# 2026-10-02\n\nA quiet day.\n- 10:00 note: 休日\n")
    return folder.parent.parent


def test_a_note_is_taken_and_shown(run: Run) -> None:
    today = time.strftime("%Y-%m-%d")
    page = f"logs/{today[:4]}/{today[5:7]}/{today}.md"

    said = f"Noted in {page}; `memsheaf diary undo` takes it back\n"
    assert run("diary", "Releases go out on Fridays.") == (0, said, "")
    assert json.loads(run("diary", "-", "--json", stdin="two\nlines\n")[1]) == {"path": page}

    code, out, _ = run("diary", "--show")
    assert code == 0
    first, blank, one, two, more = out.splitlines()
    assert (first, blank, one[7:], two[7:], more) == (
        f"# {today}", "", " note: Releases go out on Fridays.", " note: two", "  lines",
    )  # fmt: skip


def test_a_day_is_shown_as_it_is_written(run: Run, logs: Path) -> None:
    assert run("diary", "--show", "2026-10-02") == (0, "# 2026-10-02\n\nA quiet day.\n- 10:00 note: 休日\n", "")
    assert run("diary", "--show", "2026-10-03") == (0, "nothing was logged on 2026-10-03\n", "")
    assert run("diary", "--since", "2026-10-03") == (0, "nothing was logged on 2026-10-03 or later\n", "")

    out = run("diary", "--since", "2026-10-01")[1]
    assert out.split("\n\n") == [
        "# 2026-10-01", "- 09:30 user: Ship it.\n- 09:31 agent: Done.", "# 2026-10-02",
        "A quiet day.\n- 10:00 note: 休日\n",
    ]  # fmt: skip


def test_programs_get_the_entries(run: Run, logs: Path) -> None:
    first, second = json.loads(run("diary", "--since", "2026-10-01", "--json")[1])["days"]

    assert first == {
        "day": "2026-10-01",
        "entries": [
            {"time": "09:30", "source": "user", "text": "Ship it.", "saved": False},
            {"time": "09:31", "source": "agent", "text": "Done.", "saved": False},
        ],
    }
    assert second["entries"][0]["text"] == "休日"


def test_the_days_are_listed(run: Run, logs: Path) -> None:
    out = run("diary", "--list")[1]

    assert [line.split() for line in out.splitlines()] == [
        ["DAY", "ENTRIES"], ["2026-10-01", "2"], ["2026-10-02", "1"], ["2", "days"],
    ]  # fmt: skip
    listed = json.loads(run("diary", "--list", "--json")[1])
    assert listed == {"days": [{"day": "2026-10-01", "entries": 2}, {"day": "2026-10-02", "entries": 1}]}
    assert run("diary", "--list", "--scope", "user") == (0, "nothing was logged yet\n", "")


def test_looking_creates_nothing(run: Run, tree: Tree) -> None:
    before = tree()

    for words in (["--show"], ["--list"], ["--since", "2026-10-01"]):
        assert run("diary", *words)[0] == 0
    assert tree() == before


def test_a_secret_is_refused_unless_somebody_insists(run: Run, tree: Tree) -> None:
    before = tree()

    code, out, err = run("diary", "password: Corr3ct-H0rse-Fake")

    assert (code, out) == (1, "")
    assert "line 1 of the note holds" in err
    assert "--allow-secret" in err
    assert "Corr3ct" not in err
    assert tree() == before
    assert run("diary", "password: Corr3ct-H0rse-Fake", "--allow-secret")[0] == 0


def test_notes_are_learned_from_by_extract(run: Run) -> None:
    run("diary", "Remember that our releases go out on Fridays.")

    assert "saved: project_our-releases-go-out-on-fridays.md" in run("extract")[1]
    assert run("extract")[1] == "Read 0 turns: nothing to keep.\n"
    assert run("diary", "--list")[1].splitlines()[1].split()[1] == "1"


def test_scopes_have_logs_of_their_own(run: Run) -> None:
    run("diary", "mine", "--scope", "user")
    run("diary", "its", "--agent", "researcher")

    assert "mine" in run("diary", "--show", "--scope", "user")[1]
    assert "mine" not in run("diary", "--show", "--agent", "researcher")[1]
    assert "nothing was logged" in run("diary", "--show")[1]


def test_a_terminal_is_not_driven_by_what_somebody_wrote_into_a_page(run: Run, logs: Path) -> None:
    (logs / "2026" / "10" / "2026-10-05.md").write_text("- 10:00 user: \x1b[31mred\n")

    assert "\x1b" not in run("diary", "--show", "2026-10-05")[1]


def test_the_last_note_can_be_taken_back_and_no_memory_is_touched(run: Run, tabs: str) -> None:
    run("diary", "kept")
    before = run("diary", "--show")[1]
    run("diary", "a slip")

    assert run("diary", "--undo")[1].startswith("Took back what was logged last, in logs/")

    assert run("diary", "--show")[1] == before
    assert run("show", tabs)[0] == 0
    run("diary", "--undo")
    code, _, err = run("diary", "--undo")
    assert code == 1
    assert "nothing is left to undo" in err


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_undo_follows_no_link_out_of_the_scope(run: Run, environment: dict[str, str], tmp_path: Path) -> None:
    run("diary", "private", "--scope", "user")
    root = tmp_path / "project"
    root.mkdir()
    (root / "logs").symlink_to(tmp_path / "home" / "user" / "logs")

    code, _, err = run("diary", "--undo", more={"MEMSHEAF_PROJECT": str(root)})

    assert code == 1
    assert "link" in err
    assert "private" in run("diary", "--show", "--scope", "user")[1]
