"""Whatever a client sends, the server refuses it or stores it harmlessly, and the session goes on."""

from __future__ import annotations

import io
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from cases import each_case
from forks import Program
from memsheaf.mcp.stdio import MAX_WAITING_REQUESTS

sys.path.append(str(Path(__file__).parent))
from mcp_server.mcp_peer import NEVER, PATIENCE, Message, Place, Served, Wire, served

CORPORA = Path(__file__).parent.parent / "corpora"
PRIVATE = "the blue lighthouse"
HEADER = "---\nname: N\ndescription: d\ntype: user\n---\n"
INTERNAL, INVALID, PARSE = -32603, -32600, -32700
FILE = "memory://file/"


def cases(name: str) -> list[Any]:
    """Every tenth case of a corpus: the tests of the tools go through all of them."""
    found: list[Any] = json.loads((CORPORA / f"{name}.json").read_text("utf-8"))["cases"]
    return found if os.environ.get("MEMSHEAF_LONG") else found[::10]


def code_of(answer: Message) -> object:
    return answer.get("error", {}).get("code")


# a server that outlives the tests


class Room:
    """A server with memories, and files around them that nobody may read or change."""

    def __init__(self, place: Place, server: Served) -> None:
        self.place = place
        self.wire = server.wire
        self.outside = _outside(place)

    def text(self, tool: str, /, **arguments: object) -> str:
        """Call a tool; the answer is a result, without what is private."""
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments})
        said: str = answer["result"]["content"][0]["text"]
        return said

    def ask(self, method: str, params: Message) -> Message:
        """Ask for something; the answer is no mistake of ours and tells nothing that is private."""
        answer = self.wire.ask(method, params)
        assert code_of(answer) != INTERNAL, (params, answer)
        assert PRIVATE not in json.dumps(answer)
        return answer

    def files(self) -> dict[str, bytes]:
        """The memories, as they are on disk."""
        found = (path for path in self.place.root.rglob("*") if ".history" not in path.parts)
        return {str(path): path.read_bytes() for path in found if path.is_file() and path.name != "MEMORY.md"}


def _outside(place: Place) -> dict[str, bytes]:
    kept = [place.root, place.folder / "cache", place.folder / "state"]
    found = [path for path in place.folder.rglob("*") if not any(path.is_relative_to(one) for one in kept)]
    return {str(path): path.read_bytes() for path in found if path.is_file() and not path.name.startswith("stderr-")}


