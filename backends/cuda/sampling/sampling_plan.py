"""Which rows of a batch are drawn in which way, and with which random numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...engine.batch import ScheduledChunk
from .philox import uniforms
from .sampling_state import SamplingPath, SamplingState


class SamplingPlan:
    """Rows by route; `mirostat` has the first row of each chunk that is drawn one by one."""

    def __init__(
        self, chunks: list[ScheduledChunk], states: list[SamplingState], wanted: list[bool]
    ) -> None:
        """Of the chunks that are `wanted`; rows are counted through all."""
        places: dict[SamplingPath, list[int]] = {}
        self.mirostat: list[tuple[int, ScheduledChunk, SamplingState]] = []
        self._seeds: list[int] = []
        self._numbers: list[NDArray[np.float64]] = []
        self._positions: list[int] = []
        for chunk, state, drawn in zip(chunks, states, wanted, strict=True):
            first, count = len(self._seeds), 1 + len(chunk.drafts)
            self._seeds += [state.seed] * count
            self._numbers += [state.numbers] * count
            generated = chunk.sequence.num_drawn
            self._positions += range(generated, generated + count)
            if not drawn:
                continue
            places.setdefault(state.route, []).extend(range(first, first + count))
            if state.route is SamplingPath.MIROSTAT:
                self.mirostat.append((first, chunk, state))
        self.places = {route: np.asarray(rows, np.int64) for route, rows in places.items()}

    def randoms(self) -> NDArray[np.float64]:
        """Two random numbers for each row."""
        return uniforms(np.asarray(self._seeds, np.uint64), np.asarray(self._positions, np.uint64))

    def numbers(self, places: NDArray[np.int64]) -> NDArray[np.float64]:
        """The parameters of these rows, in the order of `NUMBERS`."""
        return np.stack(self._numbers)[places]
