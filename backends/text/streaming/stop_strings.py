"""Finds stop strings in streamed text."""

from __future__ import annotations

from collections.abc import Sequence


class StopStrings:
    """Holds back text that may begin a stop string, and stops at the first complete one.

    The stop string completed first wins; of several that end with the same character, the one that
    starts first. The result does not depend on chunk borders. Raises `ValueError` for an empty stop
    string.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if not all(stops):
            raise ValueError("a stop string must not be empty")
        self._stops = tuple(stops)
        self._held: str = ""
        self.found: str | None = None
        """The stop string that was found; no text is returned afterwards."""

    @property
    def stopped(self) -> bool:
        """Return whether a stop string was found."""
        return self.found is not None

    def push(self, text: str) -> tuple[str, bool]:
        """Return text that is certainly not part of a stop string, and whether one was hit.

        Text before the stop string is returned, the string itself and what follows never.
        """
        if self.stopped or not self._stops:
            return ("" if self.stopped else text), self.stopped
        text = self._held + text
        found = self._find(text)
        if found is None:
            start = self._first_possible(text)
            self._held = text[start:]
        else:
            start, self.found = found
            self._held = ""
        return text[:start], self.stopped

    def flush(self) -> str:
        """Return the text held back, at the end of the stream."""
        held, self._held = self._held, ""
        return held

    def _find(self, text: str) -> tuple[int, str] | None:
        """Return the start of the stop string completed first, and the string."""
        found: tuple[int, int, str] | None = None
        for stop in self._stops:
            start = text.find(stop)
            if start >= 0 and (found is None or (start + len(stop), start) < found[:2]):
                found = (start + len(stop), start, stop)
        return found[1:] if found is not None else None

    def _first_possible(self, text: str) -> int:
        """Return where the longest suffix of `text` starts that begins a stop string."""
        first = len(text)
        for stop in self._stops:
            start = text.find(stop[0], max(0, len(text) - len(stop) + 1))
            while 0 <= start < first:
                if stop.startswith(text[start:]):
                    first = start
                start = text.find(stop[0], start + 1)
        return first
