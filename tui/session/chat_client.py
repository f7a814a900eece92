"""The client of the daemon whose answers are safe to show on a terminal."""

from __future__ import annotations

from typing import Any

import msgspec

from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.daemon.client.generation_types import ArgumentsEvent, DeltaEvent, ReasoningEvent

from ..text.terminal_safe_text import clean

_MULTILINE = ("message", "hint", "before", "after")
_PIECES = DeltaEvent | ReasoningEvent | ArgumentsEvent


def chat_client(
    socket_path: str | None = None, address: tuple[str, int] | None = None
) -> AsyncDaemonClient:
    """A client that cleans all text of the daemon except answers, which are cleaned later."""
    return AsyncDaemonClient(socket_path, address, clean=clean_answer)


def clean_answer(value: Any) -> Any:
    """`value` without control characters and escape sequences in its strings.

    Line breaks stay in messages, hints and excerpts of prompts only. Text of a generation arrives
    in pieces, of which an escape sequence can span several, so it is not cleaned here.
    """
    if isinstance(value, str):
        return value if value.isprintable() else clean(value).replace("\n", " ")
    if isinstance(value, list | tuple):
        cleaned = [clean_answer(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
        return cleaned if isinstance(value, list) else tuple(cleaned)
    if isinstance(value, dict):
        return {clean_answer(key): clean_answer(each) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, msgspec.Struct) and not isinstance(value, _PIECES):
        for name in value.__struct_fields__:
            field: object = getattr(value, name)
            shown = clean(field) if name in _MULTILINE and isinstance(field, str) else None
            msgspec.structs.force_setattr(value, name, shown or clean_answer(field))
    return value
