"""Write what is made from the tools, the prompts and the table of clients; `make docs` runs it, and tests compare.

`src/memsheaf/mcp/listing.json` is what the server lists, made beforehand so that it starts fast.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memsheaf.hosts.clients import CLIENTS, PATH_VARIABLE, SYSTEMS, TOKEN, describe_client
from memsheaf.mcp.offer import FILE, MARKDOWN, PROMPTS
from memsheaf.prompts import read_prompt
from memsheaf.tools import READING, TOOLS, schema

ROOT = Path(__file__).resolve().parent.parent.parent
LISTING = ROOT / "src" / "memsheaf" / "mcp" / "listing.json"
PAGE = ROOT / "docs" / "mcp-clients.md"

_IDEMPOTENT = ("memory_write", "memory_delete")
_FILE = {"uriTemplate": f"{FILE}{{+path}}", "name": "file", "description": "One memory in full", "mimeType": MARKDOWN}


def listing() -> str:
    """Tools, prompts, resource templates and instructions, as the protocol has them."""
    found = {
        "instructions": read_prompt("mcp").strip("\n"),
        "tools": [_tool(schema(tool)) for tool in TOOLS],
        "resourceTemplates": [_FILE],
        "prompts": [
            {
                "name": name,
                "description": said,
                "arguments": [
                    {"name": argument, "description": meaning, "required": required}
                    for argument, (meaning, required) in arguments.items()
                ],
            }
            for name, (said, arguments) in PROMPTS.items()
        ],
    }
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


def _tool(found: dict[str, Any]) -> dict[str, Any]:
    """One tool, with what a client may show or ask before it is called."""
    name = found["name"]
    hints = {"readOnlyHint": True} if name in READING else {"destructiveHint": False}  # `memsheaf undo` is there
    hints |= {"openWorldHint": False} | ({"idempotentHint": True} if name in _IDEMPOTENT else {})
    takes = found["input_schema"]
    takes = {key: takes[key] for key in ("type", "properties", "required") if takes[key] or key == "properties"}
    return {"name": name, "description": found["description"], "inputSchema": takes, "annotations": hints}


_START = f"""\
# Clients of the MCP server

<!-- Made from the table of clients by `make docs`. -->

How to add memsheaf to each MCP client: the lines for its settings file.

`memsheaf mcp --print-config CLIENT` prints the same with the paths of your machine. Where a settings file lists
servers already, add this one to them. Most clients start the server themselves and use stdio. The HTTP settings are
for a server that is running (`memsheaf mcp --http`). Most clients read the token from the environment variable
`{TOKEN}`: run `export {TOKEN}="$(cat FILE)"` in the shell that starts the client, with the file that the server
prints at start-up.

The settings for Claude Code, Codex, Gemini CLI, Qwen Code, Copilot CLI, opencode, Cline and Continue were tried with
the clients themselves, in November 2026. The others follow the documentation of the clients.

Without `--scope` the server has the memory of the project that it is started in, and yours. A client that does not
start it in the folder of your project, such as Claude Desktop, gets `--scope user`.
"""


def page() -> str:
    """The page of all clients, docs/mcp-clients.md."""
    return "\n".join([_START, *(part for name in CLIENTS for part in _section(name))])


def _shown_file(known: Mapping[str, Any], system: str) -> str:
    """Return where the settings are, as people write it."""
    files = known["files"]
    place = files if isinstance(files, str) else files[SYSTEMS.index(system)]
    place = re.sub(PATH_VARIABLE, lambda found: str(found[2]), place)
    is_path = system == "Windows" and place.startswith("~")
    return "%USERPROFILE%" + place[1:].replace("/", "\\") if is_path else place


def _section(name: str) -> Iterator[str]:
    found = describe_client(name, words=["memsheaf", "mcp"])
    yield f"## {found['title']}\n\n`memsheaf mcp --print-config {name}`\n"
    places = dict.fromkeys(_shown_file(CLIENTS[name], system) for system in SYSTEMS)
    yield f"In {', '.join(f'`{place}`' for place in places)}:\n"
    yield f"```{found['format']}\n{found['config']}\n```\n"
    if not CLIENTS[name]["variable"]:
        yield "Only stdio is described here.\n"
        return
    found = describe_client(name, words=["memsheaf", "mcp"], url="http://127.0.0.1:8377/mcp")
    yield f"Over HTTP: {found['note']}\n\n```{found['format']}\n{found['config']}\n```\n"


if __name__ == "__main__":
    LISTING.write_text(listing(), encoding="utf-8", newline="\n")
    PAGE.write_text(page(), encoding="utf-8", newline="\n")
