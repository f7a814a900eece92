"""`mcp.json`: the MCP servers that the user has added, in the shape that other programs use."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import msgspec

from ..chats.command_refused import CommandRefused

FILE = "mcp.json"
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


def server_names(path: Path) -> list[str]:
    """Return the names of the servers in the file; raises `CommandRefused`."""
    return list(_read(path)[SERVERS])


def add_entry(path: Path, name: str, entry: dict[str, object]) -> None:
    """Add a server to the file, or replace the one of this name; raises `CommandRefused`."""
    whole = _read(path)
    whole[SERVERS][name] = entry
    _write(path, whole)


def remove_entry(path: Path, name: str) -> None:
    """Remove a server that is in the file; raises `CommandRefused`."""
    whole = _read(path)
    del whole[SERVERS][name]
    _write(path, whole)


def _read(path: Path) -> dict[str, Any]:
    """Return the file's content, an empty one if there is no file; raises `CommandRefused`."""
    try:
        content = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        msgspec.convert(content.setdefault(SERVERS, {}), dict[str, Any])
    except FileNotFoundError:
        return {SERVERS: {}}
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise CommandRefused(f"{path} cannot be read: {error}.", "Mend or move it.") from error
    return content


def _write(path: Path, whole: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    # An entry's environment may hold keys.
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n")
    new.replace(path)
