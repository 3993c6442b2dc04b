"""`memsheaf chat` for scripts and programs, and the conversations that were kept."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from memsheaf import config
from memsheaf.chat.conversations import Conversations
from memsheaf.cli.call import local_minute
from memsheaf.llm.model import Said, ToolCall
from memsheaf.scope import Scope, resolve
from memsheaf.store.state import State

Run = Callable[..., tuple[int, str, str]]


def events(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


def test_one_message_is_answered_on_standard_output_and_memory_told_beside_it(run: Run) -> None:
    code, out, err = run("chat", "-p", "-", stdin="Remember that I prefer tabs over spaces.\n")
    assert code == 0
    assert out.strip()
    assert "[memory: 1 learned: " in err
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


def test_events_are_one_document_a_line_with_commands_and_errors_among_them(run: Run) -> None:
    lines = "Remember that I prefer tabs over spaces.\n/memory list\n/memory show nobody.md\n/nonsense\n"
    code, out, err = run("chat", "--json", stdin=lines)

    assert (code, err, out.isascii()) == (0, "", True)
    assert {"ran", "text", "ended"} <= {str(event["event"]) for event in events(out)}
    ran = [event for event in events(out) if event["event"] == "ran"]
    assert [(event["command"], event["code"]) for event in ran][:1] == [("list", 0)]
    assert ran[-1]["code"] == 1

    code, out, _ = run("chat", "--json", "-p", "hello", "--model", "nobody:x")
    (event,) = events(out)
    assert (code, event["event"]) == (1, "failed")
    assert "nobody" in str(event["line"])
    assert event["hint"]


def test_nobody_is_asked_where_nobody_is_there(run: Run) -> None:
    code, out, err = run("chat", "-p", "Create a Python file called test.py")
    assert code == 0
    assert not Path("test.py").exists()
    assert "nobody is here to allow this" in out + err

    _, out, err = run("chat", "-p", "Create a Python file called test.py", "--allow", "write", "--plan")
    assert not Path("test.py").exists()
    assert "plan mode" in out + err
    run("chat", "-p", "Create a Python file called test.py", "--allow", "write")
    assert Path("test.py").exists()


def test_a_conversation_is_gone_on_with(run: Run) -> None:
    assert run("chat", "-p", "Hello there")[0] == 0
    assert run("chat", "--resume", "-p", "Hello again")[0] == 0

    code, out, _ = run("conversations", "--json")
    assert code == 0
    (kept,) = json.loads(out)["conversations"]
    assert kept["turns"] == 2
    assert run("chat", "-p", "And again", "--resume", kept["id"][:13])[0] == 0
    assert run("chat", "--resume", "-p", "Remember that I prefer tabs over spaces.")[0] == 0
    assert "Remember that I prefer tabs" in run("conversations", "show", "last")[1]


def test_the_page_is_opened_beside_the_chat_and_ends_with_it(run: Run) -> None:
    code, out, err = run("chat", "--json", "-p", "/memory web")
    assert code == 0, err
    found = re.search(r"http://127\.0\.0\.1:([0-9]+)/\S*token=", out)
    assert found, out
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(found[1])), 5)


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


def test_a_line_that_is_too_long_is_refused_and_nothing_said_leaves_nothing(run: Run) -> None:
    code, _, err = run("chat", stdin="x" * (1 << 20) + "\n")

    assert code == 1
    assert "longer than 1 MiB" in err
    assert run("chat", stdin="")[0] == 0
    assert json.loads(run("conversations", "--json")[1])["conversations"] == []


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


TALK = (
    user("Which port does the proxy use?"),
    Said("assistant", "I look.", (ToolCall("c1", "grep", '{"pattern": "listen"}'),)),
    Said("tool", "proxy.conf:3:\n  listen 8080", answers="c1", tool="grep"),
    Said("assistant", "It uses 8080.\nAnything else?"),
)


def test_conversations_are_listed_newest_first(run: Run, keep: Keep) -> None:
    first, second = keep(*TALK), keep(user("Tabs?"), user("Or\nspaces?"), at=60)

    code, out, err = run("conversations")

    assert (code, err) == (0, "")
    rows = out.splitlines()
    assert rows[0].split() == ["ID", "LAST", "TURNS", "TITLE"]
    assert rows[1].split() == [second, *local_minute("2026-11-15T12:01:00Z").split(), "2", "Tabs?"]
    assert rows[2].startswith(f"{first}  {local_minute('2026-11-15T12:00:00Z')}  1")
    assert rows[2].endswith("Which port does the proxy use?")
    found = json.loads(run("conversations", "--json")[1])
    assert [one["id"] for one in found["conversations"]] == [second, first]
    assert set(found["conversations"][0]) == {"id", "began", "last", "title", "turns", "model", "scope"}
    assert found["more"] is False
    code, out, err = run("conversations", "--limit", "1")
    assert (code, len(out.splitlines()), err) == (0, 2, "There are more: --limit lists so many.\n")


def test_one_is_shown_as_text_or_as_json(run: Run, keep: Keep) -> None:
    id = keep(*TALK)

    code, out, _ = run("conversations", "show", id[:15])

    assert code == 0
    assert out == (
        f"{id} · {local_minute('2026-11-15T12:00:00Z')} · 1 turn · scripted\n"
        "\n"
        "user: Which port does the proxy use?\n"
        "\n"
        "assistant: I look.\n"
        '  grep {"pattern": "listen"}\n'
        "  grep answered: proxy.conf:3: listen 8080\n"
        "\n"
        "assistant: It uses 8080.\n"
        "Anything else?\n"
    )
    shown = json.loads(run("conversations", "show", "last", "--json")[1])
    assert (shown["id"], shown["turns"], len(shown["messages"])) == (id, 1, 4)
    assert shown["messages"][1]["calls"] == [{"id": "c1", "tool": "grep", "arguments": '{"pattern": "listen"}'}]
    keep(user("another"))
    code, out, err = run("conversations", "show", "2026")
    assert (code, out) == (1, "")
    assert err.startswith("memsheaf: 2 conversations begin with '2026'")
    assert "Give more of the id" in err


def test_one_is_removed_when_a_person_says_so(run: Run, keep: Keep) -> None:
    first, second = keep(user("Tabs?")), keep(user("Spaces?"), at=60)

    assert run("conversations", "remove", first)[0] == 2
    code, out, err = run("conversations", "remove", first, stdin="no\n", screen=True)
    assert (code, out) == (1, "")
    assert f"Remove {first} (1 turn: Tabs?) for good?" in err
    assert run("conversations", "remove", first, stdin="y\n", screen=True)[:2] == (0, "Removed 1 conversation\n")
    assert json.loads(run("conversations", "remove", second, "--yes", "--json")[1]) == {"removed": 1}
    assert run("conversations", "remove", second, "--yes")[0] == 1
    assert "no conversation" in run("conversations")[1]


def test_what_was_erased_is_in_no_conversation(run: Run, keep: Keep, tmp_path: Path) -> None:
    fact = "The proxy listens on port 8080 behind the old gateway."
    run("add", "Proxy port", fact, "--description", "Where the proxy listens", "--type", "project")
    keep(user(f"Remember: {fact}"), Said("assistant", "Saved project_proxy-port.md"), user("Which editor?"))

    code, out, _ = run("erase", "project_proxy-port.md", "--yes")

    assert (code, "no trace is left" in out) == (0, True)
    assert "user: (erased)\n" in run("conversations", "show", "last")[1]
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"old gateway" in path.read_bytes()]
    assert "Which editor?" in run("conversations", "editor")[1]
