"""Server-sent events as a client reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class ServerEvent:
    """One event; `data` has its lines joined, `id` is None where the server sent none."""

    name: str
    data: str
    id: str | None = None


def parse_events(chunks: Iterable[bytes]) -> Iterator[ServerEvent]:
    """Yield each event as soon as its empty line came; a last one without it is dropped.

    Follows the WHATWG description of the format, except that a lone CR does not end a line.
    """
    name, data, last_id = "", list[str](), None
    for line in _lines(chunks):
        if not line:
            if data:
                yield ServerEvent(name or "message", "\n".join(data), last_id)
            name, data = "", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                name = value
            case "data":
                data.append(value)
            case "id":
                last_id = value
            case _:  # a comment keeps the connection alive; unknown fields are ignored
                continue


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    pending = b""
    for chunk in chunks:
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode("utf-8", "replace")
