"""Server-sent events, as the HTML standard parses them, from byte chunks cut anywhere."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from typing import NamedTuple


class ServerSentEvent(NamedTuple):
    """One event; `id` is the last one the stream set, or None while it set none."""

    event: str
    data: str
    id: str | None = None


class ServerSentEventParser:
    """Turns the chunks of one stream into events; the chunk borders make no difference.

    Lines end in LF, CR LF or CR. A CR at the end of a chunk ends its line with the next chunk.
    """

    def __init__(self) -> None:
        text = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._decoder = io.IncrementalNewlineDecoder(text, translate=True)
        self._buffer = ""
        self._event = ""
        self._data: list[str] = []
        self._id: str | None = None

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Yield the events that `chunk` completes."""
        text = self._buffer + self._decoder.decode(chunk)
        *lines, self._buffer = text.split("\n")
        for line in lines:
            event = self._take(line)
            if event is not None:
                yield event

    def _take(self, line: str) -> ServerSentEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
        return None

    def _dispatch(self) -> ServerSentEvent | None:
        data, self._data = self._data, []
        event, self._event = self._event, ""
        if not data:
            return None
        return ServerSentEvent(event or "message", "\n".join(data), self._id)
