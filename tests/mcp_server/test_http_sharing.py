"""The server over HTTP, in this process: who shares what, and one sheaf under many threads."""

from __future__ import annotations

import sys
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
            fact = {"name": "After", "description": "On after", "type": "user", "content": "What came after that."}
            await client.call_tool("memory_write", fact)
            with anyio.fail_after(PATIENCE):
                await came.wait()
    assert set(heard) == {"notifications/resources/list_changed"}
