"""One server over HTTP, two clients: what one saves the other is told of at once, and reads.

The memories are in a folder that is thrown away.
Needs: pip install 'memsheaf[mcp]' mcp
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

try:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
except ImportError as error:
    sys.exit(f"this example needs the MCP SDK: pip install 'memsheaf[mcp]' mcp ({error})")

FACT = {
    "name": "Release day",
    "description": "When we ship",
    "type": "project",
    "content": "We ship on Fridays.\n\n**Why:** support is there on Saturdays.\n"
    "**How to apply:** nothing risky on Thursdays.",
}


@contextmanager
def serving() -> Iterator[dict[str, str]]:
    """A server on a free port of this machine: its URL, and the file with the token that opens it."""
    with tempfile.TemporaryDirectory(prefix="memsheaf-example-") as folder:
        places = {f"MEMSHEAF_{name.upper()}": f"{folder}/{name}" for name in ("home", "cache", "state")}
        places["MEMSHEAF_MCP_TOKEN"] = ""  # one of its own, whatever yours is
        words = [sys.executable, "-m", "memsheaf", "mcp", "--http", "--port", "0", "--scope", "user", "--json"]
        with subprocess.Popen(words, env=os.environ | places, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout
            try:
                yield json.loads(server.stdout.readline())
            finally:
                server.terminate()


@asynccontextmanager
async def connected(told: dict[str, str]) -> AsyncIterator[Client]:
    """A client that shows the token."""
    token = Path(told["token_file"]).read_text(encoding="ascii").strip()
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http,
        Client(streamable_http_client(told["url"], http_client=http)) as client,
    ):
        yield client


def said(result: Any) -> str:
    """The text of a tool's answer."""
    text: str = result.content[0].text
    return text


async def converse(told: dict[str, str]) -> None:
    """Save with one client what the other waits for."""
    async with connected(told) as one, connected(told) as other:
        async with other.listen(resources_list_changed=True) as changes:
            print("one saves:   ", said(await one.call_tool("memory_write", FACT)))
            async for change in changes:
                print("other hears: ", type(change).__name__)
                break
        found = await other.call_tool("memory_search", {"query": "When do we ship?"})
        print("other finds: ", said(found))
        await other.call_tool("memory_delete", {"filename": "project_release-day.md"})


if __name__ == "__main__":
    with serving() as where:
        asyncio.run(converse(where))
