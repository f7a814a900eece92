"""Detects the program that wrote an import file, and reads its chats."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec

from ...chats.chat import Chat
from ..database.history_errors import HistoryError
from ..ingle_json import FORMAT, read_ingle_chat
from .imported_chat import ImportedChat, Json, MalformedChat, objects_in
from .json_exports import read_chatgpt, read_claude, read_open_webui
from .terminal_chats import read_terminal_chats

MAX_BYTES = 1 << 30
"""Bytes of unpacked JSON: more than any export has, and less than fills the memory."""
MAX_MEMBERS = 10_000
KNOWN = (
    "Known are ChatGPT's and Claude's conversations.json and their zip, Open WebUI's export, "
    "oterm's store.db, elia's elia.sqlite and ingle's own JSON."
)

Reader = Callable[[Json], ImportedChat | Chat]
Entry = Callable[[], ImportedChat | Chat]


def read_chats(path: Path) -> Iterator[tuple[int, Entry]]:
    """Yield the number of chats (0 if unknown) and a reader for each.

    Raises `HistoryError` if the file is of no known kind; reading one chat raises `MalformedChat`.
    """
    try:
        with path.open("rb") as file:
            head = file.read(16)
        if head.startswith(b"SQLite format 3"):
            for chat in read_terminal_chats(path):
                yield 0, lambda found=chat: found
        elif head.startswith(b"PK\x03\x04"):
            for name, content in _members(path):
                yield from _entries(content, f"{name} in {path.name}")
        elif path.stat().st_size > MAX_BYTES:
            raise _too_large(path.name)
        else:
            yield from _entries(path.read_bytes(), path.name)
    except OSError as error:
        raise HistoryError(f"{path} cannot be read: {error.strerror or error}.") from error
    except MalformedChat as error:
        raise HistoryError(f"{path.name} was not understood: {error}.", KNOWN) from error
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise HistoryError(f"{path.name} cannot be unpacked: {error}.") from error


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the conversation files in an archive, unpacked in memory only."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        if len(names) > MAX_MEMBERS:
            raise HistoryError(f"{path.name} has more than {MAX_MEMBERS} files in it.")
        wanted = [
            name
            for name in names
            if name.rpartition("/")[2].startswith("conversations") and name.endswith(".json")
        ]
        if not wanted:
            raise HistoryError(f"{path.name} has no conversations.json in it.", KNOWN)
        left = MAX_BYTES
        for name in wanted:
            with archive.open(name) as member:
                # The sizes stated in the archive may be false.
                content = member.read(left + 1)
            left -= len(content)
            if left < 0:
                raise _too_large(path.name)
            yield name, content


def _too_large(name: str) -> HistoryError:
    return HistoryError(f"{name} holds more than 1 GiB of text, which no export does.")


def _entries(content: bytes, name: str) -> Iterator[tuple[int, Entry]]:
    try:
        parsed = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HistoryError(f"{name} is not JSON: {error}.", KNOWN) from error
    entries = _listed(parsed)
    if not entries:
        raise HistoryError(f"{name} has no chats in it.", KNOWN)
    readers = [_reader(entry) for entry in entries]
    if not any(readers):
        raise HistoryError(f"{name} is not an export of a known program.", KNOWN)
    for entry, reader in zip(entries, readers, strict=True):
        yield len(entries), partial(reader or _unknown, entry)


def _listed(parsed: Any) -> list[Json]:
    """Return the chats in a list, in an object's list of conversations, or alone."""
    if not isinstance(parsed, dict):
        return objects_in({"conversations": parsed}, "conversations")
    inner = cast("Json", parsed)
    listed = isinstance(inner.get("conversations"), list)
    return objects_in(inner, "conversations") if listed else [inner]


def _reader(entry: Json) -> Reader | None:
    if entry.get("format") == FORMAT:
        return read_ingle_chat
    if "mapping" in entry:
        return read_chatgpt
    if "chat_messages" in entry:
        return read_claude
    if isinstance(entry.get("chat"), dict):
        return read_open_webui
    return None


def _unknown(entry: Json) -> Chat:
    raise MalformedChat("an entry is not a chat")
