"""A draft head beside the steps of its model: it reads each step's hidden states, and drafts."""

from __future__ import annotations

from collections.abc import Sequence as Items
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import torch

from ingle.kernels.attention.attention_input import AttentionMetadata
from ingle.kernels.operations import Operations
from ingle.models.fit.paged_fit import PAGE_SIZE
from ingle.models.layers.picture_input import PictureInput

from ...engine.batch import Batch
from ...engine.sequence import Sequence
from ..graphs.step_inputs import StepInputs
from ..kv_pool import AttentionStep, KVPool, PagedContext

if TYPE_CHECKING:
    from ingle.models.heads.draft_head import DraftHead

_ALIGNED = 4
"""Rows of inputs begin at multiples of it: kernels are compiled for aligned pointers."""


class _DraftStep(NamedTuple):
    """One of the head's own steps."""

    attention: AttentionMetadata


class _Verified(NamedTuple):
    """A chunk whose last tokens are drafts: the row of its first token, and that token's place."""

    sequence: Sequence
    slot: int
    row: int
    place: int


class StepHead:
    """Gives the head the tokens of each step with the features at those before, and lets it draft.

    Its keys and values lie in the pages of the model's, as one more layer: what shares, stores and
    restores the ones does the same with the others. The features at a sequence's last token are
    kept in a row of its slot until its next step. They are missing, and zeros in their place, for
    the first token after a prefix from the cache: one token of the head's context is less exact
    then. Rejected draft tokens are overwritten as those of the model are.
    """

    def __init__(
        self,
        head: DraftHead,
        inputs: StepInputs,
        operations: Operations,
        device: torch.device,
        *,
        tokens: int,
        slots: int,
        sequences: int,
        vocab_size: int,
    ) -> None:
        """For steps of so many tokens and sequences; drafts have ids below `vocab_size`."""
        self._head = head
        self._inputs = inputs
        self._operations = operations
        self._device = device
        self._vocab_size = vocab_size
        # The rows of slots, one of zeros, one that is never read, and those of the last step.
        self._nothing, self._unread, self._first = slots, slots + 1, slots + 2
        size = head.config.hidden_size
        self._features = torch.zeros(
            self._first + tokens, size, dtype=operations.dtype, device=device
        )
        self._tokens = tokens
        # For each token the row of the one before, then for each sequence that of its last token.
        self._wanted = np.full(tokens + sequences, self._unread)
        self._sent = torch.full((tokens + sequences,), self._unread, device=device)
        self._owners: dict[int, tuple[Sequence, int]] = {}
        self._verified: list[_Verified] = []
        self.pool: KVPool | None = None
        """The pages, once there are any."""
        self.pictures: PictureInput | None = None
        """Those of the next step, which is not recorded then."""
        head.join(self.receive)

    @property
    def nbytes(self) -> int:
        """Bytes of the kept features."""
        return self._features.nbytes

    def lay_out(self, batch: Batch) -> None:
        """Prepare for a batch, before it is filled in."""
        self._settle()
        wanted = np.full_like(self._wanted, self._unread)
        end = 0
        for place, chunk in enumerate(batch.chunks):
            start, end = end, end + chunk.num_tokens
            sequence, first = chunk.sequence, chunk.sequence.num_launched
            wanted[start:end] = np.arange(self._first + start - 1, self._first + end - 1)
            wanted[start] = self._row_of(sequence, first)
            wanted[self._tokens + place] = sequence.slot
            self._owners[sequence.slot] = (sequence, first + chunk.num_tokens)
            if chunk.drafts:
                verified = _Verified(sequence, sequence.slot, self._first + start, first)
                self._verified.append(verified)
        if not np.array_equal(wanted, self._wanted):
            self._wanted = wanted
            rows = torch.from_numpy(wanted)  # pyright: ignore[reportUnknownMemberType]
            self._sent.copy_(rows, non_blocking=True)

    def _row_of(self, sequence: Sequence, length: int) -> int:
        """Where the features at the last of the sequence's first `length` tokens are kept."""
        known = self._owners.get(sequence.slot) == (sequence, length)
        return sequence.slot if known else self._nothing

    def _settle(self) -> None:
        """Keep the features at the last accepted token of each verified draft."""
        verified, self._verified = self._verified, []
        kept: list[tuple[int, int]] = []
        for sequence, slot, row, place in verified:
            end = sequence.num_computed
            if sequence.slot == slot and self._owners[slot][0] is sequence and end > place:
                kept.append((slot, row + end - 1 - place))
                self._owners[slot] = (sequence, end)
        if kept:
            slots, rows = torch.tensor(kept).T.to(self._device)
            self._features[slots] = self._features[rows]

    def receive(self, residuals: Items[torch.Tensor]) -> None:
        """Compute the head's keys and values for the step in the inputs; a part of its recording.

        A step that is computed twice, as when it is recorded, finds the features at its own last
        token the second time: that costs a draft at worst.
        """
        if self.pool is None:
            return
        inputs = self._inputs
        features = self._head.features(residuals)
        count = len(features)
        self._features[self._first : self._first + count] = features
        before = self._features.index_select(0, self._sent[:count])
        token_ids = inputs.token_ids.clamp(min=0)  # those of pictures are negative
        context = self._context(inputs)
        self._head.append(token_ids, before, inputs.positions, context, self.pictures)
        ends = inputs.attention.query_starts[1:].long() + (self._first - 1)
        kept = self._sent[self._tokens : self._tokens + len(ends)]
        self._features.index_copy_(0, kept, self._features.index_select(0, ends))

    def knows(self, sequence: Sequence) -> bool:
        """Whether the features at the last computed token are there, which drafts begin with."""
        self._settle()
        return self._row_of(sequence, sequence.num_computed) != self._nothing

    def draft(self, sequences: Items[Sequence], depth: int) -> list[list[tuple[int, float]]]:
        """Up to `depth` likeliest tokens to follow each sequence, and the probability of each.

        It `knows` them. Nothing may be launched, all but the last token be computed, and block
        tables cover what is drafted but for the last token. The device is waited for once.
        """
        depth = min(depth, self._head.most_drafts or depth)
        steps = _DraftSteps(sequences, depth, self._device)
        rows = [self._row_of(sequence, sequence.num_computed) for sequence in sequences]
        features = self._features.index_select(0, torch.tensor(rows, device=self._device))
        token_ids = torch.tensor([s.token_ids[-1] for s in sequences], device=self._device)
        found: list[torch.Tensor] = []
        for number in range(depth):
            step = steps.step(number)
            places, context = step.attention.positions, self._context(step)
            logits, features = self._head.step(token_ids, features, places, context, number)
            logits = logits[:, : self._vocab_size]
            largest, likeliest = logits.max(-1, keepdim=True)
            certainty = 1 / (logits - largest).exp().sum(-1, dtype=torch.float64)
            token_ids = self._head.token_ids(likeliest[:, 0])
            found.append(torch.stack((token_ids.double(), certainty), -1))
        together = torch.stack(found, 1)
        each = cast("list[list[list[float]]]", together.tolist())  # pyright: ignore[reportUnknownMemberType]
        # A head's own vocabulary may have tokens that the tokenizer lacks.
        known = (takewhile(lambda drafted: drafted[0] < self._vocab_size, row) for row in each)
        return [[(int(token), chance) for token, chance in row] for row in known]

    def _context(self, step: AttentionStep) -> PagedContext:
        assert self.pool is not None
        return PagedContext(self._head.config, self._operations, self.pool, step)


