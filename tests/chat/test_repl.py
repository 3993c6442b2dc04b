"""The chat as a person has it: the real program in a pseudo-terminal, offline or with a model on this machine."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from llm.talkers import Asked, Reply, Server, breaks_after, call, hangs, openai_server, say, status, waits

if sys.platform == "win32":
    pytest.skip("there are no pseudo-terminals", allow_module_level=True)

from chat.terminal import CTRL_C, CTRL_D, CTRL_J, CTRL_O, CTRL_U, ENTER, ESCAPE, TAB, UP, Terminal

Chat = Callable[..., Terminal]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        "MEMSHEAF_HOME": str(tmp_path / "home"),
        "MEMSHEAF_CACHE": str(tmp_path / "cache"),
        "MEMSHEAF_EMBEDDER": "none",
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "INPUTRC": os.devnull,
    }


@pytest.fixture
def chat(environment: dict[str, str], work: Path) -> Chat:
    """Start the real program."""

    def started(*words: str, **more: str) -> Terminal:
        return Terminal(["chat", *words], {**environment, **more}, work)

    return started


@contextmanager
def served(
    chat: Chat, *script: Reply, aside: Callable[[Asked], Reply] = lambda asked: status(503)
) -> Iterator[tuple[Terminal, Server]]:
    """A chat with a model on this machine that says this."""
    with openai_server(script, aside=aside) as server:
        words = ("--model", "openai-compatible:test", "--url", server.url)
        with chat(*words, OPENAI_API_KEY="") as terminal:
            terminal.prompt()
            yield terminal, server


def messages(server: Server) -> list[str]:
    """What the user said last in each request."""
    found = []
    for asked in server.requests:
        said = [one["content"] for one in asked.body["messages"] if one["role"] == "user"][-1]
        found.append(said if isinstance(said, str) else said[0]["text"])
    return found


def answer_question(terminal: Terminal, message: str, key: str) -> str:
    """Say something that leads to a question, and press a key; gives what was on the screen from there on."""
    terminal.type(message)
    place, asked = terminal.cells.place, terminal.text().count("N never?")
    terminal.send(ENTER)
    terminal.wait("N never?", times=asked + 1)
    terminal.send(key)
    terminal.prompt(below=place)
    return "\n".join(terminal.cells.shown()[place:])


def start_turn(terminal: Terminal, message: str, until: str) -> int:
    """Say something, and wait for the beginning of the answer; gives the line it was said in."""
    terminal.type(message)
    place = terminal.cells.place
    terminal.send(ENTER)
    terminal.wait(until)
    return place


def wait_at_cursor(terminal: Terminal, text: str) -> None:
    """Wait until the cursor is behind this text; while the line below is drawn, it is elsewhere."""
    terminal.until(lambda: "".join(terminal.cells.lines[terminal.cells.row]).rstrip() == text, text)


def below_cursor(terminal: Terminal) -> str:
    return "\n".join("".join(line) for line in terminal.cells.lines[terminal.cells.row + 1 :])


# with a person, offline


def test_a_chat_begins_answers_ends_and_the_next_one_knows(chat: Chat) -> None:
    with chat() as terminal:
        terminal.prompt()
        first = terminal.text().split("\n>")[0].splitlines()
        assert len(first) <= 4
        assert "offline" in first[1]
        assert "project (0), user (0)" in first[2]
        assert "/help" in first[3]
        assert "Nothing is remembered yet." in terminal.tell("What do you remember?")
        terminal.tell("Remember that I prefer tabs over spaces.")
        assert "Memory is left out of this turn" in terminal.tell("/ignore what is my indentation?")
        assert "[memory" not in terminal.text()
        terminal.type("bye")
        terminal.send(ENTER)
        terminal.wait("Goodbye.")
        assert terminal.end() == 0
    with chat() as terminal:
        terminal.prompt()
        assert "(1)" in terminal.text()
        terminal.send(UP)
        terminal.wait("> bye")
        terminal.send(UP)
        terminal.wait("> /ignore what is my indentation?")
        terminal.send(CTRL_U)
        terminal.prompt()
        listed = terminal.tell("/memory")
        file = next(word for word in listed.split() if word.endswith(".md"))
        assert "tabs" in terminal.tell(f"/memory show {file}")
        assert "no memory at 'nobody.md'" in terminal.tell("/memory show nobody.md")
        assert "Forgot" in terminal.tell(f"/forget {file}")
        terminal.tell("/undo")
        assert "tabs" in terminal.tell("What do you know about my preferences?")
        assert "did you mean /forget" in terminal.tell(f"/forgte {file}")
        assert "Forgot" in terminal.tell(f"/forget {file}")
        assert "Undone in user" in terminal.tell("/undo")
        assert "usage: memsheaf notes" in terminal.tell("/notes --help")


def test_the_first_message_and_a_deletion_that_is_agreed_to(chat: Chat) -> None:
    with chat("Remember that I", "live in Berlin.") as terminal:  # the first message
        terminal.prompt()
        assert "> Remember that I live in Berlin.\n" in terminal.text()
        assert "Saved user:user_live-berlin.md" in terminal.text()
        terminal.tell("Remember that we deploy on Fridays.")
        preview = terminal.tell("Delete everything you know")
        assert "Nothing is deleted yet:" in preview
        terminal.tell("no, wait")
        assert "Deleted" not in terminal.tell("all")
        terminal.tell("Delete everything you know")
        assert "Deleted 2 memories" in terminal.tell("all")
        assert terminal.tell("/undo").count("\n  + ") == 2
        assert "berlin" in terminal.tell("/memory").lower()


def test_a_file_is_written_only_after_a_yes(chat: Chat, work: Path) -> None:
    with chat(NO_COLOR="1") as terminal:
        terminal.prompt()
        answers = (
            ("a", "n", "no"),
            ("b", CTRL_C, "no"),
            ("c", CTRL_D, "no"),
            ("d", "y", "once"),
            ("e", "N", "never"),
        )
        for name, key, said in answers:
            assert f"never?\n{said}" in answer_question(terminal, f"Create a file called {name}.py", key)
        assert "never allows" in terminal.tell("Create a file called f.py")
        assert [path.name for path in work.iterdir()] == ["d.py"]
        assert b"\x1b[31m" not in terminal.raw
        terminal.send(CTRL_D)
        assert terminal.end() == 0


# with a model


def test_trouble_in_a_turn_ends_in_a_line_and_the_prompt(chat: Chat, work: Path) -> None:
    """Keys at the wrong time, Ctrl-C, a command that hangs, servers that fail: one chat through all of it."""
    may_ask, may_end = threading.Event(), threading.Event()
    script = (
        *(say("I begin") + waits(may_ask) + call("shell", {"command": "echo > ran"}), say("Done.")),
        *(call("shell", {"command": "echo > ran"}), say("Done, too.")),
        *(hangs("I hang"), say("I am still here.")),
        *(call("shell", {"command": "sleep 600 & echo $! > process; wait"}), say("And here.")),
        say("I start") + waits(may_end) + say(" and end."),
        *(status(401, message="bad key"), breaks_after("Half an"), status(400), say("Well again.")),
    )
    with served(chat, *script) as (terminal, server):
        start_turn(terminal, "run it", "I begin")  # what was typed before a question is no answer
        terminal.send("y")
        may_ask.set()
        terminal.wait("N never?")
        terminal.send("n")
        terminal.wait("Done.")
        terminal.prompt()

        place = start_turn(terminal, "run it again", "run it again")  # nor is what is pasted
        terminal.wait("N never?", times=2)
        terminal.send("yes\n")
        terminal.send("n\n")
        terminal.wait("Done, too.")
        terminal.prompt(below=place)
        assert not (work / "ran").exists()

        place = start_turn(terminal, "go", "I hang")
        terminal.send(CTRL_C)
        terminal.wait("stopped")
        terminal.prompt(below=place)
        assert server.was_left.wait(30)
        assert "I am still here." in terminal.tell("and now?")

        place = start_turn(terminal, "go", "sleep 600")
        terminal.wait("N never?", times=3)
        terminal.send("y")
        process = work / "process"
        terminal.until(lambda: process.is_file() and process.read_text().strip() != "", "a process")
        terminal.send(CTRL_C)
        terminal.wait("stopped", times=2)
        terminal.prompt(below=place)
        terminal.until(lambda: not is_running(int(process.read_text())), "its end")
        assert "And here." in terminal.tell("and now?")

        start_turn(terminal, "go", "I start")
        terminal.send("typed ahead")
        may_end.set()
        wait_at_cursor(terminal, "> typed ahead")
        assert "I start and end.\n" in terminal.text()
        assert terminal.text().count("typed ahead") == 1

        for said in ("401", "Half an", "400", "Well again."):
            answer = terminal.tell("")
            assert said in answer
            assert "Traceback" not in answer
            terminal.type("again")


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_chat_completes_takes_several_lines_tells_news_and_shows_calls(chat: Chat, work: Path) -> None:
    may_learn = threading.Event()

    def distilled(asked: Asked) -> Reply:
        assert may_learn.wait(60)
        return say('{"memories": []}')

    (work / "notes.txt").write_text("first line\nsecond line\n")
    evil = ("\x1b", "]0;owned", "\x07", "\x1b[2", "J", "\x9b1m", "\u202egnp.exe")
    again = call("shell", {"command": "echo >> ran"})
    script = (
        *(say("Noted."), *[say("ok")] * 4, say(*evil), call("read", {"path": "notes.txt"}), say("Read it.")),
        *(again, say("One."), again, say("Two."), hangs("I hang")),
    )
    with served(chat, *script, aside=distilled) as (terminal, server):
        answer = terminal.tell("Remember that I prefer tabs over spaces.")
        assert "Noted." in answer
        assert "[memory" not in answer
        may_learn.set()
        shown = ""
        while "[memory: 1 learned: " not in shown:  # it is told before the next prompt
            shown = terminal.tell("/allow")

        for newline in (CTRL_J, ESCAPE + ENTER, "\\" + ENTER):
            terminal.type("one" + newline + "two")
            terminal.tell("")
        terminal.send("\x1b[200~one\r\nfive\n\x1b[201~")
        terminal.type("six")
        terminal.tell("")
        typed = messages(server)[1:]
        assert typed == ["one\ntwo", "one\ntwo", "one\ntwo", "one\nfive\nsix"], terminal.text()

        answer = terminal.tell("go")
        assert "<U+001B>]0;owned<U+0007><U+001B>[2J<U+009B>1m<U+202E>gnp.exe" in answer
        assert b"\x1b]0;" not in terminal.raw
        assert "\u202e" not in terminal.raw.decode()

        answer = terminal.tell("read it")
        assert "· read notes.txt — " in answer
        assert "second line" not in answer
        terminal.type("half typed")
        terminal.send(CTRL_O)
        terminal.wait("second line")
        terminal.wait("> half typed")
        terminal.wait("tokens in")
        terminal.send(CTRL_U)
        terminal.prompt()

        assert "One." in answer_question(terminal, "go", "a")
        assert "never?" not in terminal.tell("again")
        assert "echo >> ran" in terminal.tell("/allow")
        assert (work / "ran").read_text() == "\n\n"
        terminal.type("/mem")
        terminal.until(lambda: "/memory" in below_cursor(terminal), "the menu")  # before that a key may be lost
        terminal.send(TAB)
        terminal.wait("> /memory")
        terminal.type(" li")
        terminal.until(lambda: "list" in below_cursor(terminal), "the menu")
        terminal.send(TAB)
        wait_at_cursor(terminal, "> /memory list")
        assert "tabs" in terminal.tell("")
        terminal.tell("/plan")
        terminal.wait("plan mode", times=2)  # in the answer, and in the status below

        place = start_turn(terminal, "go", "I hang")
        terminal.send(CTRL_C)
        terminal.wait("stopped")
        terminal.prompt(below=place)
        assert server.was_left.wait(30)
        terminal.type("half a thought")
        place = terminal.cells.place
        terminal.send(CTRL_C)
        terminal.prompt(below=place)
        place = terminal.cells.place
        terminal.send(CTRL_C)
        terminal.wait("Ctrl-D or /exit leaves")
        terminal.prompt(below=place)
        terminal.type("/exit")
        terminal.send(ENTER)
        assert terminal.end() == 0
