"""The tensors that tell a step what it computes, at addresses that never change."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from ingle.kernels.attention_step import AttentionStep
from ingle.models.paged_fit import PAGE_SIZE

from ..engine.batch import Batch, Chunk
from .step_shape import StepShape

_NOTHING = StepShape(0, 0, 0, 0)


class StepInputs:
    """Filled on the host, then sent in one copy each of 64-bit and 32-bit numbers.

    Tokens of all chunks lie one after the other, drafts behind the tokens they follow. Rows behind
    the step's own are left from before: every tensor is cut to what the step has.
    """

    def __init__(
        self, *, tokens: int, sequences: int, max_pages: int, device: torch.device
    ) -> None:
        """Room for so many tokens and sequences in a step, and so many pages a sequence."""
        self._long = _Mirror((4, tokens), torch.int64, device)
        self._int = _Mirror((sequences * (max_pages + 2) + 1,), torch.int32, device)
        cut = sequences * max_pages
        self._tables = self._int.host[:cut].reshape(sequences, max_pages)
        self._lengths = self._int.host[cut : cut + sequences]
        self._starts = self._int.host[cut + sequences :]
        device_ints = self._int.device
        self._device_tables = device_ints[:cut].view(sequences, max_pages)
        self._device_lengths = device_ints[cut : cut + sequences]
        self._device_starts = device_ints[cut + sequences :]
        self._shape, self._num_rows = _NOTHING, 0

    def fill(self, batch: Batch) -> None:
        """Lay a batch out; raises ValueError where a block table is too short for its chunk."""
        end = rows = longest_query = longest_context = 0
        for place, chunk in enumerate(batch.chunks):
            start, end = end, end + chunk.num_tokens
            last = self._fill_chunk(place, chunk, start, end)
            longest_query = max(longest_query, end - start)
            longest_context = max(longest_context, last)
            if chunk.samples:
                count = 1 + len(chunk.drafts)
                self._long.host[3, rows : rows + count] = np.arange(end - count, end)
                rows += count
        self._starts[len(batch.chunks)] = end
        self._shape = StepShape(end, len(batch.chunks), longest_query, longest_context)
        self._num_rows = rows

    def pad(self, shape: StepShape, slot: int) -> None:
        """Fill up to the sizes of `shape` with tokens of nobody, who are stored at `slot`."""
        tokens, sequences = self._shape.tokens, self._shape.sequences
        token_ids, positions, slots, rows = self._long.host
        token_ids[tokens : shape.tokens] = 0
        positions[tokens : shape.tokens] = 0
        slots[tokens : shape.tokens] = slot
        rows[self._num_rows : shape.tokens] = 0
        self._lengths[sequences : shape.sequences] = 0
        self._starts[sequences + 1 : shape.sequences + 1] = tokens
        self._shape, self._num_rows = shape, shape.tokens

    def upload(self) -> None:
        """Send what was filled in; nothing waits for it."""
        self._long.upload()
        self._int.upload()

    @property
    def shape(self) -> StepShape:
        """What there is of everything."""
        return self._shape

    @property
    def num_rows(self) -> int:
        """Rows of logits the step wants."""
        return self._num_rows

    @property
    def token_ids(self) -> torch.Tensor:
        """(tokens,) int64."""
        return self._long.device[0, : self._shape.tokens]

    @property
    def positions(self) -> torch.Tensor:
        """Each token's place in its sequence, (tokens,) int64."""
        return self._long.device[1, : self._shape.tokens]

    @property
    def output_rows(self) -> torch.Tensor:
        """Tokens whose logits are wanted, (rows,) int64."""
        return self._long.device[3, : self._num_rows]

    @property
    def attention(self) -> AttentionStep:
        """What the attention of every layer has to know."""
        count = self._shape.sequences
        return AttentionStep(
            self.positions,
            self._long.device[2, : self._shape.tokens],
            self._device_tables[:count],
            self._device_lengths[:count],
            self._device_starts[: count + 1],
            self._shape.longest_query,
            self._shape.longest_context,
        )

    def _fill_chunk(self, place: int, chunk: Chunk, start: int, end: int) -> int:
        """Lay one sequence's part out; gives its tokens with those of the step."""
        sequence, first = chunk.sequence, chunk.sequence.num_computed
        last = first + chunk.num_tokens
        table = sequence.block_table
        if len(table) * PAGE_SIZE < last:
            raise ValueError(f"{len(table)} pages have no room for {last} tokens")
        token_ids, positions, slots, _ = self._long.host
        known = start + chunk.count
        token_ids[start:known] = sequence.token_ids[first : first + chunk.count]
        token_ids[known:end] = chunk.drafts
        self._tables[place, : len(table)] = table
        self._lengths[place] = last
        self._starts[place] = start
        if last == first + 1:  # decoding, where arrays of one cost more than numbers
            positions[start] = first
            slots[start] = table[first // PAGE_SIZE] * PAGE_SIZE + first % PAGE_SIZE
            return last
        places = np.arange(first, last)
        positions[start:end] = places
        pages = self._tables[place, places // PAGE_SIZE].astype(np.int64)
        slots[start:end] = pages * PAGE_SIZE + places % PAGE_SIZE
        return last


class _Mirror:
    """An array on the host and its copy on the device; on a CPU they are the same memory."""

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> None:
        on_gpu = device.type == "cuda"
        self._source = torch.zeros(shape, dtype=dtype, pin_memory=on_gpu)
        self.host: NDArray[np.signedinteger] = self._source.numpy()  # pyright: ignore[reportUnknownMemberType]
        self.device = torch.zeros_like(self._source, device=device) if on_gpu else self._source

    def upload(self) -> None:
        if self.device is not self._source:
            self.device.copy_(self._source, non_blocking=True)
