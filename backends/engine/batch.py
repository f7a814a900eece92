"""A batch: the tokens that one step computes, and what is sampled from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from ..base.events import TokenLogprobs
from .sequence import Sequence


@dataclass(frozen=True)
class ScheduledChunk:
    """The next `count` uncomputed tokens of a sequence; `samples` when they are its last.

    `drafts` are draft tokens that follow: they are computed along, and accepted if the sampler
    would have chosen them. Those of a prompt that `is_scored` are its own tokens.
    If `awaits` is set, the one token is not known yet: sampling row `awaits` of the batch
    launched before yields it.
    """

    sequence: Sequence
    count: int
    samples: bool
    drafts: tuple[int, ...] = ()
    awaits: int | None = None
    is_scored: bool = False

    @property
    def num_tokens(self) -> int:
        """Tokens the chunk computes."""
        return self.count + len(self.drafts)

    @property
    def num_rows(self) -> int:
        """Rows of logits that it samples from: one for each draft, and one after them."""
        return 1 + len(self.drafts)


def sampling_rows(chunks: Iterable[ScheduledChunk]) -> Iterator[tuple[range, ScheduledChunk]]:
    """Each of the chunks that sample, with its rows of the batch's logits."""
    first = 0
    for chunk in chunks:
        yield range(first, first + chunk.num_rows), chunk
        first += chunk.num_rows


@dataclass(frozen=True, slots=True)
class StateStep:
    """Where the states of a chunk's recurrent layers are, as rows of the runner's pool.

    The chunk begins with those of row `read`, or with empty ones. After so many of its tokens, in
    ascending order, they are written to each row of `writes`; the last tokens are among them.
    """

    read: int | None
    writes: tuple[tuple[int, int], ...]


@dataclass
class Batch:
    """The chunks of one step, decoding sequences first."""

    chunks: list[ScheduledChunk] = field(default_factory=list[ScheduledChunk])
    num_tokens: int = 0
    prompt_tokens: int = 0
    """Prefill tokens."""
    began: float = 0.0
    """When its scheduling began (monotonic seconds)."""
    seconds: float = 0.0
    """How long it is expected to take."""
    stops: Callable[[], bool] | None = None
    """Asked while a long step is computed; once true, the runner may raise `StepStopped`."""
    states: list[StateStep] = field(default_factory=list[StateStep])
    """The states of each chunk, if the model has any and its cache manager reserved them."""

    def add(self, sequence: Sequence, count: int, drafts: tuple[int, ...] = ()) -> None:
        """Append the sequence's next `count` tokens, and draft tokens if they are its last."""
        samples = count == sequence.num_pending
        awaits = sequence.awaited_row if samples and sequence.num_awaited else None
        is_scored = sequence.num_prescribed > 0
        chunk = ScheduledChunk(sequence, count, samples, drafts, awaits, is_scored)
        self.chunks.append(chunk)
        self.num_tokens += chunk.num_tokens
        if not sequence.is_decoding:
            self.prompt_tokens += chunk.num_tokens

    def mark_launched(self) -> None:
        """Record in the sequences that the batch was launched."""
        for chunk in self.chunks:
            chunk.sequence.num_in_flight += chunk.count
        for rows, chunk in sampling_rows(self.sampling):
            chunk.sequence.num_awaited += 1
            chunk.sequence.awaited_row = rows.start

    def complete(self) -> None:
        """Record in the sequences that the batch was collected."""
        for chunk in self.chunks:
            chunk.sequence.num_in_flight -= chunk.count
            chunk.sequence.num_awaited -= chunk.samples

    @property
    def has_drafts(self) -> bool:
        """Whether it has draft tokens."""
        return any(chunk.drafts for chunk in self.chunks)

    @property
    def sampling(self) -> list[ScheduledChunk]:
        """The chunks that get new tokens in this step, in batch order."""
        return [chunk for chunk in self.chunks if chunk.samples]


@dataclass(frozen=True, slots=True)
class Sampled:
    """The tokens of one chunk: the accepted drafts, then one sampled token.

    If `complete`, the sequence's constraint allows no further token. With an `error` the constraint
    can no longer be followed, and the last token is invalid.
    """

    token_ids: list[int]
    logprobs: list[TokenLogprobs] | None = None
    complete: bool = False
    error: str | None = None
