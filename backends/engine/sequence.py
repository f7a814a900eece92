"""One sequence of tokens on its way through the engine."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ..base.events import FinishReason
from ..base.requests import Priority
from ..base.sampling_params import SamplingParams
from .constraint import Constraint
from .kv_store.kv_chunk_file import CHUNK_TOKENS, StoredPart


@dataclass(eq=False)
class Sequence:
    """The prompt and the generated tokens of one choice of a request.

    `num_computed` counts the leading tokens whose keys and values are in the cache, `cached_tokens`
    those that were there when it began; `drafted_tokens` were guessed, `accepted_tokens` of them
    rightly; `slot` is its row in the cache, -1 while it waits; `block_table` has the pages its
    tokens are in, where the cache has pages. `parent` is the sequence of the same request whose
    prompt this one shares.
    Batches in flight, launched and not collected yet, compute `num_in_flight` more tokens and draw
    `num_awaited`, which nobody knows so far; the last of them is drawn by sampling row
    `awaited_row` of its batch.
    `passed_by` counts those that began before it because they were smaller.
    `logprobs` counts the likely tokens to tell beside each; `constraint` says what it may say.
    Once `pauses_at` tokens are generated, nothing is computed before somebody has seen the last.
    `stored` is what was read from the store for it, in so many `fetches`.
    """

    request_id: str
    index: int
    token_ids: list[int]
    sampling: SamplingParams
    max_tokens: int | None = None
    ignore_eos: bool = False
    private: bool = False
    speculates: bool = True
    priority: Priority = Priority.INTERACTIVE
    client: str = ""
    conversation: str = ""
    logprobs: int | None = None
    constraint: Constraint | None = None
    pauses_at: int | None = None
    parent: Sequence | None = None
    prompt_length: int = field(init=False)
    num_computed: int = 0
    num_in_flight: int = 0
    num_awaited: int = 0
    awaited_row: int = -1
    cached_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    passed_by: int = 0
    stored: list[StoredPart] = field(default_factory=list[StoredPart], repr=False)
    fetches: int = 0
    slot: int = -1
    block_table: list[int] = field(default_factory=list[int], repr=False)
    finish_reason: FinishReason | None = None
    arrived_at: float = field(default_factory=time.monotonic)
    started_at: float = 0.0
    first_token_at: float = 0.0
    last_token_at: float = 0.0

    def __post_init__(self) -> None:
        self.prompt_length = len(self.token_ids)

    @property
    def num_generated(self) -> int:
        """Tokens sampled so far, as far as they are known."""
        return len(self.token_ids) - self.prompt_length

    @property
    def num_drawn(self) -> int:
        """Tokens sampled so far, or by a batch in flight: the next one's place in the answer."""
        return self.num_generated + self.num_awaited

    @property
    def num_launched(self) -> int:
        """Leading tokens that are computed, or that a batch in flight computes."""
        return self.num_computed + self.num_in_flight

    @property
    def num_pending(self) -> int:
        """Tokens that are sampled but not launched yet; 1 in the decode phase."""
        return len(self.token_ids) + self.num_awaited - self.num_launched

    def stored_length(self, cached: int) -> int:
        """Tokens that `stored` leads to behind the first `cached` ones; 0 where there is a gap."""
        if not self.stored or self.stored[0].start > cached:
            return 0
        return self.stored[-1].end

    def useful_prefix(self, cached: int) -> int:
        """How many of the first `cached` tokens to begin with.

        All of them, or those before the stored chunk with which `stored` leads further.
        """
        if self.stored_length(cached) <= cached:
            return cached
        return cached - cached % CHUNK_TOKENS

    @property
    def is_decoding(self) -> bool:
        """True when the next step samples one token from one token."""
        return self.num_pending == 1 and self.num_drawn > 0
