"""An empty server on the official SDK: what `import mcp` and its loop cost before anything is done.

python benchmarks/sdk_server.py            # over standard input and output
python benchmarks/sdk_server.py --http     # over HTTP, on any free port, with one tool that does nothing
"""

import sys

from mcp.server.mcpserver import MCPServer


def main() -> None:
    """Serve until the client has gone."""
    server = MCPServer("empty")
    if "--http" in sys.argv:
        server.add_tool(nothing, structured_output=False)
        server.run("streamable-http", port=0)
    else:
        server.run("stdio")


def nothing() -> str:
    """Do nothing."""
    return "nothing"


if __name__ == "__main__":
    main()
