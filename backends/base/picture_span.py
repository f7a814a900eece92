"""Pictures among the tokens of a sequence."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class PictureSpan:
    """A picture, or a tile of one, as consecutive tokens of a sequence from `start` on.

    `embeddings` has a row for each token. Where positions have several axes, `axes` has a row of
    them for each token, relative to the first one's, and the text behind continues `positions`
    after that. Tokens of one that is `whole` attend to each other, so that a step computes all.
    """

    start: int
    embeddings: NDArray[np.float32]
    positions: int
    axes: NDArray[np.int32] | None = None
    whole: bool = False

    @property
    def length(self) -> int:
        """Return how many tokens it takes."""
        return len(self.embeddings)

    @property
    def end(self) -> int:
        """Return the index of the first token behind it."""
        return self.start + self.length


def first_position(pictures: tuple[PictureSpan, ...], index: int) -> int:
    """Return the position of the token `index`; of one within a picture, that of its first."""
    for picture in reversed(pictures):
        if index >= picture.end:
            break
        if index >= picture.start and picture.axes is not None:
            index = picture.start
    moved = sum(p.length - p.positions for p in pictures if p.end <= index)
    return index - moved


def text_runs(
    pictures: tuple[PictureSpan, ...], start: int, end: int
) -> list[tuple[int, int, PictureSpan | None]]:
    """Divide the tokens `start` to `end` into runs of text, and of one picture each."""
    inside = [p for p in pictures if p.start < end and p.end > start]
    cuts = {start, end, *(max(p.start, start) for p in inside), *(min(p.end, end) for p in inside)}
    return [
        (begin, stop, next((p for p in inside if p.start <= begin < p.end), None))
        for begin, stop in pairwise(sorted(cuts))
    ]
