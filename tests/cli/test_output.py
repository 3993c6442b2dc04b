from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from memsheaf.cli import main

Run = Callable[..., tuple[int, str, str]]
HOSTILE = "\x1b]0;pwned\x07\x1b[31m\u202egnp\u200b\x9b2J"


class Stubborn(io.StringIO):
    """A keyboard on which someone presses Ctrl-C."""

    def read(self, size: int | None = -1, /) -> str:
        raise KeyboardInterrupt


@pytest.fixture
def hostile(run: Run, environment: dict[str, str]) -> str:
    run("remember", "x", "--name", "First", "--description", "d", "--type", "project")
    (root,) = Path(environment["MEMSHEAF_HOME"], "projects").iterdir()
    (root / "evil.md").write_text(f"---\nname: E{HOSTILE}\ndescription: D{HOSTILE}\ntype: user\n---\n{HOSTILE}\n")
    (root / f"{HOSTILE[:10]}.md").write_text("x")
    return "evil.md"


def test_no_text_of_a_memory_drives_the_terminal(run: Run, hostile: str, environment: dict[str, str]) -> None:
    (root,) = Path(environment["MEMSHEAF_HOME"], "projects").iterdir()
    run("session", "start", "Work", "-s", "session/one")
    for path in (root / "NOTES.md", root / "sessions" / "one" / "session.md", root / "logs/2026/11/2026-11-15.md"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"## Log\n- 10:00 note: {HOSTILE}\n")
    turn = {"role": "user", "content": f"Remember {HOSTILE}", "conversation": HOSTILE + "y" * 500}
    run("learn", "-", "--later", stdin=json.dumps(turn))
    lines = (
        f"list; show {hostile}; search E; show; show --prompt; log; log {hostile}; diff {hostile}; "
        f"diff {hostile} --blame; doctor; audit; notes; notes set --prune; session show; "
        "notes diary --since 2026-11-15; learn --waiting; consolidate"
    )
    for words in lines.split("; "):
        for screen in (True, False):
            if not screen and words in ("show --prompt", "notes"):
                continue  # the bytes are for an agent
            _, out, err = run(*words.split(" "), screen=screen, more={"NO_COLOR": "1"})
            assert not set("\x1b\x07\u202e\u200b\x9b") & set(out + err), words
            assert out + err, words


def test_json_is_ascii_whatever_a_memory_says(run: Run, hostile: str) -> None:
    for line in ("list", f"show {hostile}", "log", f"diff {hostile}", f"diff {hostile} --blame", "show", "doctor"):
        _, out, _ = run(*line.split(), "--json")
        assert out.isascii()
        assert "\x1b" not in out
        assert isinstance(json.loads(out), dict)


def test_colours_appear_on_a_terminal_only_and_not_against_the_users_wish(run: Run, tabs: str) -> None:
    assert "\x1b[" in run("list", screen=True)[1]
    assert "\x1b[" not in run("list")[1]
    assert "\x1b[" not in run("list", screen=True, more={"NO_COLOR": "1"})[1]
    assert "\x1b[" not in run("list", screen=True, more={"TERM": "dumb"})[1]


def test_an_error_says_what_happened_and_what_to_do_next(run: Run) -> None:
    assert run("show", "x.md") == (1, "", "memsheaf: no memory at 'x.md'\n`memsheaf list` shows what exists.\n")


def test_with_json_an_error_is_a_document_too(run: Run) -> None:
    code, out, err = run("show", "x.md", "--json")

    assert code == 1
    assert json.loads(out) == {
        "error": {"kind": "NotFound", "message": "no memory at 'x.md'", "hint": "`memsheaf list` shows what exists."}
    }
    assert err.startswith("memsheaf: no memory")


def test_a_wrong_line_gives_2_and_shows_the_right_one(run: Run) -> None:
    code, out, err = run("edit", "x.md", "--old", "a")
    assert (code, out) == (2, "")
    assert "--new" in err
    assert "usage: memsheaf edit" in err

    code, out, _ = run("edit", "--json")
    assert code == 2
    assert json.loads(out)["error"]["kind"] == "Usage"


def test_a_command_that_is_not_there_is_guessed(run: Run) -> None:
    guesses = {"lst": "list", "rm": "forget", "serach": "search", "cat": "show", "delete": "forget"}
    for word, meant in guesses.items():
        code, _, err = run(word)
        assert code == 2
        assert f"did you mean {meant}?" in err


def test_ctrl_c_ends_with_130_and_changes_nothing(
    environment: dict[str, str], tree: Callable[[], dict[str, bytes]]
) -> None:
    before = tree()
    words = ["remember", "-", "--name", "x", "--description", "x", "--type", "user"]
    err = io.StringIO()

    assert main(words, environment=environment, stdin=Stubborn(), stdout=io.StringIO(), stderr=err) == 130
    assert err.getvalue() == "memsheaf: interrupted\n"
    assert tree() == before


def test_a_reader_that_has_enough_ends_it_without_a_word(run: Run, environment: dict[str, str]) -> None:
    run("remember", "x\n" * 60_000, "--name", "Long", "--description", "d", "--type", "project")
    show = subprocess.Popen(
        [sys.executable, "-m", "memsheaf", "show", "project_long.md"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert show.stdout is not None
    assert show.stderr is not None
    show.stdout.read(10)
    show.stdout.close()

    said = show.stderr.read()
    show.stderr.close()
    assert show.wait() == 1
    assert said == b""


def test_a_full_disk_behind_the_output_is_an_error_with_words(
    run: Run, tabs: str, environment: dict[str, str]
) -> None:
    with open("/dev/full" if os.path.exists("/dev/full") else os.devnull, "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "memsheaf", "list"],
            env=environment,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )

    assert b"Traceback" not in done.stderr
    assert done.returncode == os.path.exists("/dev/full")


def test_output_is_utf_8_in_every_locale(run: Run, environment: dict[str, str]) -> None:
    run("remember", "x", "--name", "日本", "--description", "日本語", "--type", "project")
    odd = environment | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}

    done = subprocess.run([sys.executable, "-m", "memsheaf", "list"], env=odd, capture_output=True, check=True)
    assert "日本語" in done.stdout.decode()


def test_arguments_that_are_not_utf_8_are_refused_with_words(run: Run) -> None:
    for words in (["search", "\udcff"], ["show", "\udcff.md"], ["list", "--type", "\udcff"], ["\udcff"]):
        code, out, err = run(*words)
        assert (code, out, err[:10]) == (2, "", "memsheaf: "), words