class _DraftSteps:
    """The inputs of all steps that draft, which differ by their places alone; sent once."""

    def __init__(self, sequences: Items[Sequence], depth: int, device: torch.device) -> None:
        count = self._count = len(sequences)
        width = -(-count // _ALIGNED) * _ALIGNED
        pages = max(len(sequence.block_table) for sequence in sequences)
        tables = np.zeros((count, -(-pages // _ALIGNED) * _ALIGNED), np.int32)
        places = np.zeros((depth, width), np.int64)
        for row, sequence in enumerate(sequences):
            tables[row, : len(sequence.block_table)] = sequence.block_table
            places[:, row] = sequence.num_computed + np.arange(depth)
        pages_of = tables[np.arange(count), places[:, :count] // PAGE_SIZE].astype(np.int64)
        slots = np.zeros_like(places)
        slots[:, :count] = pages_of * PAGE_SIZE + places[:, :count] % PAGE_SIZE
        self._longest = int(places.max()) + 1
        self._long = torch.from_numpy(np.stack((places, slots))).to(device)  # pyright: ignore[reportUnknownMemberType]
        self._lengths = (self._long[0] + 1).int()
        self._tables = torch.from_numpy(tables).to(device)  # pyright: ignore[reportUnknownMemberType]
        self._starts = torch.arange(count + 1, dtype=torch.int32, device=device)

    def step(self, number: int) -> _DraftStep:
        """One of the steps."""
        count = self._count
        places, slots = self._long[:, number, :count]
        lengths = self._lengths[number, :count]
        attention = AttentionMetadata(
            places, slots, self._tables, lengths, self._starts, 1, self._longest
        )
        return _DraftStep(attention)