@pytest.fixture(scope="module", params=[False, True], ids=["handshake", "modern"])
def room(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    place = Place(tmp_path_factory.mktemp("room"))
    for name in ("secret.md", "home/secret.md", "home/user_evil/x.md", "etc/passwd", "x.md", "home/x.md"):
        (place.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (place.folder / name).write_text(HEADER + PRIVATE, "utf-8")
    place.save("Kept", "This one stays.")
    with served(place, modern=request.param) as server:
        yield Room(place, server)


@pytest.fixture(autouse=True)
def harmless(request: pytest.FixtureRequest) -> Iterator[None]:
    """After every test nothing outside has changed, and the server still answers."""
    yield
    if "room" not in request.fixturenames:
        return
    room: Room = request.getfixturevalue("room")
    assert _outside(room.place) == room.outside
    assert "This one stays." in room.text("memory_read", filename="user_kept.md")


# names


NAMES = [case for case in cases("traversal") if isinstance(case.get("input"), str)]


@each_case("case", NAMES)
def test_a_hostile_name_leads_nowhere(room: Room, case: Any) -> None:
    name = case["input"].replace("{ROOT}", str(room.place.root)).replace("{ROOTNAME}", room.place.root.name)
    before = room.files()
    for tool, arguments in (
        ("memory_read", {}),
        ("memory_delete", {}),
        ("memory_update", {"old_text": "a", "new_text": "b"}),
        ("memory_insert", {"line": 0, "text": "b"}),
    ):
        if case["expect"] == "reject" and (tool, name.lower()) != ("memory_read", "memory.md"):
            assert room.text(tool, filename=name, **arguments).startswith("Error: "), tool
    for uri in (FILE + name, FILE + quote(name, safe=""), FILE + quote(quote(name, safe=""), safe=""), name):
        room.ask("resources/read", {"uri": uri})
    room.text("memory_search", query=name)
    room.text("memory_list", type=name)
    room.text("memory_view", target=name)
    room.ask("prompts/get", {"name": "recall", "arguments": {"query": name or "?"}})
    room.ask("prompts/get", {"name": name, "arguments": {name: name}})
    assert room.files() == before
    if case["surface"] in ("query", "project"):
        return
    written = [room.text("memory_write", filename=name, content=f"{HEADER}It is called {case['id']}.\n")]
    named = {"name": name or "x", "description": "d", "type": "user", "filename": name}
    written.append(room.text("memory_write", content=f"It is called {case['id']}, too.", **named))
    if case["expect"] == "reject":
        if name:
            assert all(said.startswith("Error: ") for said in written), written
            assert room.files() == before
    elif case["expect"] == "accept":
        assert written[0].startswith("Memory saved: "), written
    for path in room.files().keys() - before.keys():
        Path(path).unlink()


# texts


def test_every_injection_is_stored_as_data_or_refused(room: Room) -> None:
    for case in cases("injection"):
        text = case.get("payload")
        if not isinstance(text, str):
            continue
        plain = {"name": f"Case {case['id']}", "description": "d", "type": "user", "content": f"Body {case['id']}."}
        for field in ("content", "description", "name"):
            room.text("memory_write", **(plain | {field: text}))
        for name, argument in (("recall", "query"), ("remember", "fact")):
            answer = room.ask("prompts/get", {"name": name, "arguments": {argument: text}})
            if "result" in answer:
                assert len(answer["result"]["messages"]) == 1
        room.text("memory_search", query=text)
    for line in room.text("memory_list").split("\n"):
        file, sign, _ = line.partition("  [")
        assert sign
        assert len(line) < 600
        if file != "user_kept.md":
            room.text("memory_read", filename=file)
            room.ask("resources/read", {"uri": FILE + quote(file)})
            assert room.text("memory_delete", filename=file) == f"Memory deleted: {file}"


# arguments


def test_a_message_that_is_too_long_is_refused_and_a_long_one_answered(room: Room) -> None:
    room.wire.send(b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"x":"' + b"x" * (5 << 20) + b'"}}\n')
    answer = room.wire.next(id=None, method=NEVER)
    assert answer["error"]["code"] == INVALID
    assert "4,194,304 bytes" in answer["error"]["message"]
    said = room.text("memory_write", name="Long", description="d", type="user", content="tomorrow " * (3 << 17))
    assert said.startswith("Error: ")


# how a session ends


def new(number: int) -> Message:
    """A call that saves a memory as a file, which is written as it is."""
    header = f"---\nname: Order {number}\ndescription: What was ordered, {number}\ntype: project\n---\n"
    content = f"{header}Parcel {number} went to harbour {number * 7}.\n"
    return {"name": "memory_write", "arguments": {"filename": f"project_order-{number}.md", "content": content}}


@pytest.mark.parametrize("modern", [False, True])
def test_calls_that_run_when_the_client_hangs_up_are_finished_and_half_a_line_is_no_call(
    tmp_path: Path, modern: bool
) -> None:
    with served(Place(tmp_path), modern=modern) as server:
        numbers = [server.wire.request("tools/call", new(number)) for number in range(20)]
        line = json.dumps({"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": new(99)}).encode()
        server.wire.send(line[: len(line) // 2])
        assert server.hang_up() == 0
        heard = server.wire.rest()
    assert len([message for message in heard if message.get("id") in numbers]) == 20
    assert [message["error"]["code"] for message in heard if "error" in message] == [PARSE]
    assert len(list(Place(tmp_path).root.glob("project_order-*.md"))) == 20


def test_for_a_client_that_stops_listening_nothing_more_is_begun(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.save("Kept", "This one stays.")
    environment = os.environ | place.environment
    server = Program(place.words(), stdin=subprocess.PIPE, env=environment, cwd=tmp_path)
    assert server.stdin
    wire = Wire(server.stdin, io.BytesIO(), modern=True)  # type: ignore[arg-type]
    wire.request("server/discover")
    assert server.stdout.readline()
    server.stdout.close()
    for number in range(20):
        with suppress(BrokenPipeError):  # it ended already
            wire.request("tools/call", new(number))
    with suppress(BrokenPipeError):
        server.stdin.close()
    assert server.wait(PATIENCE) == 0
    assert len(list(place.root.glob("project_order-*.md"))) == 1, "the first, whose answer nobody read"


@pytest.mark.skipif(os.name == "nt", reason="locks and pipes of POSIX")
def test_a_client_that_asks_faster_than_it_is_answered_has_to_wait(tmp_path: Path) -> None:
    import fcntl

    place = Place(tmp_path)
    place.save("Kept", "This one stays.")
    with served(place) as server:
        assert server.process.stdin
        pipe, wire = server.process.stdin.fileno(), server.wire
        assert server.wire.text("memory_list")
        with open(place.root / ".history" / "lock", "rb+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # as another process that writes
            sent = [wire.request("tools/call", new(number)) for number in range(MAX_WAITING_REQUESTS)]
            wire.notify("notifications/cancelled", {"requestId": sent[50]})
            assert wire.ask("ping")["result"] == {}  # all that was read
            os.set_blocking(pipe, False)
            more = 0
            while more < 5000 and select.select([], [pipe], [], 1.0)[1]:
                call = {"jsonrpc": "2.0", "id": f"more-{more}", "method": "tools/call", "params": new(1000 + more)}
                with suppress(BlockingIOError):
                    more += os.write(pipe, json.dumps(call).encode() + b"\n") > 0
        assert 0 < more < 2000
        wire.next(id=sent[51], method=NEVER)
        server.process.kill()
    kept = {path.name for path in place.root.glob("project_order-*.md")}
    assert "project_order-50.md" not in kept
    assert "project_order-51.md" in kept


@pytest.mark.skipif(os.name == "nt", reason="there are no such signals")
@pytest.mark.parametrize(("number", "complaint"), [(signal.SIGTERM, ""), (signal.SIGINT, "memsheaf: interrupted\n")])
def test_a_signal_ends_the_server_and_what_was_acknowledged_stays(
    tmp_path: Path, number: signal.Signals, complaint: str
) -> None:
    place = Place(tmp_path)
    with served(place, complaint=complaint, start=subprocess.Popen) as server:
        assert "Memory saved" in server.wire.text("memory_write", **new(1)["arguments"])
        server.process.send_signal(number)
        assert server.process.wait(PATIENCE) in (-number, 128 + number, 0)
    with place.sheaf() as sheaf:
        assert "Parcel 1" in sheaf.read("project_order-1.md").text


def test_a_folder_that_goes_away_ends_no_session(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.save("Kept", "This one stays.")
    with served(place) as server:
        assert "This one stays." in server.wire.text("memory_read", filename="user_kept.md")
        place.root.rename(tmp_path / "away")
        for _ in range(2):
            assert server.wire.text("memory_read", filename="user_kept.md").startswith("Error: ")
            server.wire.call("memory_list")
            server.wire.ask("resources/read", {"uri": "memory://catalog"})
        if not place.root.exists():
            (tmp_path / "away").rename(place.root)
            assert "This one stays." in server.wire.text("memory_read", filename="user_kept.md")


@pytest.mark.skipif(os.name == "nt", reason="a shell of POSIX closes them")
@pytest.mark.parametrize("closed", ["<&-", ">&- </dev/null"])
def test_without_its_streams_it_says_so(tmp_path: Path, closed: str) -> None:
    line = f'exec "{sys.executable}" -m memsheaf mcp {closed}'
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=PATIENCE, check=False)

    assert (done.returncode, done.stderr.splitlines()[0]) == (
        1,
        "memsheaf: there is no stdin or no stdout to talk over",
    )
