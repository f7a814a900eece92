"""Parser of server-sent events from an untrusted server: bounded size, strict UTF-8."""

from __future__ import annotations

from .errors import ProviderMisbehaved

LARGEST_EVENT = 4 * 2**20
"""Bytes of one event; a line is never longer."""


class SseReader:
    """Splits the chunks of a body into events: pairs of name and data.

    Lines end with LF, CRLF or CR, https://html.spec.whatwg.org/multipage/server-sent-events.html;
    `id` and `retry` are ignored.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[tuple[str, bytes]]:
        """Return the events that the chunk completes; raises `ProviderMisbehaved`."""
        events: list[tuple[str, bytes]] = []
        text = self._rest + chunk
        # A CR at the end may be half of a CRLF.
        held = b"\r" if text.endswith(b"\r") else b""
        lines = text[: len(text) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *whole, rest = lines.split(b"\n")
        self._rest = rest + held
        if len(self._rest) > LARGEST_EVENT:
            raise _too_large()
        for line in whole:
            if line:
                self._take(line)
            elif (event := self._end()) is not None:
                events.append(event)
        return events

    def end(self) -> list[tuple[str, bytes]]:
        """Return an event that the end of the body completes; some servers omit the empty line."""
        for line in (self._rest.rstrip(b"\r"), b""):
            if line:
                self._take(line)
        event = self._end()
        return [] if event is None else [event]

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._size += len(value) + 1
            if self._size > LARGEST_EVENT:
                raise _too_large()
            self._data.append(value)
        elif name == b"event":
            self._name = value[:100].decode("ascii", "replace")

    def _end(self) -> tuple[str, bytes] | None:
        name, data = self._name, b"\n".join(self._data)
        had_data = bool(self._data)
        self._name, self._data, self._size = "", [], 0
        return (name, data) if had_data else None


def _too_large() -> ProviderMisbehaved:
    return ProviderMisbehaved(f"The provider sent an event of more than {LARGEST_EVENT} bytes.")
