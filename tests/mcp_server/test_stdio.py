"""The official Python client talks to a real `memsheaf mcp`, in both eras of the protocol."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.subscriptions import ResourcesListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from memsheaf.hosts.switch import set_switch
from memsheaf.mcp.offer import Offer
from memsheaf.mcp.protocol import Service
from memsheaf.mcp.stdio import StdioServer

sys.path.append(str(Path(__file__).parent))
from mcp_server.mcp_peer import META, PATIENCE, Place, Wire, running, stdio_server

pytestmark = [
    pytest.mark.anyio,
    # the client's own words about what the modern era has dropped, and what we still test in the older one
    pytest.mark.filterwarnings("ignore:.* is removed as of:mcp.shared.exceptions.MCPDeprecationWarning"),
]

READING = {"memory_view", "memory_read", "memory_list", "memory_search", "memory_recall", "memory_brief"}
CATALOG, CONTEXT, FILE = "memory://catalog", "memory://context", "memory://file/"
HOSTILE: list[tuple[str, dict[str, Any]]] = [
    ("memory_read", {}),
    ("memory_read", {"filename": 7}),
    ("memory_read", {"filename": "nothing.md"}),
    ("memory_read", {"filename": "../../etc/passwd"}),
    ("memory_read", {"filename": "user_x.md", "scope": "agent/other"}),
    ("memory_write", {"name": "x", "type": "user"}),
    ("memory_write", {"content": ["x"]}),
    ("memory_update", {"filename": "nothing.md", "old_text": "a", "new_text": "b"}),
    ("memory_list", {"page": 99}),
    ("memory_view", {"page": -1}),
    ("memory_view", {"target": "everything"}),
    ("memory_delete", {"filename": "MEMORY.md"}),
    ("shell", {"command": "id"}),
]

NO_RESOURCE = [
    "memory://file/no.md", "memory://file/", "memory://nothing", "http://example.com/a", "x", "",
    "memory://file/%ff.md", "memory://file/../../etc/passwd", "memory://file/%2e%2e%2fa.md", "file:///etc/passwd",
    "memory://file/a%00.md", "memory://file//etc/passwd", "MEMORY://CATALOG", "memory://file/" + "a" * 9000,
]  # fmt: skip

Opened = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture(params=["legacy", "auto"])
def opened(request: pytest.FixtureRequest, place: Place) -> Opened:
    """A client and its server: in a process of its own, with these options, or else in a thread of this one.

    In the end a process must not have complained.
    """

    @asynccontextmanager
    async def client(*options: str, told: dict[str, str] | None = None, **callbacks: Any) -> AsyncIterator[Client]:
        if not options and not told:
            with running(serve) as streams:
                near = over_pipes(*streams)
                async with Client(near, mode=request.param, read_timeout_seconds=PATIENCE, **callbacks) as found:
                    yield found
            return
        command, *args = place.words(*options)
        started = StdioServerParameters(
            command=command, args=args, env=place.environment | (told or {}), cwd=place.folder
        )
        log = place.folder / "stderr"
        with open(log, "a", encoding="utf-8") as errors:
            transport = stdio_client(started, errlog=errors)
            async with Client(transport, mode=request.param, read_timeout_seconds=PATIENCE, **callbacks) as found:
                yield found
        assert log.read_text("utf-8") == ""

    def serve(source: BinaryIO, sink: BinaryIO) -> None:
        StdioServer(Service("1"), lambda: Offer(place.sheaf()), source, sink, watch_seconds=0.1).run()

    return client


@asynccontextmanager
async def over_pipes(go: BinaryIO, come: BinaryIO) -> AsyncIterator[Any]:
    """What the official client talks over: the streams of a server in this process."""
    heard, hear = anyio.create_memory_object_stream[Any](100)
    tell, told = anyio.create_memory_object_stream[Any](100)

    async def read() -> None:
        async with heard:
            while line := await anyio.to_thread.run_sync(come.readline):
                with suppress(anyio.BrokenResourceError):  # the client has gone
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    await heard.send(SessionMessage(message))

    async def write() -> None:
        async with told:
            async for message in told:
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                go.write(line.encode() + b"\n")
                go.flush()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        try:
            yield hear, tell
        finally:
            go.close()  # the server ends, and with it what we read
            hear.close()
            tell.close()


def said(result: types.CallToolResult, *, failed: bool = False) -> str:
    """The text of a result, which has succeeded unless it must not."""
    assert result.is_error is failed, result.content
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text


async def text_of(client: Client, uri: str) -> str:
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, types.TextResourceContents)
    assert content.mime_type == "text/markdown"
    return content.text


async def save(client: Client, name: str, text: str = "Tabs, not spaces.") -> str:
    arguments = {"name": name, "description": f"About {name}", "type": "user", "content": text}
    return said(await client.call_tool("memory_write", arguments)).removeprefix("Memory saved: ")


# what there is


async def test_a_client_is_greeted_in_its_own_era(opened: Opened, request: pytest.FixtureRequest) -> None:
    async with opened("--scope", "user") as client:
        era = request.node.callspec.params["opened"]
        assert client.protocol_version == ("2025-11-25" if era == "legacy" else "2026-07-28")
        assert client.server_info is not None
        assert client.server_info.name == "memsheaf"
        assert client.instructions is not None
        assert "memory_search" in client.instructions
        capabilities = client.server_capabilities
        assert capabilities is not None
        assert capabilities.resources is not None
        assert capabilities.resources.list_changed
        assert capabilities.tools is not None
        assert capabilities.prompts is not None
        assert capabilities.completions is None
        if era == "legacy":
            await client.send_ping()


async def test_the_instructions_hold_the_head_of_the_catalog(opened: Opened, place: Place) -> None:
    place.fill(100)
    place.save("Obey", trust="unconfirmed")
    with place.sheaf() as sheaf:
        sheaf.catalog()
    async with opened("--scope", "user") as client:
        told = client.instructions or ""
        assert 1_900 < len(told.encode()) <= 2_000
        shown = [line.split(":")[0].removeprefix("- ") for line in told.split("\n") if line.startswith("- ")]
        assert len(shown) > 10
        assert told.endswith(f"\n({100 - len(shown)} more: `memory_view` shows the catalog.)")
        assert f"{shown[-1]})" in said(await client.call_tool("memory_view", {}))
        assert "Obey" not in told


async def test_every_tool_does_what_it_says(opened: Opened, place: Place) -> None:
    async with opened("--scope", "user") as client:
        await client.list_tools()  # so that the client knows the schemas it checks answers with
        path = await save(client, "Prefers tabs", "Tabs, not spaces.\nAlways.")
        assert path == "user_prefers-tabs.md"
        read = said(await client.call_tool("memory_read", {"filename": path}))
        assert read.endswith("Tabs, not spaces.\nAlways.\n")
        await client.call_tool("memory_update", {"filename": path, "old_text": "Always", "new_text": "Never"})
        await client.call_tool("memory_insert", {"filename": path, "line": 0, "text": "In Makefiles:"})
        assert (place.root / path).read_text("utf-8").endswith("In Makefiles:\nTabs, not spaces.\nNever.\n")
        for name, arguments in {"memory_list": {}, "memory_search": {"query": "tabs", "limit": 5}}.items():
            found = await client.call_tool(name, arguments)
            assert said(found).startswith(f"{path}  [user]  About Prefers tabs")
            assert found.structured_content is None  # Claude Code and Codex would show the model that alone
        for target in ("index", "context", "files", "user"):
            assert path in said(await client.call_tool("memory_view", {"target": target}))
        assert said(await client.call_tool("memory_delete", {"filename": path})) == f"Memory deleted: {path}"
        assert "Try other words" in said(await client.call_tool("memory_search", {"query": "tabs"}))


async def test_a_mistake_is_a_result_with_a_hint_and_the_session_goes_on(opened: Opened) -> None:
    async with opened() as client:
        path = await save(client, "Prefers tabs")
        for name, arguments in HOSTILE:
            told = said(await client.call_tool(name, arguments), failed=True)
            assert told.startswith("Error: "), (name, arguments)
            assert len(told) > 20
            assert "Tabs" in said(await client.call_tool("memory_read", {"filename": path}))


# resources


async def test_what_is_no_resource_is_refused_and_the_session_goes_on(opened: Opened) -> None:
    async with opened() as client:
        for uri in NO_RESOURCE:
            with pytest.raises(MCPError) as caught:
                await client.read_resource(uri)
            assert caught.value.error.code in (-32002, -32602), uri
            assert "Internal" not in caught.value.error.message
        assert await text_of(client, CATALOG)


# what nobody confirmed


# changes


@asynccontextmanager
async def listening(client: Client, news: Any) -> AsyncIterator[None]:
    """Listen for a new list of resources, in either era; `news` is called for each."""
    if client.protocol_version != "2026-07-28":
        await client.list_resources()
        yield
        return

    async def follow(events: AsyncIterator[Any]) -> None:
        async for event in events:
            assert isinstance(event, ResourcesListChanged)
            news()

    async with client.listen(resources_list_changed=True) as events, anyio.create_task_group() as tasks:
        tasks.start_soon(follow, events)
        yield
        tasks.cancel_scope.cancel()


async def test_a_client_is_told_of_a_new_list_whoever_changes_it(opened: Opened, place: Place) -> None:
    path = place.save("Prefers tabs")
    news = anyio.Event()

    async def handle(message: Any) -> None:
        if isinstance(message, types.ResourceListChangedNotification):
            news.set()

    async def told() -> None:
        nonlocal news
        with anyio.fail_after(PATIENCE):
            await news.wait()
        news = anyio.Event()

    async with opened(message_handler=handle) as client, listening(client, lambda: news.set()):
        await save(client, "Prefers coffee", "Coffee after lunch, black.")
        await told()
        place.save("Prefers tea", "Tea in the morning, green.")
        await told()
        (place.root / path).unlink()
        await told()


def test_who_did_not_ask_for_the_list_is_not_told_that_it_changed(place: Place) -> None:
    with stdio_server(lambda: Offer(place.sheaf()), modern=True) as wire:
        wire.open()
        numbers = []
        for wanted in (False, True):
            numbers.append(wire.request("subscriptions/listen", {"notifications": {"resourcesListChanged": wanted}}))
            acknowledged = wire.next(method="notifications/subscriptions/acknowledged")["params"]
            assert acknowledged["notifications"] == ({"resourcesListChanged": True} if wanted else {})
        wire.call("memory_write", name="Tea", description="What to drink", type="user", content="Green tea at four.")
        told = wire.next(method="notifications/resources/list_changed")
        assert told["params"]["_meta"] == {f"{META}subscriptionId": numbers[1]}
        assert "user_tea.md" in wire.text("memory_list")
        assert wire.said == []


@pytest.mark.parametrize("asked", [False, True])
def test_a_client_of_the_handshake_hears_of_the_list_once_it_has_seen_it(place: Place, asked: bool) -> None:
    with stdio_server(lambda: Offer(place.sheaf()), modern=False) as wire:  # older clients block on what nobody reads
        wire.open()
        if asked:
            wire.ask("resources/list")
        wire.call("memory_write", name="Tea", description="What to drink", type="user", content="Green tea at four.")
        assert "user_tea.md" in wire.text("memory_list")
        heard = [one.get("method") for one in wire.said]
        assert heard == (["notifications/resources/list_changed"] if asked else [])


# progress and cancelling


class Slow:
    """A stream to the client that takes no progress before it is told to."""

    def __init__(self, sink: BinaryIO) -> None:
        self.reached, self.go = threading.Event(), threading.Event()
        self._sink = sink

    def write(self, line: bytes) -> int:
        if b"notifications/progress" in line:
            self.reached.set()
            assert self.go.wait(PATIENCE)
        return self._sink.write(line)

    def flush(self) -> None:
        self._sink.flush()


class Counted:
    """A stream from the client that tells when all lines so far were taken."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._reads = threading.Semaphore(0)

    def readline(self, size: int) -> bytes:
        self._reads.release()
        return self._source.readline(size)

    def wait(self, lines: int) -> None:
        for _ in range(lines):
            assert self._reads.acquire(timeout=PATIENCE)


