"""What waits to be learned from, at the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., tuple[int, str, str]]

CHAT = "User: I prefer tabs.\nAssistant: Noted.\nUser: And short names."


def test_a_transcript_is_taken_in_and_shown(run: Run) -> None:
    Path("chat.txt").write_text(CHAT)

    assert run("inbox", "add", "chat.txt") == (0, "Took in 2 of 2 turns\n", "")
    assert run("inbox", "add", "chat.txt") == (0, "Took in 0 of 2 turns\n", "")

    code, out, _ = run("inbox")
    assert code == 0
    assert out.splitlines()[0].split() == ["CONVERSATION", "TURNS", "SINCE", "FIRST", "WORDS"]
    assert out.splitlines()[1].startswith("chat.txt")
    assert out.splitlines()[1].endswith("I prefer tabs.")
    assert out.splitlines()[2] == "2 turns in 1 conversation"


def test_a_transcript_comes_on_standard_input_too(run: Run) -> None:
    code, out, _ = run("inbox", "add", "-", "--json", stdin=CHAT)

    assert (code, json.loads(out)) == (0, {"format": "text", "turns": 2, "added": 2, "skipped": 0})
    found = json.loads(run("inbox", "--json")[1])
    assert (found["turns"], found["learned"]) == (2, 0)
    (conversation,) = found["conversations"]
    assert (conversation["conversation"], conversation["first"]) == ("standard input", "I prefer tabs.")


def test_broken_lines_are_named(run: Run) -> None:
    lines = ['{"role": "user", "content": "a"}', '{"role": "user", "cont', '{"role": "user", "content": "b"}']

    done = run("inbox", "add", "-", stdin="\n".join(lines))

    assert done == (0, "Took in 1 of 1 turn\n", "1 line could not be understood\n")


def test_scopes_have_inboxes_of_their_own(run: Run) -> None:
    run("inbox", "--scope", "user", "add", "-", stdin=CHAT)

    assert run("inbox") == (0, "nothing is waiting to be learned from\n", "")
    assert run("inbox", "--scope", "user")[1].endswith("2 turns in 1 conversation\n")


def test_what_waits_is_dropped_when_a_person_says_so(run: Run) -> None:
    run("inbox", "add", "-", stdin=CHAT)

    assert run("inbox", "clear")[0] == 2
    code, out, err = run("inbox", "clear", stdin="no\n", screen=True)
    assert (code, out) == (1, "")
    assert "Drop 2 turns" in err
    assert run("inbox", "clear", stdin="yes\n", screen=True)[:2] == (0, "Dropped 2 turns\n")
    assert run("inbox", "clear", "--yes") == (0, "Dropped 0 turns\n", "")


def test_hostile_words_do_not_drive_the_terminal(run: Run) -> None:
    record = {"role": "user", "content": "\x1b[31mred\u202e", "conversation": "\x1b]0;x\x07" + "y" * 500}
    run("inbox", "add", "-", stdin=json.dumps(record))

    out = run("inbox", screen=True, more={"COLUMNS": "80"})[1]
    assert "\x1b]" not in out
    assert "\x1b[31m" not in out


def test_a_secret_in_a_transcript_is_neither_kept_nor_shown(run: Run, tmp_path: Path) -> None:
    run("inbox", "add", "-", stdin="User: the password is Corr3ct-H0rse-Fake\nAssistant: ok")

    assert "Corr3ct" not in run("inbox")[1]
    assert not any(b"Corr3ct" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_file_that_is_no_text_is_refused(run: Run) -> None:
    Path("picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0")

    code, _, err = run("inbox", "add", "picture.png")

    assert code == 1
    assert "not UTF-8 text" in err
    assert run("inbox")[1] == "nothing is waiting to be learned from\n"
