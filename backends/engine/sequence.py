"""A sequence: the tokens of one choice of a request, and its state in the engine."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..base.events import FinishReason
from ..base.picture_span import PictureSpan
from ..base.requests import Priority
from ..base.sampling_params import SamplingParams
from .constraint import Constraint
from .kv_store.kv_chunk_file import CHUNK_TOKENS, StoredPart

_TOKENS_OF_AN_ADAPTER = 1 << 22  # no vocabulary has more
MOST_ADAPTERS = (1 << 31) // _TOKENS_OF_AN_ADAPTER - 1
"""The largest number of an adapter."""


@dataclass(eq=False)
class Sequence:
    """The prompt and the generated tokens of one choice of a request.

    `num_computed` counts the leading tokens whose keys and values are in the cache, `cached_tokens`
    those that were there when it began. `accepted_tokens` of its `drafted_tokens` were accepted.
    `slot` is its row in the cache, -1 while it waits; `block_table` lists its blocks, if the cache
    is paged. `parent` is the sequence of the same request whose prompt it shares.
    In-flight batches, launched and not collected yet, compute `num_in_flight` more tokens and
    sample `num_awaited` tokens that are not known yet; sampling row `awaited_row` of its batch
    yields the last of them.
    `passed_by` counts the smaller sequences that were admitted before it.
    `logprobs` is the number of likely tokens to report beside each; `constraint` limits its tokens.
    Once `pauses_at` tokens are generated, nothing is computed until the caller has seen the last.
    The tokens of a `scored` prompt are sampled as the constraint prescribes them, after the first
    one; until they are there, `num_generated` is negative.
    `adapter` is the number of the adapter that computes it, 0 for none: what is cached of it is
    found by no sequence of another one.
    `stored` is what was fetched from the KV store for it, in `fetches` attempts.
    Tokens of `pictures` are negative numbers, equal for equal pictures only.
    """

    request_id: str
    index: int
    token_ids: list[int]
    sampling: SamplingParams
    max_tokens: int | None = None
    ignore_eos: bool = False
    stop_token_ids: frozenset[int] = frozenset()
    private: bool = False
    adapter: int = 0
    speculates: bool = True
    priority: Priority = Priority.INTERACTIVE
    client: str = ""
    conversation: str = ""
    logprobs: int | None = None
    constraint: Constraint | None = None
    pauses_at: int | None = None
    scored: list[int] | None = None
    parent: Sequence | None = None
    pictures: tuple[PictureSpan, ...] = ()
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
        self.prompt_length = len(self.scored or self.token_ids)

    def key_tokens(self, start: int = 0, end: int | None = None) -> NDArray[np.int32]:
        """The tokens as the cache knows them: those of an adapter have ids of their own."""
        tokens = np.asarray(self.token_ids[start:end], np.int32)
        return tokens + np.int32(self.adapter * _TOKENS_OF_AN_ADAPTER) if self.adapter else tokens

    @property
    def num_generated(self) -> int:
        """Tokens generated so far, without in-flight ones."""
        return len(self.token_ids) - self.prompt_length

    @property
    def num_prescribed(self) -> int:
        """How many tokens of a scored prompt have still to come."""
        return 0 if self.scored is None else max(0, len(self.scored) - len(self.token_ids))

    @property
    def num_sampled(self) -> int:
        """Tokens generated so far, and those that in-flight batches sample."""
        return self.num_generated + self.num_awaited

    @property
    def num_launched(self) -> int:
        """Leading tokens that are computed, or that an in-flight batch computes."""
        return self.num_computed + self.num_in_flight

    @property
    def num_pending(self) -> int:
        """Tokens that are sampled but not launched yet; 1 in the decode phase."""
        return len(self.token_ids) + self.num_awaited - self.num_launched

    def stored_length(self, cached: int) -> int:
        """Return the end of `stored` if it continues the first `cached` tokens, else 0."""
        if not self.stored or self.stored[0].start > cached:
            return 0
        return self.stored[-1].end

    def useful_prefix(self, cached: int) -> int:
        """Return how many of the first `cached` tokens to begin with.

        All of them, or those before the stored chunk that continues them.
        """
        cached = self.whole_pictures(cached)
        if self.stored_length(cached) <= cached:
            return cached
        return cached - cached % CHUNK_TOKENS

    def whole_pictures(self, length: int) -> int:
        """Return the length without the picture that it would end within."""
        return next((p.start for p in self.pictures if p.start < length < p.end), length)

    def storable(self, length: int) -> int:
        """Return how many of the first tokens have a position of their own, the index."""
        return next((min(p.start, length) for p in self.pictures if p.axes is not None), length)

    def fit_chunk(self, count: int, most: int) -> int:
        """Return how many tokens to launch, about `count` and at most `most`.

        They do not end within a picture that is to be computed whole.
        """
        begin = self.num_launched
        for picture in self.pictures:
            if picture.whole and picture.start < begin + count < picture.end:
                through = picture.end - begin
                return through if through <= most else max(0, picture.start - begin)
        return count

    @property
    def is_decoding(self) -> bool:
        """True when the next step samples one token from one token."""
        return self.num_pending == 1 and self.num_sampled > 0
