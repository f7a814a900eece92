"""The pictures among the tokens of a step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ingle.models.layers.picture_input import PictureInput

from ...base.picture_span import PictureSpan, first_position, text_runs
from ...engine.batch import Batch


class StepPictures(NamedTuple):
    """What pictures change in a step: its input, and maybe the `last_seen` token of each."""

    input: PictureInput
    last_seen: torch.Tensor | None = None


def pictures_of_step(batch: Batch, device: torch.device) -> StepPictures | None:
    """The pictures of a batch that is to be launched; None if they change nothing in the step."""
    if not any(chunk.sequence.pictures for chunk in batch.chunks):
        return None
    layout = _Layout(sum(chunk.num_tokens for chunk in batch.chunks))
    end = 0
    for chunk in batch.chunks:
        start, end = end, end + chunk.num_tokens
        pictures, first = chunk.sequence.pictures, chunk.sequence.num_launched
        layout.add_text(start, end, first)
        for begin, stop, picture in text_runs(pictures, first, first + chunk.num_tokens):
            position = first_position(pictures, begin)
            layout.add_run(start + begin - first, stop - begin, position)
            if picture is not None:
                layout.add_picture(start + begin - first, picture, begin, stop, position)
        layout.has_axes |= any(picture.axes is not None for picture in pictures)
    return layout.on(device)


class _Layout:
    """Arrays on the host for the tokens of a step."""

    def __init__(self, tokens: int) -> None:
        self.has_axes = False
        self._is_whole = False
        self._rows: list[NDArray[np.int64]] = []
        self._embeddings: list[NDArray[np.float32]] = []
        self._positions = np.zeros((3, tokens), np.int64)
        self._last_seen = np.zeros(tokens, np.int64)

    def add_text(self, start: int, end: int, first: int) -> None:
        """The tokens of a chunk, which begin at the index `first` of their sequence."""
        self._last_seen[start:end] = np.arange(first, first + end - start)

    def add_run(self, start: int, count: int, position: int) -> None:
        """Consecutive tokens, of which the first has this position."""
        self._positions[:, start : start + count] = np.arange(position, position + count)

    def add_picture(
        self, start: int, picture: PictureSpan, begin: int, stop: int, position: int
    ) -> None:
        """The tokens `begin` to `stop` of a sequence, which are of a picture."""
        rows = slice(start, start + stop - begin)
        inside = slice(begin - picture.start, stop - picture.start)
        self._rows.append(np.arange(rows.start, rows.stop))
        self._embeddings.append(picture.embeddings[inside])
        if picture.axes is not None:
            self._positions[:, rows] = picture.axes[inside, :3].T + position
        if picture.whole:
            self._is_whole = True
            self._last_seen[rows] = picture.end - 1

    def on(self, device: torch.device) -> StepPictures | None:
        """The same on a device; None if it is all as in a step of text."""
        if not self._rows and not self.has_axes:
            return None
        rows = np.concatenate(self._rows or [np.empty(0, np.int64)])
        found = np.concatenate(self._embeddings or [np.empty((0, 0), np.float32)])
        positions = torch.as_tensor(self._positions).to(device) if self.has_axes else None
        last_seen = torch.as_tensor(self._last_seen).to(device) if self._is_whole else None
        embeddings = torch.as_tensor(found).to(device)
        return StepPictures(
            PictureInput(torch.as_tensor(rows).to(device), embeddings, positions), last_seen
        )
