"""An MCP server made with the SDK, as many are: `python honest_server.py [PORT]`."""

from __future__ import annotations

import os
import sys

from mcp.server import MCPServer

server = MCPServer("honest")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def environment() -> str:
    """Return the variables of this process."""
    return "\n".join(f"{name}={value}" for name, value in sorted(os.environ.items()))


@server.tool()
def end() -> None:
    """End this process."""
    print("no more room", file=sys.stderr, flush=True)
    os._exit(1)


if len(sys.argv) > 1:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run()
