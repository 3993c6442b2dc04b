"""The server over HTTP, in this process: who shares what, and one sheaf under many threads."""

from __future__ import annotations

import gc
import sys
import weakref
from pathlib import Path

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from memsheaf.errors import Busy
from memsheaf.mcp.offer import Offer

sys.path.append(str(Path(__file__).parent))
from mcp_server.mcp_peer import PATIENCE, Place
from mcp_server.mcp_site import http_server, said

pytestmark = pytest.mark.anyio

ERAS = ["legacy", "2026-07-28"]


async def test_what_a_conversation_was_offered_goes_with_it(place: Place) -> None:
    with place.sheaf() as sheaf:
        given = list[weakref.ref[Offer]]()

        def opened(alone: bool) -> Offer:
            offer = Offer(sheaf, remember=alone)
            if alone:
                given.append(weakref.ref(offer))
            return offer

        with http_server(opened) as client_of:
            for _ in range(3):
                async with client_of("legacy") as client:
                    assert said(await client.call_tool("memory_list", {})) == "No memory files yet."
        gc.collect()
        assert len(given) == 3
        assert [one() for one in given] == [None] * 3


async def test_modern_requests_share_what_they_are_offered(place: Place) -> None:
    with place.sheaf() as sheaf:
        given = list[bool]()

        def opened(alone: bool) -> Offer:
            given.append(alone)
            return Offer(sheaf, remember=alone)

        with http_server(opened) as client_of:
            async with client_of("2026-07-28") as first, client_of("2026-07-28") as second:
                for client in (first, second, first):
                    await client.call_tool("memory_list", {})
        assert given == [False]


@pytest.mark.parametrize("era", ERAS)
async def test_memories_that_cannot_be_opened_are_told_of_until_they_can(place: Place, era: str) -> None:
    with place.sheaf() as sheaf:
        is_busy = True

        def opened(alone: bool) -> Offer:
            if is_busy:
                raise Busy("another process holds the lock")
            return Offer(sheaf, remember=alone)

        with http_server(opened) as client_of:
            async with client_of(era) as client:
                assert (await client.list_tools()).tools
                refused = await client.call_tool("memory_list", {})
                assert refused.is_error
                assert "Try again in a moment" in said(refused)
                with pytest.raises(MCPError, match="Try again in a moment"):
                    await client.list_resources()
                is_busy = False
                assert said(await client.call_tool("memory_list", {})) == "No memory files yet."


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.filterwarnings("ignore:.* is removed as of:mcp.shared.exceptions.MCPDeprecationWarning")
async def test_a_mistake_of_ours_is_named_and_not_shown(
    place: Place, era: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def opened(alone: bool) -> Offer:
        raise RuntimeError("the plan is to plant a plum tree")

    with http_server(opened) as client_of:
        async with client_of(era) as client:
            with pytest.raises(MCPError) as caught:
                await client.call_tool("memory_list", {})
            assert str(caught.value) == "Internal error: RuntimeError"
            assert (await client.list_tools()).tools
    assert "plum tree" in capsys.readouterr().err  # whoever runs the server wants to know


async def test_a_look_that_fails_does_not_end_the_server(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    told = ""
    with place.sheaf() as sheaf:

        def opened(alone: bool) -> Offer:
            if alone:
                return Offer(sheaf)
            raise RuntimeError("nothing to look with")

        with http_server(opened, watch=0.01) as client_of:
            async with client_of("legacy") as client:
                with anyio.fail_after(PATIENCE):
                    while told.count("RuntimeError") < 5:
                        assert (await client.list_tools(cache_mode="bypass")).tools
                        told += capsys.readouterr().err
                assert said(await client.call_tool("memory_list", {})) == "No memory files yet."


async def test_nobody_is_told_of_what_was_there_before(place: Place) -> None:
    place.save("Before")
    heard = list[str]()
    came = anyio.Event()

    async def hear(message: object) -> None:
        heard.append(str(getattr(message, "method", message)))
        came.set()

    with place.sheaf() as sheaf, http_server(lambda alone: Offer(sheaf, remember=alone), watch=0.01) as client_of:
        async with client_of("legacy", message_handler=hear) as client:
            await client.list_resources()
            for _ in range(20):  # many looks, and nothing new
                await client.call_tool("memory_view", {})
            assert heard == []
            fact = {
                "name": "After",
                "description": "On after",
                "type": "user",
                "content": "What came after that.",
            }
            await client.call_tool("memory_write", fact)
            with anyio.fail_after(PATIENCE):
                await came.wait()
    assert set(heard) == {"notifications/resources/list_changed"}
