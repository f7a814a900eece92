"""Entries of MCP servers in files `mcp.json` of the usual shape."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from ingle.backends.remote.providers import is_loopback

_MOST_BYTES = 2**20
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")


class InvalidMcpConfig(Exception):
    """A file or an entry cannot be used; the message says why."""


class ServerEntry(msgspec.Struct, frozen=True):
    """One server: a program to start, or a URL. Other members of an entry are ignored."""

    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    disabled: bool = False

    @property
    def remote_host(self) -> str:
        """Return the host of a URL on another machine, else an empty text."""
        host = urlsplit(self.url).hostname or "" if self.url else ""
        return "" if is_loopback(host) else host

    @property
    def digest(self) -> str:
        """Return a digest of what is started or asked."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()[:12]

    def shown(self) -> str:
        """Return what is started, for the user; of variables and headers only the names."""
        lines = [self.url or shlex.join([self.command, *self.args])]
        lines += [f"variable {name}" for name in self.env]
        lines += [f"header {name}" for name in self.headers]
        return "\n".join(lines)


class _McpFile(msgspec.Struct):
    servers: dict[str, msgspec.Raw] = msgspec.field(
        name="mcpServers", default_factory=dict[str, msgspec.Raw]
    )


def read_mcp_file(path: Path) -> dict[str, ServerEntry]:
    """Return the entries by name, none if there is no file; raises `InvalidMcpConfig`."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise InvalidMcpConfig(f"{path} is larger than 1 MiB.")
        found = msgspec.json.decode(content, type=_McpFile).servers
        return {name: read_entry(name, msgspec.json.decode(raw)) for name, raw in found.items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InvalidMcpConfig(f"{path} cannot be read: {error.strerror}.") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidMcpConfig(f"{path} is not valid: {error}.") from error


def read_entry(name: str, value: object) -> ServerEntry:
    """Return the entry of a server; raises `InvalidMcpConfig`."""
    try:
        entry = msgspec.convert(value, ServerEntry)
    except msgspec.ValidationError as error:
        raise InvalidMcpConfig(f"The server {name!r} is not valid: {error}.") from error
    if bool(entry.command) == bool(entry.url):
        raise InvalidMcpConfig(f"The server {name!r} needs either a command or a url.")
    try:
        scheme = urlsplit(entry.url).scheme
    except ValueError:
        scheme = "invalid"
    if entry.url and scheme not in ("http", "https"):
        raise InvalidMcpConfig(f"The url of the server {name!r} is not http or https.")
    return entry


def expanded(values: Mapping[str, str]) -> dict[str, str]:
    """Return the values with `${NAME}` replaced from the environment.

    Raises `InvalidMcpConfig` for a variable that is not set.
    """

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name not in os.environ:
            raise InvalidMcpConfig(
                f"The variable {name} is not set. Set it, and start the chat again."
            )
        return os.environ[name]

    return {name: _VARIABLE.sub(value, text) for name, text in values.items()}