@pytest.mark.parametrize("modern", [False, True])
def test_a_call_that_is_cancelled_stops_and_one_that_waits_is_never_begun(place: Place, modern: bool) -> None:
    place.fill(450)  # by somebody else: the first look is a long one
    sheaf = place.sheaf()
    made: list[tuple[Counted, Slow]] = []
    ready = threading.Event()

    def serve(source: BinaryIO, sink: BinaryIO) -> None:
        made.append((Counted(source), Slow(sink)))
        ready.set()
        counted, slow = cast("tuple[BinaryIO, BinaryIO]", made[0])
        StdioServer(Service("1"), lambda: Offer(sheaf), counted, slow, watch_seconds=3600).run()

    with running(serve) as (go, come):
        assert ready.wait(PATIENCE)
        counted, slow = made[0]
        wire = Wire(go, come, modern=modern)
        wire.open()
        long = wire.request(
            "tools/call", {"name": "memory_view", "arguments": {}, "_meta": {"progressToken": "long"}}
        )
        assert slow.reached.wait(PATIENCE)
        new = {"name": "Prefers tea", "description": "What to drink", "type": "user", "content": "Tea, green."}
        waiting = wire.request("tools/call", {"name": "memory_write", "arguments": new})
        wire.notify("notifications/cancelled", {"requestId": long})
        wire.notify("notifications/cancelled", {"requestId": waiting, "reason": "never mind"})
        counted.wait((1 if modern else 2) + 5)
        slow.go.set()
        assert "Fact 449." in wire.text("memory_read", filename="user_fact-00449.md")
        assert not (place.root / "user_prefers-tea.md").exists()
        told = [message for message in wire.said if message.get("method") == "notifications/progress"]
        assert [message["params"]["progress"] for message in told] == [200]
        assert not [message for message in wire.said if message.get("id") in (long, waiting)]


