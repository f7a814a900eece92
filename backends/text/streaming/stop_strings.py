"""Finds stop strings in text that arrives in pieces."""

from __future__ import annotations

from collections.abc import Sequence


class StopStrings:
    """Holds back text that may be the beginning of a stop string, and ends at the first whole one.

    The stop string that is complete first wins, so that generation ends there; of several that end
    with the same character, the one that starts first. The outcome does not depend on how the text
    is cut into pieces. Raises `ValueError` for an empty stop string.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if not all(stops):
            raise ValueError("a stop string must not be empty")
        self._stops = tuple(stops)
        self._held: str = ""
        self.found: str | None = None
        """The stop string that was found; nothing more comes out then."""

    @property
    def stopped(self) -> bool:
        """Whether a stop string was found."""
        return self.found is not None

    def push(self, text: str) -> tuple[str, bool]:
        """The text that is certainly not part of a stop string, and whether one was hit.

        What precedes the stop string is given out, the string itself and what follows never.
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
        """The text held back, now that no more follows."""
        held, self._held = self._held, ""
        return held

    def _find(self, text: str) -> tuple[int, str] | None:
        """Where the stop string that is complete first starts, and which it is."""
        found: tuple[int, int, str] | None = None
        for stop in self._stops:
            start = text.find(stop)
            if start >= 0 and (found is None or (start + len(stop), start) < found[:2]):
                found = (start + len(stop), start, stop)
        return found[1:] if found is not None else None

    def _first_possible(self, text: str) -> int:
        """Where the longest end of `text` starts with which a stop string begins."""
        first = len(text)
        for stop in self._stops:
            start = text.find(stop[0], max(0, len(text) - len(stop) + 1))
            while 0 <= start < first:
                if stop.startswith(text[start:]):
                    first = start
                start = text.find(stop[0], start + 1)
        return first
