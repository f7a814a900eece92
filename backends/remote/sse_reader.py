"""Parser of server-sent events from an untrusted server: bounded size, strict UTF-8."""

from __future__ import annotations

from .errors import ProviderMisbehaved

LARGEST_EVENT = 4 * 2**20
"""Bytes of one event; a line is never longer."""


class SseReader:
    """Splits the chunks of a body into the data of its events.

    Lines end with LF, CRLF or CR, https://html.spec.whatwg.org/multipage/server-sent-events.html;
    `event`, `id` and `retry` are ignored, since the data of every provider names its type.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of the events that the chunk completes; raises `ProviderMisbehaved`."""
        events: list[bytes] = []
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
            else:
                events += self._end()
        return events

    def end(self) -> list[bytes]:
        """Return an event that the end of the body completes; some servers omit the empty line."""
        if line := self._rest.rstrip(b"\r"):
            self._take(line)
        return self._end()

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._size += len(value) + 1
            if self._size > LARGEST_EVENT:
                raise _too_large()
            self._data.append(value)

    def _end(self) -> list[bytes]:
        """Return the data of the event that ends here, unless it has none."""
        lines, self._data, self._size = self._data, [], 0
        return [b"\n".join(lines)] if lines else []


def _too_large() -> ProviderMisbehaved:
    return ProviderMisbehaved(f"The provider sent an event of more than {LARGEST_EVENT} bytes.")
