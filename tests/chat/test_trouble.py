"""What goes wrong around a chat gives one clear line, loses nothing, and leaves the chat as it was."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from chat.test_documents import Desk
from forks import run_program
from llm.talkers import breaks_after, call, error_event, garbage, openai_server, say, status

MODEL = {"MEMSHEAF_MODEL": "openai-compatible:local", "MEMSHEAF_MODEL_KEY": "TEST_KEY", "TEST_KEY": "k"}
MESSAGE = "I always prefer tabs over spaces."


def chat(
    desk: Desk, url: str, *words: str, messages: Sequence[str] = (MESSAGE,), limit: int | None = None
) -> tuple[int, str, str]:
    """A chat whose messages come on standard input: its exit code, what it printed, and its errors."""
    environment = {**desk.environment, **MODEL, "MEMSHEAF_MODEL_URL": url} if url else desk.environment
    input = "\n".join(messages).encode() + b"\n"
    code, out, err = run_program(["chat", *words], environment, desk.work, input=input, limit=limit)
    assert b"Traceback" not in err, err
    return code, out.decode(), err.decode()


def kept(desk: Desk) -> list[str]:
    """What was said, as the next process finds it."""
    _, shown, _ = run_program(["chat", "--list", "last", "--json"], desk.environment, desk.work)
    return [said["text"] for said in json.loads(shown)["messages"] if said["role"] == "user"]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_dead_api_is_one_line_and_the_message_is_kept_and_learned(desk: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    code, out, err = chat(desk, f"http://127.0.0.1:{port}/v1")
    assert (code, out) == (1, "")
    assert "cannot be reached" in err
    assert kept(desk) == [MESSAGE]


TROUBLE = [
    ([status(429, headers={"retry-after": "60"}, message="slow down")], "answered 429: slow down"),
    ([status(500, message="on fire")] * 3, "answered 500"),
    ([status(401, message="who are you?")], "answered 401"),
    ([breaks_after("Half of ")], "closed the connection before its answer was complete"),
    ([say("Half of ") + error_event("server_error", "Overloaded")], "Overloaded"),
    ([garbage()], "cannot be used"),
]


def test_a_server_in_trouble_is_one_line_and_the_next_message_is_answered(desk: Desk) -> None:
    script = [reply for replies, _ in TROUBLE for reply in (*replies, say("Here again."))]
    messages = [
        message for number in range(len(TROUBLE)) for message in (f"Message {number}", "Are you there again?")
    ]
    with openai_server(script) as server:
        code, out, err = chat(desk, server.url, messages=messages)
        last = server.requests[-1].text
    assert code == 1
    assert all(line in err for _, line in TROUBLE), err
    assert out.count("Here again.") == len(TROUBLE)
    assert all(message in last for message in messages)  # nothing that was said is lost
    assert kept(desk) == messages


@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
def test_a_tool_that_hangs_is_ended_with_all_it_started(desk: Desk) -> None:
    command = "sleep 987654 & echo $! > child; sleep 987654"
    with openai_server([call("shell", {"command": command, "seconds": 1}), say("It hung.")]) as server:
        code, out, err = chat(desk, server.url, "--allow", "shell")
        answer = server.requests[-1].text
    assert code == 0, err
    assert "It hung." in out
    assert "1 second" in answer
    child = Path("/proc") / (desk.work / "child").read_text().strip() / "stat"
    assert not child.exists() or child.read_text().rpartition(") ")[2].startswith("Z")  # dead, if not buried


@pytest.mark.skipif(sys.platform != "linux", reason="how much a process may write is limited there")
def test_a_disk_that_takes_nothing_is_one_line_and_the_answer_comes(desk: Desk) -> None:
    with openai_server([say("Tabs, then.")]) as server:
        _, _, err = chat(desk, server.url, limit=0)
    assert "cannot" in err


@pytest.mark.skipif(sys.platform != "linux", reason="how much a process may write is limited there")
def test_a_full_disk_in_the_middle_keeps_what_was_there(desk: Desk) -> None:
    chat(desk, "", messages=["Good morning to you", *["What do you know about tabs?"] * 9])
    before = kept(desk)
    [conversation] = Path(desk.environment["MEMSHEAF_STATE"]).glob("*/conversation-*.jsonl")
    long_fact = f"Remember that invoices go out on the first working day{', as a signed PDF' * 20}."
    _, out, err = chat(desk, "", "--resume", messages=[long_fact], limit=conversation.stat().st_size + 40)
    assert "could not be changed" in out, err
    assert [line for line in err.splitlines() if "cannot" in line and conversation.name in line] == [
        f"this conversation cannot be kept: {conversation.name} in {str(conversation.parent)!r} cannot be written: "
        "File too large"
    ]
    assert kept(desk) == before
