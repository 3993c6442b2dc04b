"""`memsheaf mcp --http` with the official client in both eras: many at once, and nothing acknowledged is lost."""

from __future__ import annotations

import fcntl
import http.client
import json
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.subscriptions import ResourcesListChanged
from mcp.shared.exceptions import MCPError

sys.path.append(str(Path(__file__).parent))
from mcp_server.mcp_peer import PATIENCE, Place, envelope
from mcp_server.mcp_site import ACCEPTED, JSON, Heard, Site, said, site

pytestmark = [
    pytest.mark.anyio,
    # the client's own words about what the modern era has dropped, and what we still test in the older one
    pytest.mark.filterwarnings("ignore:.* is removed as of:mcp.shared.exceptions.MCPDeprecationWarning"),
]

ERAS = ["legacy", "2026-07-28"]
CATALOG = "memory://catalog"
STEPS = 2
Headers = Sequence[tuple[str, str]]
COUNTER = "user_counter.md"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Where the memories of the shared server are."""
    return Place(tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="module")
def server(home: Place) -> Iterator[Site]:
    """A server for tests that need none of their own."""
    home.save("First of all")
    with site(home) as started:
        yield started


def fact(name: str) -> dict[str, str]:
    return {"name": name, "description": f"On {name}", "type": "user", "content": f"The fact that is called {name}."}


def as_file(name: str) -> dict[str, str]:
    """A fact as a file, which is written as it is: to judge its text takes ten times as long."""
    header = f"---\nname: {name}\ndescription: On {name}\ntype: user\n---\n"
    content = f"{header}The fact that is called {name}.\n"
    return {"filename": f"user_{name.lower().replace(' ', '-')}.md", "content": content}


async def write(client: Client, name: str) -> types.CallToolResult:
    return await client.call_tool("memory_write", fact(name))


async def read(client: Client, path: str) -> str:
    return said(await client.call_tool("memory_read", {"filename": path}))


# one client


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_does_all_there_is(server: Site, era: str) -> None:
    name = f"Tabs in {era}"
    path = f"user_tabs-{era}.md"
    async with server.client(era) as client:
        assert (await client.list_tools()).tools[0].name == "memory_view"
        assert said(await write(client, name)) == f"Memory saved: {path}"
        assert f"called {name}" in await read(client, path)
        assert path in said(await client.call_tool("memory_search", {"query": name}))
        listed = [one.uri for one in (await client.list_resources()).resources]
        assert listed[:2] == [CATALOG, "memory://context"]
        assert f"memory://file/{path}" in listed
        assert path in (await client.read_resource(CATALOG)).model_dump_json()
        prompt = await client.get_prompt("remember", {"fact": "Tea at four"})
        assert "Tea at four" in str(prompt.messages[0].content)
        forged = {"host": "claude-code", "hook_event_name": "UserPromptSubmit", "prompt": name, "cwd": "/"}
        assert "there is no tool" in said(await client.call_tool("memory_hook", forged))
        with pytest.raises(MCPError, match="no memory at"):
            await client.read_resource("memory://file/nothing.md")
        missing = await client.call_tool("memory_read", {"filename": "nothing.md"})
        assert missing.is_error
        assert "memory_list" in said(missing)


async def test_what_one_conversation_has_read_another_may_not_replace(server: Site, home: Place) -> None:
    path = home.save("Shell", "Fish, since last spring.")
    async with server.client("legacy") as first, server.client("legacy") as second:
        await read(first, path)
        refused = await write(second, "Shell")
        assert refused.is_error
        assert "Fish, since last spring." in said(refused)
        assert not (await write(first, "Shell")).is_error
        other = {**fact("Shell"), "content": "Zsh, since this morning."}
        assert (await second.call_tool("memory_write", other)).is_error  # it has changed since it was shown


async def test_modern_clients_cannot_be_told_apart_and_replace_nothing_whole(server: Site, home: Place) -> None:
    path = home.save("Editor", "Helix on every machine.")
    async with server.client("2026-07-28") as client:
        await read(client, path)
        for _ in range(2):
            refused = await write(client, "Editor")
            assert refused.is_error
            assert "memory_update" in said(refused)


async def test_a_modern_client_is_told_what_others_change(server: Site, home: Place) -> None:
    async with server.client("2026-07-28") as client, client.listen(resources_list_changed=True) as changes:
        await anyio.to_thread.run_sync(home.save, "Streamed", "Told on a stream that a client opened.")
        with anyio.fail_after(PATIENCE):
            assert isinstance(await anext(aiter(changes)), ResourcesListChanged)


# many at once


async def count(client: Client, steps: int = STEPS) -> None:
    """Add 1 so many times, each time on top of what is there then."""
    for _ in range(steps):
        while True:
            match = re.search(r"The value is (\d+)\.", await read(client, COUNTER))
            assert match
            change = {"old_text": match[0], "new_text": f"The value is {int(match[1]) + 1}."}
            answer = await client.call_tool("memory_update", {"filename": COUNTER} | change)
            if not answer.is_error:
                break
            assert "String not found" in said(answer) or "exists" in said(answer)


async def test_many_clients_of_two_servers_on_one_store_lose_no_update(place: Place) -> None:
    place.save("Counter", "The value is 0.")
    with site(place) as one, site(place) as other:
        assert one.token == other.token
        assert set(one.told) == {"url", "token_file", "token"}  # it was made, and is shown once
        assert set(other.told) == {"url", "token_file"}
        async with anyio.create_task_group() as group:

            async def run(server: Site, number: int) -> None:
                async with server.client(ERAS[number % 2]) as client:
                    await count(client)
                    answer = await client.call_tool("memory_write", as_file(f"Client {number}"))
                    assert said(answer).startswith("Memory saved")

            for number in range(6):
                group.start_soon(run, (one, other)[number // 3], number)
    assert_counted(place, 6 * STEPS)
    assert len(list(place.root.glob("user_client-*.md"))) == 6


def assert_counted(place: Place, total: int) -> None:
    with place.sheaf() as sheaf:
        assert f"The value is {total}." in sheaf.read(COUNTER).text
        commits = [commit for commit in sheaf.log() if commit.revisions[0].path == COUNTER]
    assert len(commits) == total + 1


# raw requests


def call(
    server: Site, tool: str, arguments: object, meta: Mapping[str, object] | None = None, *, headers: Headers = ()
) -> bytes:
    """A whole request of the modern era that calls a tool."""
    params = {"name": tool, "arguments": arguments, "_meta": envelope() | dict(meta or {})}
    body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).encode()
    named = [("Host", server.netloc), server.bearer, ACCEPTED, JSON, ("Content-Length", str(len(body)))]
    named += [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool), *headers]
    return (
        "".join(["POST /mcp HTTP/1.1\r\n", *(f"{key}: {value}\r\n" for key, value in named), "\r\n"]).encode() + body
    )


def answered(server: Site, request: bytes) -> tuple[int, Any]:
    with connect(server) as raw:
        raw.sendall(request)
        answer = http.client.HTTPResponse(raw)
        answer.begin()
        return answer.status, json.loads(answer.read())


def connect(server: Site) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.netloc.rpartition(":")[2])), PATIENCE)


@pytest.mark.parametrize(
    "headers", [[("Mcp-Name", "memory_read")], [("MCP-Protocol-Version", "2025-11-25")], [("Mcp-Method", "ping")]]
)
async def test_a_call_that_contradicts_itself_is_refused(server: Site, headers: list[tuple[str, str]]) -> None:
    status, told = answered(server, call(server, "memory_list", {}, headers=headers))
    assert status == 400
    assert "error" in told


async def test_what_waits_for_its_turn_is_not_done_when_its_client_has_gone(place: Place) -> None:
    place.save("Tabs")
    metas: list[dict[str, object]] = [{}, {"progressToken": 1}]
    with site(place) as server:
        for number, meta in enumerate(metas):
            with locked(place), connect(server) as first:
                first.sendall(call(server, "memory_write", fact(f"First {number}"), meta))
                assert answered(server, call(server, "memory_read", {"filename": "user_tabs.md"}))[0] == 200
                with connect(server) as gone:
                    gone.sendall(call(server, "memory_write", fact(f"Gone {number}"), meta))
                    assert answered(server, call(server, "memory_read", {"filename": "user_tabs.md"}))[0] == 200
                for _ in range(5):
                    assert server.ask("GET", "/health").status == 200
            assert answered(server, call(server, "memory_write", fact(f"Last {number}"), meta))[0] == 200
    assert sorted(path.name for path in place.root.glob("user_*.md")) == [
        "user_first-0.md", "user_first-1.md", "user_last-0.md", "user_last-1.md", "user_tabs.md",
    ]  # fmt: skip


# how it ends


async def keep_writing(
    client: Client, number: int, kept: list[str], refused: list[str], enough: Callable[[], None] = lambda: None
) -> None:
    """Write one memory after the other until the server is gone, and note those that were acknowledged."""
    try:
        for step in range(10_000):
            answer = await client.call_tool("memory_write", as_file(f"Writer {number}x{step}"))
            (refused if answer.is_error else kept).append(f"user_writer-{number}x{step}.md")
            enough()
    except (MCPError, httpx2.HTTPError, anyio.ClosedResourceError, anyio.BrokenResourceError):
        return


async def test_what_was_acknowledged_is_there_when_the_server_is_killed_in_a_write(place: Place) -> None:
    kept, refused = list[str](), list[str]()
    with site(place, quiet=False) as server:

        def enough() -> None:
            if len(kept) == 30:
                server.process.kill()

        async with AsyncExitStack() as stack:
            stack.push(lambda *problem: True)  # a client whose server is gone may leave in a fright
            clients = [await stack.enter_async_context(server.client("2026-07-28")) for _ in range(4)]
            async with anyio.create_task_group() as group:
                for place_in_row, client in enumerate(clients):
                    group.start_soon(keep_writing, client, place_in_row, kept, refused, enough)
        assert server.process.wait(PATIENCE) == -signal.SIGKILL
    assert refused == []
    assert len(kept) >= 30
    with place.sheaf() as sheaf:
        assert set(kept) <= {row.path for row in sheaf.list()}
        assert all("The fact that is called Writer" in sheaf.read(path).text for path in kept)


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_that_runs_is_answered_before_the_server_ends(place: Place, era: str) -> None:
    place.save("Tabs")
    with site(place) as server:
        async with server.client(era) as client:
            answers = list[str]()

            async def call() -> None:
                answers.append(said(await write(client, "Late")))

            async with anyio.create_task_group() as group:
                with locked(place):
                    group.start_soon(call)
                    await begun(server, client)
                    server.process.send_signal(signal.SIGTERM)
                    with anyio.fail_after(PATIENCE):
                        while not await is_closed(server):
                            pass
                # only now can the write be made
            assert answers == ["Memory saved: user_late.md"]
        assert server.process.wait(PATIENCE) == 0
    assert (place.root / "user_late.md").exists()


@contextmanager
def locked(place: Place) -> Iterator[None]:
    """Hold the lock of those who write, as another process would."""
    with open(place.root / ".history" / "lock", "rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


async def begun(server: Site, client: Client) -> None:
    """Wait until the server has taken what was sent before: it takes things in order."""
    for _ in range(3):
        await client.list_tools(cache_mode="bypass")
        await anyio.to_thread.run_sync(lambda: server.ask("GET", "/health"))


async def is_closed(server: Site) -> bool:
    """Whether the server takes no more connections."""
    host, _, port = server.netloc.rpartition(":")
    try:
        stream = await anyio.connect_tcp(host, int(port))
    except OSError:
        return True
    await stream.aclose()
    return False


# sessions and streams, as raw requests


def post(server: Site, message: object, *headers: tuple[str, str]) -> Heard:
    return server.ask(headers=[server.bearer, ACCEPTED, JSON, *headers], body=json.dumps(message).encode())


def ping(number: object = 1) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": "ping"}


async def test_a_session_begins_with_a_greeting_and_a_header_names_it(server: Site) -> None:
    begun = await anyio.to_thread.run_sync(server.greet)
    assert json.loads(begun.body)["result"]["protocolVersion"] == "2025-11-25"
    session = ("Mcp-Session-Id", begun.headers["mcp-session-id"])
    assert json.loads(post(server, ping(), session).body)["result"] == {}
    assert json.loads(post(server, ping(), session, ("MCP-Protocol-Version", "2025-06-18")).body)["result"] == {}
    assert post(server, ping(), session, ("MCP-Protocol-Version", "1999-01-01")).status == 400
    noted = post(server, {"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
    assert (noted.status, noted.body) == (202, b"")
    assert post(server, {"jsonrpc": "2.0", "id": 1, "result": {}}, session).status == 202
    assert post(server, ping()).status == 400
    assert post(server, ping(), ("Mcp-Session-Id", "nothing")).status == 404
    asked = [server.bearer, JSON, session]
    assert server.ask(headers=asked, body=json.dumps(ping()).encode()).status == 406
    assert server.ask("GET", headers=[server.bearer, ("Accept", "application/json"), session]).status == 406
    assert server.ask("GET", headers=[server.bearer, ACCEPTED]).status == 400
    missing = post(server, {"jsonrpc": "2.0", "id": 7, "method": "nothing"}, session)
    assert (missing.status, json.loads(missing.body)["error"]["code"]) == (200, -32601)


async def test_a_session_has_one_stream_which_ends_with_it(server: Site) -> None:
    begun = await anyio.to_thread.run_sync(server.greet)
    session = ("Mcp-Session-Id", begun.headers["mcp-session-id"])
    head = f"GET /mcp HTTP/1.1\r\nHost: {server.netloc}\r\nAuthorization: Bearer {server.token}\r\n"
    head += f"Accept: text/event-stream\r\n{session[0]}: {session[1]}\r\n\r\n"
    with connect(server) as raw:
        raw.sendall(head.encode())
        told = raw.recv(10_000)
        assert b"text/event-stream" in told
        assert server.ask("GET", headers=[server.bearer, ACCEPTED, session]).status == 409
        assert server.ask("DELETE", headers=[server.bearer, session]).status == 200
        assert post(server, ping(), session).status == 404
        while more := raw.recv(10_000):
            told += more
            if told.endswith(b"0\r\n\r\n"):
                break
    assert told.endswith(b"0\r\n\r\n")


async def test_a_modern_request_stands_alone(server: Site) -> None:
    era = ("MCP-Protocol-Version", "2026-07-28")
    for method in ("GET", "DELETE"):
        refused = server.ask(method, headers=[server.bearer, ACCEPTED, era])
        assert (refused.status, refused.headers["allow"]) == (405, "POST")
    assert post(server, {"jsonrpc": "2.0", "method": "notifications/cancelled"}, era).status == 202
    assert post(server, {"jsonrpc": "2.0", "id": 1, "result": {}}, era).status == 400
    asked = {"jsonrpc": "2.0", "id": 1, "method": "nothing", "params": {"_meta": envelope()}}
    assert post(server, asked, era, ("Mcp-Method", "nothing")).status == 404
    assert post(server, asked, era).status == 400  # the header that repeats the method is missing
