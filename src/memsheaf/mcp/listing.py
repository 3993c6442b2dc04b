"""The lists of tools, prompts and resource templates, cached as JSON for a fast start.

`python -m memsheaf.mcp.listing` makes it anew from the tools and prompts; a test compares.
"""

from __future__ import annotations

import json
import os

from memsheaf.mcp.protocol import STRUCTURED

# Known to type checkers under this name, so that a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Described = dict[str, Any]

_PLACE = os.path.join(os.path.dirname(__file__), "listing.json")
_MEMORIES = {"type": "object", "properties": {"memories": {"type": "array"}}}
IDEMPOTENT = ("memory_write", "memory_delete")
ADDING = ("memory_insert",)


def listed(*, reading: bool = False, tools: bool = True) -> Described:
    """Tools, prompts, templates and instructions, as the protocol has them; tools for `reading` only, or none."""
    with open(_PLACE, encoding="utf-8") as file:
        found: Described = json.load(file)
    if reading or not tools:
        found["tools"] = [one for one in found["tools"] if tools and one["annotations"]["readOnlyHint"]]
    return found


def made() -> Described:
    """The same, made anew."""
    from memsheaf.mcp.offer import FILE, MARKDOWN, PROMPTS
    from memsheaf.prompts import read_prompt
    from memsheaf.tool_schema import schema
    from memsheaf.tools import TOOLS

    return {
        "instructions": read_prompt("mcp").strip("\n"),
        "tools": [_tool(schema(tool)) for tool in TOOLS],
        "resourceTemplates": [
            {
                "uriTemplate": f"{FILE}{{+path}}",
                "name": "file",
                "description": "One memory in full",
                "mimeType": MARKDOWN,
            }
        ],
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


def _tool(found: Described) -> Described:
    """One tool, with what a client may show or ask before it is called."""
    from memsheaf.tools import READING

    name = found["name"]
    hints: Described = {"readOnlyHint": name in READING}
    if name not in READING:
        hints |= {"destructiveHint": name not in ADDING, "idempotentHint": name in IDEMPOTENT}
    takes = {key: value for key, value in found["input_schema"].items() if value and key != "additionalProperties"}
    tool = {"name": name, "description": found["description"], "inputSchema": takes, "annotations": hints}
    return tool | ({"outputSchema": _MEMORIES} if name in STRUCTURED else {})


def main() -> None:
    """Write the file anew."""
    with open(_PLACE, "w", encoding="utf-8", newline="\n") as file:
        json.dump(made(), file, ensure_ascii=False, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
