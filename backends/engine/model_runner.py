"""What the step loop needs from whatever holds weights and KV cache."""

from __future__ import annotations

from typing import Protocol

from ..base.sampling_params import SamplingParams
from .batch import Batch, Sampled
from .kv_cache import KVCache
from .kv_store.kv_store import KVStore
from .sequence import Sequence


class KVCacheFull(Exception):
    """The runner found no room for the batch and computed none of it."""


class ModelRunner(Protocol):
    """Computes batches and samples from them; tokens in, tokens out.

    Where keys and values lie is between the runner and its `KVCache`: see `SlotRunner` and
    `PagedRunner`. Sampling state belongs to a `Sequence` and outlives its place in the cache, so
    that a preempted sequence goes on with the same random stream.
    """

    @property
    def context(self) -> int:
        """Tokens one sequence may hold."""
        ...

    @property
    def kv_capacity(self) -> int:
        """Tokens all sequences may hold together."""
        ...

    @property
    def slots(self) -> int:
        """Sequences that may run at once."""
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
        """Whether a sequence can be cut and shared at any token.

        Else, since a recurrent layer has one state for all tokens, only at its end, or where a
        checkpoint was taken.
        """
        ...

    @property
    def can_run_ahead(self) -> bool:
        """Whether a second batch may be launched before the first is collected.

        It begins when the first is done, and its chunks may await what the first draws.
        """
        ...

    @property
    def state_key(self) -> str:
        """Names everything but the weights that stored keys and values depend on."""
        ...

    def open_cache(self, store: KVStore | None = None) -> KVCache:
        """The book of the runner's whole cache, which is empty then; what it gives up is stored."""
        ...

    def launch(self, batch: Batch) -> None:
        """Start computing the batch; raises `KVCacheFull`, leaving the cache as it was.

        A chunk begins behind its sequence's `num_launched` tokens. What is said of sequences here
        is good until the call returns: who computes later keeps a copy.
        """
        ...

    def collect(self) -> list[Sampled]:
        """What the sampling chunks of the batch launched first got, in their order.

        Each position is sampled as if there were no drafts; the first token that differs from its
        draft is the last. Speculation is therefore lossless: a draft x is accepted with the
        probability p(x) that the sampler draws it, else the draw itself follows p without x.
        """
        ...

    def can_follow(self, params: SamplingParams) -> bool:
        """Whether a draw by these parameters can do without knowing the token before it."""
        ...

    def is_eog(self, token_id: int) -> bool:
        """Whether the model ends its answer with this token."""
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
