"""What the step loop needs from whatever holds weights and KV cache."""

from __future__ import annotations

from typing import Protocol

from .batch import Batch
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
    def can_fork(self) -> bool:
        """Whether `fork` works for this model."""
        ...

    def launch(self, batch: Batch) -> None:
        """Start computing the batch; raises `KVCacheFull`, leaving the cache as it was."""
        ...

    def collect(self) -> list[int]:
        """The tokens sampled for `batch.sampling` of the launched batch, in that order."""
        ...

    def is_eog(self, token_id: int) -> bool:
        """Whether the model ends its answer with this token."""
        ...

    def fork(self, source: int, target: int, length: int) -> None:
        """Let the empty slot `target` share the first `length` tokens of slot `source`."""
        ...

    def release(self, slot: int) -> None:
        """Forget what the slot holds."""
        ...

    def forget(self, sequence: Sequence) -> None:
        """Free the sampling state of a sequence that ended."""
        ...

    def close(self) -> None:
        """Free weights and cache."""
        ...
