"""Server-sent events, as the HTML standard parses them, from byte chunks cut anywhere."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event; `id` is the last one the stream set, or None while it set none."""

    event: str
    data: str
    id: str | None = None


class ServerSentEventParser:
    """Turns the chunks of one stream into events; the chunk borders make no difference."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._buffer = ""
        self._skip_newline = False
        self._at_start = True
        self._event = ""
        self._data: list[str] = []
        self._id: str | None = None

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Yield the events that `chunk` completes."""
        text = self._decoder.decode(chunk)
        if self._at_start and text:
            text = text.removeprefix("\ufeff")
            self._at_start = False
        for line in self._lines(text):
            event = self._take(line)
            if event is not None:
                yield event

    def _lines(self, text: str) -> Iterator[str]:
        """Complete lines; they end in LF, CR LF or CR, and a CR may be the last of its chunk."""
        if self._skip_newline and text:
            text = text.removeprefix("\n")
            self._skip_newline = False
        buffer = self._buffer + text
        start = 0
        while (end := _line_end(buffer, start)) >= 0:
            yield buffer[start:end]
            start = end + 1
            if buffer[end] == "\r":
                if start == len(buffer):
                    self._skip_newline = True
                elif buffer[start] == "\n":
                    start += 1
        self._buffer = buffer[start:]

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


def _line_end(text: str, start: int) -> int:
    newline = text.find("\n", start)
    carriage_return = text.find("\r", start, newline if newline >= 0 else len(text))
    return newline if carriage_return < 0 else carriage_return
