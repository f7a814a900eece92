"""The interfaces of model runners: weights and KV memory, as the step loop uses them."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from ..base.sampling_params import SamplingParams
from .batch import Batch, Sampled
from .kv_cache import KVCache
from .kv_store.kv_store import KVStore
from .sequence import Sequence


class KVCacheFull(Exception):
    """The runner found no room for the batch and computed none of it."""


class StepStopped(Exception):
    """The runner was asked to stop, and computed nothing of the batch."""


class ModelRunner(Protocol):
    """Computes batches and samples from them; tokens in, tokens out.

    Where keys and values lie is between the runner and its `KVCache`: see `SlotRunner` and
    `PagedRunner`. Sampling state belongs to a `Sequence` and outlives its place in the cache, so
    that a preempted sequence goes on with the same random stream.
    """

    context: int
    """Tokens one sequence may hold."""
    kv_capacity: int
    """Tokens all sequences may hold together."""
    slots: int
    """Sequences that may run at once."""
    max_batch_tokens: int
    """Tokens one step may compute."""
    max_drafts: int
    """Drafted tokens one step may verify, over all sequences."""
    can_fork: bool
    """Whether a sequence can be cut and shared at any token.

    Else, since a recurrent layer has one state for all tokens, only at its end, or where a
    checkpoint was taken. A `StateRunner` can, as far as its sequences have snapshots.
    """
    can_run_ahead: bool
    """Whether a second batch may be launched before the first is collected.

    It begins when the first is done, and its chunks may await tokens that the first samples.
    """

    @property
    def state_key(self) -> str:
        """Names everything but the weights that stored keys and values depend on."""
        ...

    def open_cache(self, store: KVStore | None = None) -> KVCache:
        """A new manager of the runner's whole cache, emptied; evicted tokens go to the store."""
        ...

    def launch(self, batch: Batch) -> None:
        """Start computing the batch; raises `KVCacheFull`, leaving the cache as it was.

        Raises `StepStopped`, leaving it as it was as well, if `Batch.stops` became true and the
        runner could stop.

        A chunk begins after its sequence's `num_launched` tokens. Sequences may change once the
        call returns: a runner that computes later keeps a copy.
        """
        ...

    def collect(self) -> list[Sampled]:
        """The sampled tokens of the batch launched first, by sampling chunk.

        Each position is sampled as if there were no drafts; the first token that differs from its
        draft is the last. Speculation is therefore lossless: a draft x is accepted with the
        probability p(x) that the sampler draws it, else the draw itself follows p without x.
        """
        ...

    def can_follow(self, params: SamplingParams) -> bool:
        """Whether sampling by these parameters does not need the token before it."""
        ...

    def is_eog(self, token_id: int) -> bool:
        """Whether the model ends its answer with this token."""
        ...

    def adapter_number(self, folder: Path) -> int:
        """The number of an adapter, which is loaded if it is not yet; called by another thread.

        Raises `RequestRejected` for one that cannot be used, or if there are none here.
        """
        ...

    def drop_adapter(self, folder: Path) -> None:
        """Free an adapter if it is loaded; no sequence uses it."""
        ...

    def prepare(self, params: SamplingParams) -> None:
        """Do what takes long for a sequence with these parameters; from any one thread."""
        ...

    def prepare_step(self) -> bool:
        """Do what the first step of some kind would wait for, such as recording it.

        Called while nothing is launched, again and again until it is False: nothing is left to do.
        """
        ...

    def forget(self, sequence: Sequence) -> None:
        """Free the sampling state of a sequence that ended."""
        ...

    def close(self) -> None:
        """Free weights and cache."""
        ...


class SlotRunner(ModelRunner, Protocol):
    """Finds the cells of a sequence's tokens by its slot; `CellCache` manages them.

    A slot is one sequence of the KV cache, numbered from 0 to `cache_slots` - 1.
    """

    cache_slots: int
    """Sequences the cache can hold, running and ended ones; more than `slots`."""

    def fork(self, source: int, target: int, length: int, checkpoint: bytes | None = None) -> None:
        """Let the empty slot `target` share the first `length` tokens of slot `source`.

        Where the source is longer and `can_fork` is False, `checkpoint` has its state at `length`.
        """
        ...

    def checkpoint(self, slot: int) -> bytes:
        """What of the slot's state cannot be cut."""
        ...

    def trim(self, slot: int, length: int) -> None:
        """Discard the slot's tokens after the first `length`; only if `can_fork`."""
        ...

    def release(self, slot: int) -> None:
        """Discard the slot's tokens."""
        ...

    def snapshot(self, slot: int, start: int, end: int) -> bytes:
        """A copy of the keys and values of the slot's tokens `start` to `end`."""
        ...

    def restore(self, slot: int, start: int, end: int, data: bytes | memoryview) -> bool:
        """Append a snapshot to the slot, which holds `start` tokens; False where it does not fit.

        Takes the first `end` - `start` tokens of the snapshot, in as many free cells as it has.
        """
        ...


class PagedRunner(ModelRunner, Protocol):
    """Reads and writes keys and values in the blocks of `Sequence.block_table`.

    Token n of a sequence is in block `block_table[n // block_size]`, at n % `block_size`. When a
    batch is launched, the table covers all that the batch computes of the sequence, drafts too, and
    `slot` is a row number below `slots` that no other running sequence has. Between two launches
    any entry of a table may change: a page that another sequence has too is kept only once. Batches
    and what is copied, read and written take effect in the order in which they were asked for,
    whenever a batch is collected. `PagedCache` manages the pages.
    """

    block_size: int
    """Tokens of a page; the chunks in which keys and values are stored are whole pages."""
    num_blocks: int
    """Pages of the pool, numbered from 0; together they hold at least one whole context."""

    def copy_page(self, source: int, target: int, count: int) -> None:
        """Copy the first `count` tokens of a page to another, after all batches launched so far."""
        ...

    def read_pages(self, pages: list[int], count: int) -> bytes:
        """A copy of the keys and values of the first `count` tokens that lie in these pages."""
        ...

    def write_pages(self, pages: list[int], count: int, data: bytes | memoryview) -> bool:
        """Put the first `count` tokens of what `read_pages` returned into these pages.

        It may have been read for more tokens. False, with nothing of use in the pages, where
        `data` cannot be that.
        """
        ...


class StateRunner(PagedRunner, Protocol):
    """Keeps the states of recurrent layers in rows of a pool, beside the pages of the others.

    A state cannot be cut at a token. Each step reads and writes the rows of `Batch.states`, in the
    order of batches and of what is copied, read and written. `StateCache` manages the rows.
    """

    num_states: int
    """Rows of the pool: at least one for each slot and for each draft token of a step."""

    @property
    def state_bytes(self) -> int:
        """Bytes of one row."""
        ...

    @property
    def state_tokens(self) -> int:
        """Tokens whose keys and values take as much memory as one row."""
        ...

    def copy_state(self, source: int, target: int) -> None:
        """Copy a row to another, after all batches launched so far."""
        ...

    def read_state(self, row: int) -> bytes:
        """A copy of a row."""
        ...

    def write_state(self, row: int, data: bytes | memoryview) -> bool:
        """Put what `read_state` returned into a row; False where `data` cannot be that."""
        ...
