"""ConversationSummary conversations, at the command line."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from memsheaf import config
from memsheaf.chat.conversations import Conversations
from memsheaf.llm.talker import Call, Said
from memsheaf.scope import Scope, resolve
from memsheaf.store.state import State

Run = Callable[..., tuple[int, str, str]]
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
    Said("assistant", "I look.", (Call("c1", "grep", '{"pattern": "listen"}'),)),
    Said("tool", "proxy.conf:3:\n  listen 8080", answers="c1", tool="grep"),
    Said("assistant", "It uses 8080.\nAnything else?"),
)


def test_conversations_are_listed_newest_first(run: Run, keep: Keep) -> None:
    first, second = keep(*TALK), keep(user("Tabs?"), user("Or\nspaces?"), at=60)

    code, out, err = run("conversations")

    assert (code, err) == (0, "")
    rows = out.splitlines()
    assert rows[0].split() == ["ID", "LAST", "TURNS", "TITLE"]
    assert rows[1].split() == [second, "2026-11-15", "12:01Z", "2", "Tabs?"]
    assert rows[2].startswith(f"{first}  2026-11-15 12:00Z  1")
    assert rows[2].endswith("Which port does the proxy use?")
    found = json.loads(run("conversations", "--json")[1])
    assert [one["id"] for one in found["conversations"]] == [second, first]
    assert set(found["conversations"][0]) == {"id", "began", "last", "title", "turns", "model", "scope"}
    assert found["more"] is False


def test_the_list_ends_where_wanted_and_says_so(run: Run, keep: Keep) -> None:
    for number in range(3):
        keep(user(f"message {number}"), at=number)

    code, out, err = run("conversations", "--limit", "2")

    assert (code, len(out.splitlines())) == (0, 3)
    assert err == "There are more: --limit lists so many.\n"
    assert json.loads(run("conversations", "--limit", "2", "--json")[1])["more"] is True


def test_where_nothing_was_kept_that_is_said(run: Run) -> None:
    assert run("conversations") == (0, "no conversation of the scope project was kept\n", "")
    assert run("conversations", "x", "--scope", "user")[:2] == (0, "no kept conversation of the scope user has 'x'\n")
    assert json.loads(run("conversations", "--json")[1]) == {"conversations": [], "more": False}


def test_each_scope_has_its_own(run: Run, keep: Keep) -> None:
    here, there = keep(user("of the project")), keep(user("of the writer"), scope="agent/writer")

    assert here in run("conversations")[1]
    assert there not in run("conversations")[1]
    assert there in run("conversations", "--agent", "writer")[1]


def test_words_find_conversations_with_the_lines_that_have_them(run: Run, keep: Keep) -> None:
    wanted = keep(*TALK)
    keep(user("Which editor do I use?"))

    code, out, _ = run("conversations", "PORT", "proxies")

    assert code == 0
    first, *lines = out.splitlines()
    assert first.startswith(wanted)
    assert lines == ["  user: Which port does the proxy use?"]
    (found,) = json.loads(run("conversations", "listen 8080", "--json")[1])["conversations"]
    assert (found["id"], found["lines"]) == (wanted, ["grep: listen 8080"])


def test_one_is_shown_as_text(run: Run, keep: Keep) -> None:
    id = keep(*TALK)

    code, out, _ = run("conversations", "--show", id[:15])

    assert code == 0
    assert out == (
        f"{id} · 2026-11-15 12:00Z · 1 turn · scripted\n"
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
    shown = json.loads(run("conversations", "--show", "last", "--json")[1])
    assert (shown["id"], shown["turns"], len(shown["messages"])) == (id, 1, 4)
    assert shown["messages"][1]["calls"] == [{"id": "c1", "tool": "grep", "arguments": '{"pattern": "listen"}'}]


def test_one_is_exported_as_lines_of_json(run: Run, keep: Keep) -> None:
    keep(*TALK)

    code, out, _ = run("conversations", "--export", "last")

    assert code == 0
    records = [json.loads(line) for line in out.splitlines()]
    assert [record.get("role") for record in records] == [None, "user", "assistant", "tool", "assistant"]
    assert records[0]["facts"] == {"model": "scripted"}
    assert json.loads(run("conversations", "--export", "last", "--json")[1])["lines"] == records


def test_one_is_removed_when_a_person_says_so(run: Run, keep: Keep) -> None:
    first, second = keep(user("Tabs?")), keep(user("Spaces?"), at=60)

    assert run("conversations", "--remove", first)[0] == 2
    code, out, err = run("conversations", "--remove", first, stdin="no\n", screen=True)
    assert (code, out) == (1, "")
    assert f"Remove {first} (1 turn: Tabs?) for good?" in err
    assert run("conversations", "--remove", first, stdin="y\n", screen=True)[:2] == (0, "Removed 1 conversation\n")
    assert json.loads(run("conversations", "--remove", second, "--yes", "--json")[1]) == {"removed": 1}
    assert run("conversations", "--remove", second, "--yes")[0] == 1
    assert "no conversation" in run("conversations")[1]


def test_old_ones_are_removed_when_a_person_says_so(run: Run, keep: Keep) -> None:
    keep(user("old"), at=time.time() - NOON - 100 * 86_400)
    keep(user("older"), at=time.time() - NOON - 200 * 86_400)
    new = keep(user("new"), at=time.time() - NOON)

    assert run("conversations", "--older-than", "90")[0] == 2
    code, _, err = run("conversations", "--older-than", "90", stdin="\n", screen=True)
    assert code == 1
    assert "Remove 2 conversations that nobody went on with for 90 days?" in err
    assert run("conversations", "--older-than", "90", "--yes") == (0, "Removed 2 conversations\n", "")
    assert run("conversations", "--older-than", "90") == (0, "Removed 0 conversations\n", "")
    assert [one["id"] for one in json.loads(run("conversations", "--json")[1])["conversations"]] == [new]


def test_an_id_that_fits_several_is_refused_with_a_hint(run: Run, keep: Keep) -> None:
    keep(user("a"))
    keep(user("b"))

    code, out, err = run("conversations", "--show", "2026")

    assert (code, out) == (1, "")
    assert err.startswith("memsheaf: 2 conversations begin with '2026'")
    assert "Give more of the id" in err


def test_hostile_words_do_not_drive_the_terminal(run: Run, keep: Keep) -> None:
    evil = "\x1b]0;x\x07\x1b[31mred\u202e"
    keep(user(evil), Said("assistant", evil, (Call("c", evil, evil),)), Said("tool", evil, answers="c", tool=evil))

    for words in ([], ["red"], ["--show", "last"], ["--export", "last"]):
        code, out, _ = run("conversations", *words, screen=True, more={"NO_COLOR": "1", "COLUMNS": "80"})
        assert code == 0
        assert not {"\x1b", "\x07", "\u202e"} & set(out)
        assert "red" in out


def test_what_was_erased_is_in_no_conversation(run: Run, keep: Keep, tmp_path: Path) -> None:
    fact = "The proxy listens on port 8080 behind the old gateway."
    run("add", "Proxy port", fact, "--description", "Where the proxy listens", "--type", "project")
    keep(user(f"Remember: {fact}"), Said("assistant", "Saved project_proxy-port.md"), user("Which editor?"))

    code, out, _ = run("erase", "project_proxy-port.md", "--yes")

    assert (code, "no trace is left" in out) == (0, True)
    assert "user: (erased)\n" in run("conversations", "--show", "last")[1]
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"old gateway" in path.read_bytes()]
    assert "Which editor?" in run("conversations", "editor")[1]
