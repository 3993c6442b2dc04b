"""The least that an MCP server can be: a loop over lines, with `json` and `sys` and nothing to do."""

import json
import sys

TOOL = {"name": "nothing", "description": "Do nothing.", "inputSchema": {"type": "object"}}
ANSWERS = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "bare", "version": "1"},
    },
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": [{"type": "text", "text": "nothing"}]},
}


def main() -> None:
    """Answer each request on a line of its own, until there are no more."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            answer = {"jsonrpc": "2.0", "id": request["id"], "result": ANSWERS[request["method"]]}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