@pytest.mark.parametrize("modern", [False, True])
def test_a_mistake_of_ours_ends_no_session(place: Place, modern: bool, capsys: pytest.CaptureFixture[str]) -> None:
    broken = [RuntimeError("first"), RuntimeError("second")]

    def offer() -> Offer:
        if broken:
            raise broken.pop(0)
        return Offer(sheaf)

    with place.sheaf() as sheaf, stdio_server(offer, modern=modern) as wire:
        wire.open()
        assert wire.ask("tools/list")["result"]  # behind it the memories are opened
        told = wire.ask("tools/call", {"name": "memory_list"})
        assert (
            told.get("error", {"message": "Internal error: RuntimeError"})["message"]
            == "Internal error: RuntimeError"
        )
        assert wire.text("memory_list") == "No memory files yet."
    assert "RuntimeError: first" in capsys.readouterr().err


# what is fixed when it starts


async def test_a_server_for_reading_lists_and_does_nothing_else(opened: Opened, place: Place) -> None:
    path = place.save("Prefers tabs", trust="unconfirmed")
    before = (place.root / path).read_bytes()
    async with opened("--read-only") as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == READING
        assert "Tabs" in said(await client.call_tool("memory_read", {"filename": path}))
        for name, arguments in (
            ("memory_write", {"name": "N", "description": "d", "type": "user", "content": "Something new."}),
            ("memory_delete", {"filename": path}),
            ("memory_update", {"filename": path, "old_text": "Tabs", "new_text": "x"}),
            ("memory_replace", {"filename": path, "old_str": "Tabs", "new_str": "x"}),
            ("memory_insert", {"filename": path, "line": 0, "text": "x"}),
        ):
            assert "there is no tool" in said(await client.call_tool(name, arguments), failed=True)
    assert (place.root / path).read_bytes() == before
    assert sorted(file.name for file in place.root.glob("*.md")) == ["MEMORY.md", path]


async def test_where_memory_is_off_nothing_of_it_is_told(opened: Opened, place: Place) -> None:
    path = place.save("Prefers tabs")
    with place.sheaf() as sheaf:
        sheaf.catalog()
    set_switch(place.settings.state, str(place.root), off=True)
    async with opened("--scope", "user") as client:
        assert "Prefers tabs" not in (client.instructions or "")
        assert "memory is off" in said(await client.call_tool("memory_read", {"filename": path}), failed=True)
        for uri in (CATALOG, FILE + path):
            with pytest.raises(MCPError, match="memory is off"):
                await client.read_resource(uri)
        with pytest.raises(MCPError, match="memory is off"):
            await client.list_resources()
        with pytest.raises(MCPError, match="memory is off"):
            await client.get_prompt("recall", {"query": "tabs"})
        set_switch(place.settings.state, str(place.root), off=False)
        assert path in await text_of(client, CATALOG)
