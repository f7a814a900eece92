"""`mcp.json`: the MCP servers that the user has added, in the shape that other programs use."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any, cast

import msgspec

from ..chats.command_refused import CommandRefused

SERVERS = "mcpServers"


def entry_of(words: str) -> dict[str, object]:
    """Return the entry of a command line or a URL; raises `CommandRefused`."""
    if words.startswith(("http://", "https://")):
        return {"url": words}
    try:
        command, *arguments = shlex.split(words)
    except ValueError as error:
        raise CommandRefused(f"The command cannot be read: {error}.") from error
    return {"command": command, "args": arguments}


def add_entry(path: Path, name: str, entry: dict[str, object]) -> None:
    """Add a server to the file, or replace the one of this name; raises `CommandRefused`."""
    try:
        content: Any = msgspec.json.decode(path.read_bytes()) if path.exists() else {}
    except (OSError, msgspec.DecodeError) as error:
        raise CommandRefused(f"{path} cannot be read: {error}.", "Mend or move it.") from error
    whole = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
    servers = whole.setdefault(SERVERS, {})
    servers[name] = entry
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    # An entry's environment may hold keys.
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n")
    new.replace(path)
