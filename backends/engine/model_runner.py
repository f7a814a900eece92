"""What the step loop needs from whatever holds weights and KV cache."""

from __future__ import annotations

from typing import Protocol

from ..base import SamplingParams
from .batch import Batch, Sampled
from .sequence import Sequence


class KVCacheFull(Exception):
    """The runner found no room for the batch and computed none of it."""


class ModelRunner(Protocol):
    """Computes batches and samples from them; tokens in, tokens out.

    A slot is one sequence of the KV cache, numbered from 0 to `cache_slots` - 1. Sampling state
    belongs to a `Sequence` and outlives its slot, so that a preempted sequence goes on with the
    same random stream.
    """

    @property
    def context(self) -> int:
        """Tokens one sequence may hold."""
        ...

    @property
    def kv_capacity(self) -> int:
        """Tokens all slots may hold together."""
        ...

    @property
    def slots(self) -> int:
        """Sequences that may run at once."""
        ...

    @property
    def cache_slots(self) -> int:
        """Sequences the cache can hold, running and ended ones; more than `slots`."""
        ...

    @property
    def max_batch_tokens(self) -> int:
        """Tokens one step may compute."""
        ...

    @property
    def max_drafts(self) -> int:
        """Drafted tokens one step may verify, over all sequences."""
        ...

    @property
    def can_fork(self) -> bool:
        """Whether a slot can be cut and shared at any token.

        Else, since a recurrent layer has one state for all tokens, only at its end, or where a
        checkpoint was taken.
        """
        ...

    @property
    def state_key(self) -> str:
        """Names everything but the weights that a snapshot depends on."""
        ...

    def launch(self, batch: Batch) -> None:
        """Start computing the batch; raises `KVCacheFull`, leaving the cache as it was."""
        ...

    def collect(self) -> list[Sampled]:
        """What the launched batch's sampling chunks got, in their order.

        Each position is sampled as if there were no drafts; the first token that differs from its
        draft is the last. Speculation is therefore lossless: a draft x is accepted with the
        probability p(x) that the sampler draws it, else the draw itself follows p without x.
        """
        ...

    def is_eog(self, token_id: int) -> bool:
        """Whether the model ends its answer with this token."""
        ...

    def fork(self, source: int, target: int, length: int, checkpoint: bytes | None = None) -> None:
        """Let the empty slot `target` share the first `length` tokens of slot `source`.

        Where the source is longer and `can_fork` is False, `checkpoint` has its state at `length`.
        """
        ...

    def checkpoint(self, slot: int) -> bytes:
        """What of the slot's state cannot be cut."""
        ...

    def trim(self, slot: int, length: int) -> None:
        """Forget what the slot holds behind its first `length` tokens; only where `can_fork`."""
        ...

    def release(self, slot: int) -> None:
        """Forget what the slot holds."""
        ...

    def snapshot(self, slot: int, start: int, end: int) -> bytes:
        """A copy of the keys and values of the slot's tokens `start` to `end`."""
        ...

    def restore(self, slot: int, start: int, end: int, data: bytes | memoryview) -> bool:
        """Append a snapshot to the slot, which holds `start` tokens; False where it does not fit.

        Takes the first `end` - `start` tokens of the snapshot, in as many free cells as it has.
        """
        ...

    def prepare(self, params: SamplingParams) -> None:
        """Do what takes long for a sequence with these parameters; from any one thread."""
        ...

    def forget(self, sequence: Sequence) -> None:
        """Free the sampling state of a sequence that ended."""
        ...

    def close(self) -> None:
        """Free weights and cache."""
        ...
