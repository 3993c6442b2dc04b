"""`memsheaf chat` for scripts and programs, and the conversations that were kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from memsheaf import config
from memsheaf.chat.conversations import Conversations
from memsheaf.llm.model import Said
from memsheaf.scope import Scope, resolve
from memsheaf.state import State

Run = Callable[..., tuple[int, str, str]]


def test_one_message_is_answered_on_standard_output_and_memory_told_beside_it(run: Run) -> None:
    code, out, err = run("chat", "-p", "-", stdin="Remember that I prefer tabs over spaces.\n")
    assert code == 0
    assert out.startswith("Saved ")
    assert err == ""
    assert "[memory" not in out

    code, out, err = run("chat", "-p", "Which do I prefer,", "--print", "-", stdin="tabs or spaces?\n")
    assert code == 0
    assert "tabs" in out


def test_each_line_of_standard_input_is_a_message_and_no_prompt_is_drawn(run: Run) -> None:
    lines = "Remember that I prefer tabs over spaces.\n\nWhat do you remember?\n/memory list\n/exit\nnever asked\n"

    code, out, err = run("chat", stdin=lines)

    assert code == 0
    assert "tabs" in out
    assert "\n> " not in f"\n{out}{err}"
    assert "never asked" not in out + err


def test_nobody_is_asked_where_nobody_is_there(run: Run) -> None:
    code, out, err = run("chat", "-p", "Create a Python file called test.py")
    assert code == 0
    assert not Path("test.py").exists()
    assert "nobody is here to allow this" in out + err

    run("chat", "-p", "Create a Python file called test.py", "--allow", "write")
    assert Path("test.py").exists()


def test_a_conversation_is_gone_on_with(run: Run) -> None:
    assert run("chat", "-p", "Hello there")[0] == 0
    assert run("chat", "--resume", "-p", "Hello again")[0] == 0

    code, out, _ = run("chat", "--list", "--json")
    assert code == 0
    (kept,) = json.loads(out)["conversations"]
    assert kept["turns"] == 2
    assert run("chat", "-p", "And again", "--resume", kept["id"][:13])[0] == 0
    assert run("chat", "--resume", "-p", "Remember that I prefer tabs over spaces.")[0] == 0
    assert "Remember that I prefer tabs" in run("chat", "--list", "last")[1]


def test_a_command_that_fails_or_does_not_exist_ends_with_1(run: Run) -> None:
    code, _, err = run("chat", "-p", "/list")
    assert code == 1
    assert "there is no command /list" in err
    assert run("chat", stdin="/list\nHello\n")[0] == 1
    assert run("chat", "-p", "/memory show nothing.md")[0] == 1
    assert run("chat", "-p", "/memory list")[0] == 0


@pytest.mark.parametrize("missing", ["rich", "prompt_toolkit", "pathspec"])
def test_without_its_extra_the_chat_says_what_to_install(environment: dict[str, str], missing: str) -> None:
    program = f"import sys; sys.modules['{missing}'] = None; from memsheaf.cli import main; sys.exit(main(['chat']))"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert f"the chat needs the package {missing}, which is not installed" in done.stderr.decode()
    assert "pip install 'memsheaf[chat]'" in done.stderr.decode()


def test_odd_bytes_and_a_reader_that_has_had_enough_do_not_end_it_with_a_traceback(
    environment: dict[str, str],
) -> None:
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as nobody:
        done = subprocess.run(
            [sys.executable, "-m", "memsheaf", "chat"],
            env=environment,
            input=b"hello \xff\xfe\n",
            stdout=nobody,
            stderr=subprocess.PIPE,
            check=False,
        )

    assert done.returncode == 1
    assert b"Traceback" not in done.stderr


def test_hostile_words_reach_neither_the_terminal_nor_the_log_as_they_are(run: Run) -> None:
    code, out, err = run("chat", "-p", "Remember: \x1b]0;owned\x07 and \u202eevil")

    assert code == 0
    assert not set(out + err) & set("\x1b\x07\u202e")


Keep = Callable[..., str]
NOON = 1_794_744_000.0  # 2026-11-15, noon in UTC


@pytest.fixture
def keep(environment: dict[str, str]) -> Keep:
    """Keep a conversation of a scope that began so many seconds after noon; gives its id."""

    def keep(*said: Said, scope: str = "", at: float = 0.0, model: str = "scripted") -> str:
        settings = config.load(environment)
        root = resolve(Scope.parse(scope or settings.scope), settings.places(os.getcwd()))
        kept = Conversations(State.of(root, settings.state), clock=lambda: NOON + at)
        with kept.begin(model=model) as conversation:
            conversation.add(*said)
        return conversation.id

    return keep


def user(text: str) -> Said:
    return Said("user", text)


def test_one_is_removed_when_a_person_says_so(run: Run, keep: Keep) -> None:
    first, second = keep(user("Tabs?")), keep(user("Spaces?"), at=60)

    assert run("chat", "--remove", first)[0] == 2
    code, out, err = run("chat", "--remove", first, stdin="no\n", screen=True)
    assert (code, out) == (1, "")
    assert f"Remove {first} (1 turn: Tabs?) for good?" in err
    assert run("chat", "--remove", first, stdin="y\n", screen=True)[:2] == (0, f"Removed {first}\n")
    assert json.loads(run("chat", "--remove", second, "--yes", "--json")[1]) == {"removed": 1}
    assert run("chat", "--remove", second, "--yes")[0] == 1
    assert "no conversation" in run("chat", "--list")[1]
