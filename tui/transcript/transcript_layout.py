"""`TranscriptLayout`: where each entry lies, while some heights are only guessed."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate


class TranscriptLayout:
    """Heights of entries, in lines, and the positions that follow from them."""

    def __init__(self) -> None:
        self._heights: list[int] = []
        self._exact: list[bool] = []
        self._tops: list[int] | None = None

    def __len__(self) -> int:
        return len(self._heights)

    @property
    def total(self) -> int:
        """The height of everything."""
        return self._positions()[-1]

    def append(self, height: int, *, exact: bool) -> None:
        """Add an entry at the end."""
        self._heights.append(height)
        self._exact.append(exact)
        self._tops = None

    def remove(self, index: int) -> None:
        """Remove an entry."""
        del self._heights[index]
        del self._exact[index]
        self._tops = None

    def clear(self) -> None:
        """Forget everything."""
        self.__init__()

    def height(self, index: int) -> int:
        """The height of an entry, known or guessed."""
        return self._heights[index]

    def is_exact(self, index: int) -> bool:
        """Whether the entry's height is known."""
        return self._exact[index]

    def set_exact(self, index: int, height: int) -> int:
        """Record a known height; returns by how much it differs from before."""
        change = height - self._heights[index]
        self._exact[index] = True
        if change:
            self._heights[index] = height
            self._tops = None
        return change

    def guess(self, heights: list[int]) -> None:
        """Replace all heights by guesses."""
        self._heights = heights
        self._exact = [False] * len(heights)
        self._tops = None

    def last_guessed(self) -> int | None:
        """The lowest entry whose height is only guessed."""
        for index in range(len(self._exact) - 1, -1, -1):
            if not self._exact[index]:
                return index
        return None

    def top(self, index: int) -> int:
        """The first line of an entry."""
        return self._positions()[index]

    def locate(self, y: int) -> tuple[int, int]:
        """The entry at line `y`, and the line within it; `y` is below `total`."""
        positions = self._positions()
        index = bisect_right(positions, y, hi=len(self._heights)) - 1
        return index, y - positions[index]

    def _positions(self) -> list[int]:
        """The top of each entry, and the end of the last."""
        if self._tops is None:
            self._tops = [0, *accumulate(self._heights)]
        return self._tops
