"""The input tensors of a step, at addresses that never change."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ingle.kernels.attention.attention_input import AttentionMetadata
from ingle.kernels.continue_step import DecodeInputs
from ingle.models.fit.paged_fit import PAGE_SIZE

from ...engine.batch import Batch, ScheduledChunk
from ...engine.sequence import Sequence
from .step_shape import StepShape, context_bucket, rounded_up

_GIVEN, _POSITIONS, _SLOTS, _ROWS, _ORIGINS = range(5)
_LONG_ROWS = 5
_STAGES = 2
_NOTHING = StepShape(0, 0, 0, 0)


class StepInputs:
    """Filled on the host, then sent in one copy each of 64-bit and 32-bit numbers.

    The tokens of all chunks are consecutive, drafts after the token they follow. Tokens that only
    the device knows, since the step before samples them, are put in place there. Rows are as wide
    as the step's bucket of tokens or pages, so that what a step uses is the beginning of each
    array, which alone is sent; the rest is stale. Addresses depend on the padded shape alone.
    A step that `follows` the one before finds its inputs on the device.
    """

    def __init__(
        self,
        *,
        tokens: int,
        sequences: int,
        max_pages: int,
        device: torch.device,
        staged: bool | None = None,
    ) -> None:
        """Room for so many tokens and sequences in a step, and so many pages a sequence.

        `staged` inputs are laid out apart from the device's tensors, by default on a GPU.
        """
        # Kernels are compiled for pointers aligned to 16 bytes.
        tokens, sequences = _multiple_of_four(tokens), _multiple_of_four(sequences)
        self._sizes = _Sizes(tokens, sequences, _multiple_of_four(max_pages))
        # The tokens that were sampled last follow those that are sent: one index finds either.
        self._drawn_from = _LONG_ROWS * tokens
        self._long = torch.zeros(self._drawn_from + tokens, dtype=torch.int64, device=device)
        ints = self._sizes.tables_from + sequences * self._sizes.pages
        self._int = torch.zeros(ints, dtype=torch.int32, device=device)
        self._token_ids = torch.zeros(tokens, dtype=torch.int64, device=device)
        if staged is None:
            staged = device.type == "cuda"
        # While a copy to the device may still be under way, the next step is laid out elsewhere.
        self._stages = [
            _Stage(self._long[: self._drawn_from], self._int, self._sizes, staged=staged)
            for _ in range(_STAGES if staged else 1)
        ]
        self._stage = self._stages[0]
        self.shape = _NOTHING
        """The sizes of the step."""
        self.num_rows = 0
        """Rows of logits that the step computes."""
        self.last_seen: torch.Tensor | None = None
        """Of the step's pictures, see `AttentionMetadata`."""
        self._drawn_for: list[_Drawn] = []
        """The sequences of the last step, if the device can go on from it."""

    def fill(self, batch: Batch) -> None:
        """Fill in a batch; raises ValueError if a block table is too short for its chunk."""
        self._drawn_for = []
        stage = self._next_stage()
        ends = [chunk.sequence.num_launched + chunk.num_tokens for chunk in batch.chunks]
        stage.lay_out(sum(chunk.num_tokens for chunk in batch.chunks), max(ends, default=0))
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
        """Pad to the sizes of `shape` with tokens of no sequence, whose keys go to `slot`.

        Raises ValueError unless `shape` is in the step's bucket, or the batch is empty.
        """
        stage, (tokens, sequences, _, _) = self._stage, self.shape
        if not tokens:
            stage.lay_out(shape.tokens, shape.longest_context)
        elif stage.widths != self._sizes.widths(shape.tokens, shape.longest_context):
            raise ValueError(f"{self.shape} cannot be padded to {shape}")
        given, positions, slots, rows, origins = stage.long
        given[tokens : shape.tokens] = 0
        positions[tokens : shape.tokens] = 0
        slots[tokens : shape.tokens] = slot
        origins[tokens : shape.tokens] = np.arange(tokens, shape.tokens)
        rows[self.num_rows : shape.tokens] = 0
        stage.lengths[sequences : shape.sequences] = 0
        stage.starts[sequences + 1 : shape.sequences + 1] = tokens
        self.shape, self.num_rows = shape, shape.tokens

    def upload(self, *, in_place: bool = True) -> None:
        """Send the inputs, and put sampled tokens in their places; nothing waits for it.

        Unless `in_place`, the step itself puts them there (`continue_step`).
        """
        self._stage.send(self._long, self._int, self.shape.sequences)
        if in_place:
            count = self.shape.tokens
            torch.gather(self._long, 0, self._sent(_ORIGINS), out=self._token_ids[:count])

    def copy_out(self) -> StepCopy:
        """What `copy_in` needs to have the same inputs in another process."""
        long, ints = self._stage.used(self.shape.sequences)
        return StepCopy(self.shape, self.num_rows, long.tobytes(), ints.tobytes())

    def copy_in(self, step: StepCopy) -> None:
        """Fill in what `copy_out` returned, except for tokens that only the device knows."""
        self._drawn_for = []
        stage = self._next_stage()
        self.shape, self.num_rows = StepShape(*step.shape), step.num_rows
        stage.lay_out(self.shape.tokens, self.shape.longest_context)
        long, ints = stage.used(self.shape.sequences)
        long[:] = np.frombuffer(step.long, np.int64)
        ints[:] = np.frombuffer(step.ints, np.int32)

    def mark_drawn(self, batch: Batch) -> None:
        """The step drew a token for each of its chunks, which have one each, into `drawn`."""
        self._drawn_for = [
            _Drawn(chunk.sequence, chunk.sequence.num_launched, list(chunk.sequence.block_table))
            for chunk in batch.chunks
        ]

    def follow(self, batch: Batch) -> bool:
        """Whether the device can compute the batch from the step before, whose tokens it drew.

        Then `continue_step` prepares the inputs, and all that is sent are block tables, if some
        have changed. Otherwise the batch has to be filled in.
        """
        before, chunks = self._drawn_for, batch.chunks
        if len(before) != len(chunks) or not chunks:
            return False
        changed = False
        for place, (chunk, (sequence, launched, table)) in enumerate(
            zip(chunks, before, strict=True)
        ):
            length = launched + 2
            if (
                chunk.sequence is not sequence
                or chunk.awaits != place
                or sequence.num_launched != launched + 1
                or length > min(self.shape.longest_context, PAGE_SIZE * len(sequence.block_table))
            ):
                return False
            changed = changed or table != sequence.block_table
        if changed:
            self._send_tables(batch)
        self._drawn_for = []
        return True

    def _send_tables(self, batch: Batch) -> None:
        stage = self._next_stage()
        stage.lay_out(self.shape.tokens, self.shape.longest_context)
        for place, chunk in enumerate(batch.chunks):
            table = chunk.sequence.block_table[: stage.widths.table]
            stage.tables[place, : len(table)] = table
        stage.send_tables(self._int, self.shape.sequences)

    def decode_inputs(self, rows: torch.Tensor) -> DecodeInputs:
        """What `continue_step` prepares; `rows` are the parameters of the draws."""
        step = self.attention
        return DecodeInputs(
            known=self._long,
            origins=self._sent(_ORIGINS),
            drawn=self.drawn,
            token_ids=self.token_ids,
            positions=step.positions,
            slots=step.slot_mapping,
            lengths=step.context_lengths,
            tables=step.block_tables,
            is_continued=self._int[self._sizes.lengths_from - 1 :],
            rows=rows,
        )

    def _next_stage(self) -> _Stage:
        """Another stage than the last one, once it can be overwritten."""
        self._stages.append(self._stages.pop(0))
        stage = self._stage = self._stages[0]
        stage.wait()
        return stage

    def keep_drawn(self, tokens: torch.Tensor) -> None:
        """Remember what the step draws, (rows,) int64, for the one that follows it."""
        self.drawn[: len(tokens)] = tokens

    @property
    def drawn(self) -> torch.Tensor:
        """What was kept last, (at least rows,) int64."""
        return self._long[self._drawn_from :]

    @property
    def token_ids(self) -> torch.Tensor:
        """(tokens,) int64."""
        return self._token_ids[: self.shape.tokens]

    @property
    def positions(self) -> torch.Tensor:
        """Each token's place in its sequence, (tokens,) int64."""
        return self._sent(_POSITIONS)

    @property
    def output_rows(self) -> torch.Tensor:
        """Tokens whose logits are wanted, (rows,) int64."""
        return self._sent(_ROWS)[: self.num_rows]

    @property
    def attention(self) -> AttentionMetadata:
        """The metadata of every layer's attention."""
        count, sizes = self.shape.sequences, self._sizes
        width = self._stage.widths.table
        tables = self._int[sizes.tables_from :][: count * width].view(count, width)
        return AttentionMetadata(
            self.positions,
            self._sent(_SLOTS),
            tables,
            self._int[sizes.lengths_from :][:count],
            self._int[: count + 1],
            self.shape.longest_query,
            self.shape.longest_context,
            self.last_seen,
        )

    def _sent(self, row: int) -> torch.Tensor:
        """A row of the 64-bit numbers, (tokens,)."""
        first = row * self._stage.widths.row
        return self._long[first : first + self.shape.tokens]

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
        used = -(-last // PAGE_SIZE)
        stage.tables[place, :used] = table[:used]
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


class StepCopy(NamedTuple):
    """The inputs of a step as bytes; see `StepInputs.copy_out`."""

    shape: tuple[int, int, int, int]
    num_rows: int
    long: bytes
    ints: bytes


class _Drawn(NamedTuple):
    """A sequence for which the last step drew a token, as it was before."""

    sequence: Sequence
    num_launched: int
    block_table: list[int]


class _Widths(NamedTuple):
    """Numbers in a row of the 64-bit ones, and pages in a row of the block tables."""

    row: int
    table: int


class _Sizes(NamedTuple):
    """The most tokens, sequences, and pages a sequence.

    32-bit numbers are the starts of the sequences, whether the step is a continued one, the
    sequences' lengths, and their block tables.
    """

    tokens: int
    sequences: int
    pages: int

    @property
    def lengths_from(self) -> int:
        """Where the lengths are among the 32-bit numbers."""
        return self.sequences + 4

    @property
    def tables_from(self) -> int:
        """Where the block tables are among the 32-bit numbers."""
        return self.lengths_from + self.sequences

    def widths(self, tokens: int, context: int) -> _Widths:
        """The same for all steps that are padded to the same shape."""
        return _Widths(
            min(_multiple_of_four(rounded_up(tokens)), self.tokens),
            min(context_bucket(context) // PAGE_SIZE, self.pages),
        )


class _Stage:
    """Arrays on the host for what is sent; unless `staged`, they are the device's own."""

    def __init__(
        self, long: torch.Tensor, ints: torch.Tensor, sizes: _Sizes, *, staged: bool
    ) -> None:
        self._staged, self._sizes = staged, sizes
        self._on_gpu = long.device.type == "cuda"
        if staged:
            long = torch.zeros(long.shape, dtype=long.dtype, pin_memory=self._on_gpu)
            ints = torch.zeros(ints.shape, dtype=ints.dtype, pin_memory=self._on_gpu)
        self._long, self._int = long, ints
        self._sent: torch.cuda.Event | None = None
        self._longs: NDArray[np.int64] = long.numpy()  # pyright: ignore[reportUnknownMemberType]
        self._ints: NDArray[np.int32] = ints.numpy()  # pyright: ignore[reportUnknownMemberType]
        self.starts = self._ints[: sizes.lengths_from]
        self.lengths = self._ints[sizes.lengths_from : sizes.tables_from]
        self.lay_out(0, 0)

    def lay_out(self, tokens: int, context: int) -> None:
        """Make rows as wide as the bucket of a step with so many tokens and such a context."""
        sizes = self._sizes
        row, table = self.widths = sizes.widths(tokens, context)
        self.long = self._longs[: _LONG_ROWS * row].reshape(_LONG_ROWS, row)
        tables = self._ints[sizes.tables_from :][: sizes.sequences * table]
        self.tables = tables.reshape(sizes.sequences, table)

    def used(self, sequences: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """What a step of so many sequences uses."""
        ints = self._sizes.tables_from + sequences * self.widths.table
        return self._longs[: _LONG_ROWS * self.widths.row], self._ints[:ints]

    def wait(self) -> None:
        """Until what was sent from here is there."""
        if self._sent is not None:
            self._sent.synchronize()

    def send(self, long: torch.Tensor, ints: torch.Tensor, sequences: int) -> None:
        """Copy what a step of so many sequences uses to the device."""
        self.starts[-1] = 0  # it is no continued step
        if not self._staged:
            return
        longs = _LONG_ROWS * self.widths.row
        long[:longs].copy_(self._long[:longs], non_blocking=True)
        self._send_ints(ints, 0, sequences)

    def send_tables(self, ints: torch.Tensor, sequences: int) -> None:
        """Copy the block tables of so many sequences to the device."""
        if self._staged:
            self._send_ints(ints, self._sizes.tables_from, sequences)

    def _send_ints(self, ints: torch.Tensor, begin: int, sequences: int) -> None:
        used = self._sizes.tables_from + sequences * self.widths.table
        ints[begin:used].copy_(self._int[begin:used], non_blocking=True)
        if self._on_gpu:
            self._sent = self._sent or torch.cuda.Event()
            self._sent.record()
