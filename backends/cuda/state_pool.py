"""The memory of recurrent states: rows of a pool, and how layers reach those of a step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

import torch

from ingle.kernels.recurrent.pooled_states import Advance, PooledStates, States
from ingle.models.config.model_config import ModelConfig

from ..engine.batch import Batch, StateStep
from .kv_pool import PagedContext
from .row_table import RowTable


class StatePool:
    """The states of all recurrent layers, fp32, in rows that a `StateCache` allocates.

    There is one row more than `num_rows`, for steps whose states nothing reads again.
    """

    def __init__(self, config: ModelConfig, num_rows: int, device: torch.device) -> None:
        self.num_rows = num_rows
        self._layers: dict[int, States] = {}
        for index, layer in enumerate(config.layers):
            if layer.recurrent is not None:
                self._layers[index] = tuple(
                    torch.zeros(num_rows + 1, *shape, device=device)
                    for shape in layer.recurrent.state_shapes
                )

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return sum(part.nbytes for part in self._parts)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.nbytes // (self.num_rows + 1)

    @property
    def _parts(self) -> Iterable[torch.Tensor]:
        return (part for layer in self._layers.values() for part in layer)

    def layer(self, index: int) -> States:
        """The states of a layer, each (rows, ...)."""
        return self._layers[index]

    def copy(self, source: int, target: int) -> None:
        """Copy a row to another."""
        for part in self._parts:
            part[target] = part[source]

    def read(self, row: int) -> bytes:
        """A copy of a row."""
        return torch.cat([part[row].flatten() for part in self._parts]).cpu().numpy().tobytes()

    def write(self, row: int, data: bytes | memoryview) -> bool:
        """Put what `read` gave into a row; False if `data` has another length."""
        if len(data) != self.row_bytes:
            return False
        values, end = torch.frombuffer(bytearray(data), dtype=torch.float32), 0
        for part in self._parts:
            start, end = end, end + part[row].numel()
            part[row] = values[start:end].view_as(part[row]).to(part.device)
        return True


@dataclass(frozen=True, slots=True)
class _Segment:
    """Tokens `start` to `end` of a step, from the states of a row to those of others."""

    start: int
    end: int
    read: int | None
    writes: list[int]


class StepStates:
    """How the tokens of a step divide into segments, at whose ends states are kept."""

    def __init__(self, pool: StatePool, table: RowTable) -> None:
        """`table` gets what kernels need to know of a step."""
        self._pool = pool
        self._table = table
        self._segments: list[_Segment] = []
        self._single: list[_Segment] = []

    def lay_out(self, batch: Batch) -> None:
        """Prepare for a batch; without states reserved for it, nothing is kept."""
        self._table.fill(batch.states)
        self._segments, self._single = [], []
        start = 0
        for number, chunk in enumerate(batch.chunks):
            end = start + chunk.num_tokens
            step = StateStep(None, ((chunk.num_tokens, self._pool.num_rows),))
            if batch.states:
                step = batch.states[number]
            read, begin = step.read, start
            for tokens, writes in groupby(step.writes, lambda write: write[0]):
                rows = [row for _, row in writes]
                segment = _Segment(begin, start + tokens, read, rows)
                (self._single if chunk.num_tokens == 1 else self._segments).append(segment)
                begin, read = start + tokens, rows[-1]
            start = end

    def rows(self, layer: int, starts: torch.Tensor) -> PooledStates:
        """The layer's states; `starts` (sequences + 1,) int32 are those of the step's tokens."""
        return PooledStates(self._pool.layer(layer), self._table.rows(starts))

    def scan(self, layer: int, inputs: States, advance: Advance) -> torch.Tensor:
        """See `StateContext.scan`; the sequences with one token are advanced together."""
        states = self._pool.layer(layer)
        found: list[tuple[int, torch.Tensor]] = []
        for segment in self._segments:
            output = self._advance([segment], inputs, states, advance)
            found.append((segment.start, output[0]))
        if self._single:
            output = self._advance(self._single, inputs, states, advance)
            found += zip((segment.start for segment in self._single), output, strict=True)
        found.sort(key=lambda each: each[0])
        return torch.cat([output for _, output in found])

    def _advance(
        self, segments: list[_Segment], inputs: States, states: States, advance: Advance
    ) -> torch.Tensor:
        """Outputs (segments, tokens, ...) of segments with the same number of tokens."""
        before = tuple(
            torch.stack([_row(part, segment.read) for segment in segments]) for part in states
        )
        tokens = tuple(
            torch.stack([part[segment.start : segment.end] for segment in segments])
            for part in inputs
        )
        output, after = advance(tokens, before)
        for part, some in zip(states, after, strict=True):
            for number, segment in enumerate(segments):
                for row in segment.writes:
                    part[row] = some[number]
        return output


def _row(part: torch.Tensor, row: int | None) -> torch.Tensor:
    return torch.zeros_like(part[0]) if row is None else part[row]


@dataclass(frozen=True, slots=True)
class PagedStateContext(PagedContext):
    """A `PagedContext` that is a `StateContext` and a `PooledStatesContext` as well."""

    states: StepStates

    def scan(self, layer: int, inputs: States, advance: Advance) -> torch.Tensor:
        """See `StateContext`."""
        return self.states.scan(layer, inputs, advance)

    def rows(self, layer: int) -> PooledStates:
        """See `PooledStatesContext`."""
        return self.states.rows(layer, self.inputs.attention.query_starts)
