"""Positions of entries in the transcript, while some heights are estimates."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate


class TranscriptLayout:
    """Heights of entries, in lines, and the resulting positions."""

    def __init__(self) -> None:
        self._heights: list[int] = []
        self._exact: list[bool] = []
        # The top of each entry and the end of the last, as far as known.
        self._tops: list[int] = [0]

    def __len__(self) -> int:
        return len(self._heights)

    @property
    def total(self) -> int:
        """Return the total height."""
        return self._positions()[-1]

    def append(self, height: int, *, exact: bool) -> None:
        """Add an entry at the end."""
        self._heights.append(height)
        self._exact.append(exact)

    def remove(self, index: int) -> None:
        """Remove an entry."""
        del self._heights[index]
        del self._exact[index]
        self._changed_from(index)

    def clear(self) -> None:
        """Remove all entries."""
        self.__init__()

    def height(self, index: int) -> int:
        """Return the height of an entry, known or estimated."""
        return self._heights[index]

    def is_exact(self, index: int) -> bool:
        """Return whether the entry's height is known."""
        return self._exact[index]

    def set_exact(self, index: int, height: int) -> int:
        """Set a known height; return its difference from before."""
        change = height - self._heights[index]
        self._exact[index] = True
        if change:
            self._heights[index] = height
            self._changed_from(index)
        return change

    def estimate(self, heights: list[int]) -> None:
        """Replace all heights by estimates."""
        self._heights = heights
        self._exact = [False] * len(heights)
        self._tops = [0]

    def nearest_estimated(self, first: int, last: int, reach: int) -> int | None:
        """Return the entry with an estimated height nearest to those from `first` to `last`.

        At most `reach` entries away; those above come first, since users scroll up.
        """
        for step in range(reach + 1):
            for index in (first - step, last + step):
                if 0 <= index < len(self._exact) and not self._exact[index]:
                    return index
        return None

    def top(self, index: int) -> int:
        """Return the first line of an entry."""
        return self._positions()[index]

    def locate(self, y: int) -> tuple[int, int]:
        """Return the entry at line `y`, and the line within it; `y` is below `total`."""
        positions = self._positions()
        index = bisect_right(positions, y, hi=len(self._heights)) - 1
        return index, y - positions[index]

    def _changed_from(self, index: int) -> None:
        """Invalidate positions after a changed entry: those above stay, so that a growing answer at
        the end of a long chat costs nothing.
        """
        del self._tops[index + 1 :]

    def _positions(self) -> list[int]:
        known = len(self._tops) - 1
        if known < len(self._heights):
            end = self._tops.pop()
            self._tops += accumulate(self._heights[known:], initial=end)
        return self._tops
