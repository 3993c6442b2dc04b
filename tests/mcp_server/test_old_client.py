"""The official Python client as it was in March 2025, which blocks on notifications that nobody reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cases import give_up

sys.path.append(str(Path(__file__).parent))
from mcp_server.mcp_peer import Place

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ["mcp==1.5.0", "pydantic<2.11"]
CLIENT = """
import asyncio, json, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:], env=json.loads(sys.stdin.read()))
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        told = await session.initialize()
        for number in range(5):
            fact = {"name": f"House {number}", "description": "Where", "content": f"Number {number} is red."}
            await session.call_tool("memory_write", fact | {"type": "user"})
        found = await session.call_tool("memory_list", {})
        print(json.dumps([len(told.instructions or ""), found.content[0].text]))

asyncio.run(asyncio.wait_for(main(), 60))
"""


@pytest.mark.long
def test_an_old_client_is_not_blocked_by_what_it_did_not_ask_for(tmp_path: Path) -> None:
    python = ROOT / ".cache" / "python" / "mcp-1.5.0" / "bin" / "python"
    if not (python.parent.parent / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", python.parent.parent], check=True)
        if subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=False).returncode:
            give_up("pip cannot install mcp 1.5.0")
        (python.parent.parent / "ready").touch()
    place = Place(tmp_path)
    done = subprocess.run(
        [python, "-c", CLIENT, *place.words()],
        input=json.dumps(place.environment | {"PATH": os.environ["PATH"]}),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    instructions, listed = json.loads(done.stdout)
    assert instructions > 100
    assert listed.count("\n") == 4
