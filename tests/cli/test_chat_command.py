"""`memsheaf chat` for scripts and programs: one message, lines on standard input, events as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]


def events(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


def test_one_message_is_answered_on_standard_output_and_memory_told_beside_it(run: Run) -> None:
    code, out, err = run("chat", "-p", "Remember that I prefer tabs over spaces.")
    assert code == 0
    assert out.strip()
    assert "[memory: 1 learned: " in err
    assert "[memory" not in out

    code, out, err = run("chat", "--print", "What do you know about my preferences?")
    assert code == 0
    assert "tabs" in out


def test_a_message_may_come_on_standard_input_and_in_parts(run: Run) -> None:
    assert run("chat", "-p", "-", stdin="Remember that I prefer tabs over spaces.\n")[0] == 0
    code, out, _ = run("chat", "-p", "What do you know about", "-p", "-", stdin="tabs?\n")

    assert code == 0
    assert "tabs" in out


def test_each_line_of_standard_input_is_a_message_and_no_prompt_is_drawn(run: Run) -> None:
    lines = "Remember that I prefer tabs over spaces.\n\nWhat do you remember?\n/memory list\n/exit\nnever asked\n"

    code, out, err = run("chat", stdin=lines)

    assert code == 0
    assert "tabs" in out
    assert "\n> " not in f"\n{out}{err}"
    assert "never asked" not in out + err


def test_events_are_one_document_a_line(run: Run) -> None:
    code, out, err = run("chat", "-p", "Remember that I prefer tabs over spaces.", "--json")

    assert (code, err) == (0, "")
    kinds = [event["event"] for event in events(out)]
    assert {"calling", "called", "text", "ended"} <= set(kinds)
    assert out.isascii()


def test_commands_of_a_script_are_events_too(run: Run) -> None:
    code, out, _ = run(
        "chat", "--json", stdin="What do you remember?\n/memory list\n/memory show nobody.md\n/nonsense\n"
    )

    assert code == 0
    ran = [event for event in events(out) if event["event"] == "ran"]
    assert [(event["command"], event["code"]) for event in ran][:1] == [("list", 0)]
    assert ran[-1]["code"] == 1


def test_an_error_is_an_event_as_well(run: Run) -> None:
    code, out, _ = run("chat", "--json", "-p", "hello", "--model", "nobody:x")

    assert code == 1
    (event,) = events(out)
    assert event["event"] == "failed"
    assert "nobody" in str(event["line"])
    assert event["hint"]


def test_nobody_is_asked_where_nobody_is_there(run: Run) -> None:
    code, out, err = run("chat", "-p", "Create a Python file called test.py")
    assert code == 0
    assert not Path("test.py").exists()
    assert "nobody is here to allow this" in out + err

    run("chat", "-p", "Create a Python file called test.py", "--allow", "write")
    assert Path("test.py").exists()


def test_plan_mode_writes_nothing_whatever_is_allowed(run: Run) -> None:
    _, out, err = run("chat", "-p", "Create a Python file called test.py", "--allow", "write", "--plan")

    assert not Path("test.py").exists()
    assert "plan mode" in out + err


def test_a_conversation_is_gone_on_with(run: Run) -> None:
    assert run("chat", "-p", "Hello there")[0] == 0
    assert run("chat", "--resume", "-p", "Hello again")[0] == 0

    code, out, _ = run("conversations", "--json")
    assert code == 0
    (kept,) = json.loads(out)["conversations"]
    assert kept["turns"] == 2
    assert run("chat", "-p", "And again", "--resume", kept["id"][:13])[0] == 0


def test_the_scope_on_the_line_is_the_one_that_is_written_to(run: Run) -> None:
    run("chat", "--scope", "user", "-p", "Remember that I prefer tabs over spaces.")
    assert "tabs" in run("list", "--scope", "user")[1]

    run("chat", "--agent", "reviewer", "-p", "Remember that we review on Mondays.")
    assert "review" in run("list", "--agent", "reviewer")[1]
    assert "review" not in run("list", "--scope", "user")[1]


def test_a_script_ends_with_one_when_an_answer_failed(run: Run) -> None:
    words = ("chat", "--model", "openai-compatible:x", "--url", "http://127.0.0.1:9/v1")
    pytest.importorskip("pydantic_ai")

    code, out, err = run(*words, "-p", "hello")
    assert (code, out) == (1, "")
    assert "127.0.0.1:9" in err or "connect" in err.lower()
    assert run(*words, stdin="hello\n/help\n")[0] == 1
    code, out, _ = run(*words, "-p", "hello", "--json")
    assert code == 1
    assert "failed" in [event["event"] for event in events(out)]


def test_bytes_that_are_no_text_do_not_end_a_script(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "memsheaf", "chat"],
        env=environment,
        input=b"hello \xff\xfe\n",
        capture_output=True,
        check=False,
    )

    assert done.returncode == 0
    assert done.stdout
    assert b"Traceback" not in done.stderr


def test_a_reader_that_has_had_enough_is_no_error_to_shout_about(environment: dict[str, str]) -> None:
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as nobody:
        done = subprocess.run(
            [sys.executable, "-m", "memsheaf", "chat", "-p", "What do you remember?"],
            env=environment,
            stdout=nobody,
            stderr=subprocess.PIPE,
            check=False,
        )

    assert done.returncode == 1
    assert b"Traceback" not in done.stderr


def test_a_line_that_is_too_long_is_refused(run: Run) -> None:
    code, _, err = run("chat", stdin="x" * (1 << 20) + "\n")

    assert code == 1
    assert "longer than 1 MiB" in err


def test_hostile_words_reach_neither_the_terminal_nor_the_log_as_they_are(run: Run) -> None:
    code, out, err = run("chat", "-p", "Remember: \x1b]0;owned\x07 and \u202eevil")

    assert code == 0
    assert not set(out + err) & set("\x1b\x07\u202e")


def test_a_chat_in_which_nothing_is_said_leaves_nothing_behind(run: Run, tmp_path: Path) -> None:
    assert run("chat", stdin="")[0] == 0
    assert run("conversations", "--json")[0] == 0
    assert json.loads(run("conversations", "--json")[1])["conversations"] == []


def test_another_command_imports_nothing_of_a_chat(environment: dict[str, str]) -> None:
    program = "import sys; from memsheaf.cli import main; main(['list']); main(['help', 'chat']); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, check=True, text=True
    )

    imported = done.stdout.splitlines()[-1].split()
    assert not [name for name in imported if name.startswith(("memsheaf.chat", "prompt_toolkit", "pydantic_ai"))]
