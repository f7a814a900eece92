"""The input tensors of a step, at addresses that never change."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from ingle.kernels.attention.attention_input import AttentionMetadata
from ingle.models.fit.paged_fit import PAGE_SIZE

from ...engine.batch import Batch, ScheduledChunk
from .step_shape import StepShape

_GIVEN, _POSITIONS, _SLOTS, _ROWS, _ORIGINS = range(5)
_LONG_ROWS = 5
_STAGES = 2
_NOTHING = StepShape(0, 0, 0, 0)


class StepInputs:
    """Filled on the host, then sent in one copy each of 64-bit and 32-bit numbers.

    The tokens of all chunks are consecutive, drafts after the token they follow. Tokens that only
    the device knows, since the step before samples them, are put in place there. Rows after the
    step's own are stale: every tensor is cut to the size of the step.
    """

    def __init__(
        self, *, tokens: int, sequences: int, max_pages: int, device: torch.device
    ) -> None:
        """Room for so many tokens and sequences in a step, and so many pages a sequence."""
        # Kernels are compiled for pointers aligned to 16 bytes.
        sequences, max_pages = _multiple_of_four(sequences), _multiple_of_four(max_pages)
        ints = sequences * (max_pages + 2) + 1
        # The tokens that were sampled last follow those that are sent: one index finds either.
        self._long = torch.zeros((_LONG_ROWS + 1, tokens), dtype=torch.int64, device=device)
        self._int = torch.zeros(ints, dtype=torch.int32, device=device)
        self._token_ids = torch.zeros(tokens, dtype=torch.int64, device=device)
        self._drawn_from = _LONG_ROWS * tokens
        # While a copy to the device may still be under way, the next step is laid out elsewhere.
        count = _STAGES if device.type == "cuda" else 1
        self._stages = [_Stage(self._long, self._int, sequences, max_pages) for _ in range(count)]
        self._stage = self._stages[0]
        cut = sequences * max_pages
        self._tables = self._int[:cut].view(sequences, max_pages)
        self._lengths = self._int[cut : cut + sequences]
        self._starts = self._int[cut + sequences :]
        self.shape = _NOTHING
        """The sizes of the step."""
        self.num_rows = 0
        """Rows of logits that the step computes."""

    def fill(self, batch: Batch) -> None:
        """Fill in a batch; raises ValueError if a block table is too short for its chunk."""
        self._stages.append(self._stages.pop(0))
        stage = self._stage = self._stages[0]
        stage.wait()
        end = rows = longest_query = longest_context = 0
        for place, chunk in enumerate(batch.chunks):
            start, end = end, end + chunk.num_tokens
            last = self._fill_chunk(stage, place, chunk, start, end)
            longest_query = max(longest_query, end - start)
            longest_context = max(longest_context, last)
            if chunk.samples:
                count = 1 + len(chunk.drafts)
                stage.long[_ROWS, rows : rows + count] = np.arange(end - count, end)
                rows += count
        stage.starts[len(batch.chunks)] = end
        self.shape = StepShape(end, len(batch.chunks), longest_query, longest_context)
        self.num_rows = rows

    def pad(self, shape: StepShape, slot: int) -> None:
        """Pad to the sizes of `shape` with tokens of no sequence, whose keys go to `slot`."""
        stage, (tokens, sequences, _, _) = self._stage, self.shape
        given, positions, slots, rows, origins = stage.long
        given[tokens : shape.tokens] = 0
        positions[tokens : shape.tokens] = 0
        slots[tokens : shape.tokens] = slot
        origins[tokens : shape.tokens] = np.arange(tokens, shape.tokens)
        rows[self.num_rows : shape.tokens] = 0
        stage.lengths[sequences : shape.sequences] = 0
        stage.starts[sequences + 1 : shape.sequences + 1] = tokens
        self.shape, self.num_rows = shape, shape.tokens

    def upload(self) -> None:
        """Send the inputs, and put sampled tokens in their places; nothing waits for it."""
        self._stage.send(self._long, self._int)
        count = self.shape.tokens
        origins = self._long[_ORIGINS, :count]
        torch.gather(self._long.view(-1), 0, origins, out=self._token_ids[:count])

    def keep_drawn(self, tokens: torch.Tensor) -> None:
        """Remember what the step draws, (rows,) int64, for the one that follows it."""
        self.drawn[: len(tokens)] = tokens

    @property
    def drawn(self) -> torch.Tensor:
        """What was kept last, (at least rows,) int64."""
        return self._long[_LONG_ROWS]

    @property
    def token_ids(self) -> torch.Tensor:
        """(tokens,) int64."""
        return self._token_ids[: self.shape.tokens]

    @property
    def positions(self) -> torch.Tensor:
        """Each token's place in its sequence, (tokens,) int64."""
        return self._long[_POSITIONS, : self.shape.tokens]

    @property
    def output_rows(self) -> torch.Tensor:
        """Tokens whose logits are wanted, (rows,) int64."""
        return self._long[_ROWS, : self.num_rows]

    @property
    def attention(self) -> AttentionMetadata:
        """The metadata of every layer's attention."""
        count = self.shape.sequences
        return AttentionMetadata(
            self.positions,
            self._long[_SLOTS, : self.shape.tokens],
            self._tables[:count],
            self._lengths[:count],
            self._starts[: count + 1],
            self.shape.longest_query,
            self.shape.longest_context,
        )

    def _fill_chunk(
        self, stage: _Stage, place: int, chunk: ScheduledChunk, start: int, end: int
    ) -> int:
        """Fill in one sequence's chunk; returns its context length after the step."""
        sequence, first = chunk.sequence, chunk.sequence.num_launched
        last = first + chunk.num_tokens
        table = sequence.block_table
        if len(table) * PAGE_SIZE < last:
            raise ValueError(f"{len(table)} pages have no room for {last} tokens")
        given, positions, slots, _, origins = stage.long
        stage.tables[place, : len(table)] = table
        stage.lengths[place] = last
        stage.starts[place] = start
        if last == first + 1:  # decoding, where arrays of one cost more than numbers
            if chunk.awaits is None:
                given[start] = sequence.token_ids[first]
                origins[start] = start
            else:
                origins[start] = self._drawn_from + chunk.awaits
            positions[start] = first
            slots[start] = table[first // PAGE_SIZE] * PAGE_SIZE + first % PAGE_SIZE
            return last
        known = start + chunk.count
        given[start:known] = sequence.token_ids[first : first + chunk.count]
        given[known:end] = chunk.drafts
        origins[start:end] = np.arange(start, end)
        places = np.arange(first, last)
        positions[start:end] = places
        pages = stage.tables[place, places // PAGE_SIZE].astype(np.int64)
        slots[start:end] = pages * PAGE_SIZE + places % PAGE_SIZE
        return last


def _multiple_of_four(count: int) -> int:
    """The next multiple."""
    return -(-count // 4) * 4


class _Stage:
    """Arrays on the host for what is sent to the device; on a CPU they are the device's own."""

    def __init__(
        self, long: torch.Tensor, ints: torch.Tensor, sequences: int, max_pages: int
    ) -> None:
        self._on_gpu = long.device.type == "cuda"
        if self._on_gpu:
            long = torch.zeros(long.shape, dtype=long.dtype, pin_memory=True)
            ints = torch.zeros(ints.shape, dtype=ints.dtype, pin_memory=True)
        self._long, self._int = long[:_LONG_ROWS], ints
        self._sent: torch.cuda.Event | None = None
        self.long: NDArray[np.int64] = self._long.numpy()  # pyright: ignore[reportUnknownMemberType]
        numbers: NDArray[np.int32] = ints.numpy()  # pyright: ignore[reportUnknownMemberType]
        cut = sequences * max_pages
        self.tables = numbers[:cut].reshape(sequences, max_pages)
        self.lengths = numbers[cut : cut + sequences]
        self.starts = numbers[cut + sequences :]

    def wait(self) -> None:
        """Until what was sent from here is there."""
        if self._sent is not None:
            self._sent.synchronize()

    def send(self, long: torch.Tensor, ints: torch.Tensor) -> None:
        """Copy all to the device."""
        if self._on_gpu:
            long[:_LONG_ROWS].copy_(self._long, non_blocking=True)
            ints.copy_(self._int, non_blocking=True)
            self._sent = self._sent or torch.cuda.Event()
            self._sent.record()
