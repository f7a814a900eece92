"""What one step computes."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..base.events import TokenLogprobs
from .sequence import Sequence


@dataclass(frozen=True)
class ScheduledChunk:
    """The next `count` uncomputed tokens of a sequence; `samples` when they are its last.

    `drafts` are guesses at the tokens that follow: they are computed along, and those that the
    sampler would have chosen anyway stay. Where nobody knows the token yet, which is the only one
    then, it is what sampling row `awaits` of the batch launched before draws.
    """

    sequence: Sequence
    count: int
    samples: bool
    drafts: tuple[int, ...] = ()
    awaits: int | None = None

    @property
    def num_tokens(self) -> int:
        """Tokens the chunk computes."""
        return self.count + len(self.drafts)


@dataclass
class Batch:
    """The chunks of one step, decoding sequences first."""

    chunks: list[ScheduledChunk] = field(default_factory=list[ScheduledChunk])
    num_tokens: int = 0

    def add(self, sequence: Sequence, count: int, drafts: tuple[int, ...] = ()) -> None:
        """Append the sequence's next `count` tokens, and guesses where they are its last."""
        samples = count == sequence.num_pending
        awaits = sequence.awaited_row if samples and sequence.num_awaited else None
        chunk = ScheduledChunk(sequence, count, samples, drafts, awaits)
        self.chunks.append(chunk)
        self.num_tokens += chunk.num_tokens

    def take_off(self) -> None:
        """Note in the sequences that the batch was launched."""
        row = 0
        for chunk in self.chunks:
            sequence = chunk.sequence
            sequence.num_in_flight += chunk.count
            if chunk.samples:
                sequence.num_awaited += 1
                sequence.awaited_row = row
                row += 1 + len(chunk.drafts)

    def land(self) -> None:
        """Note in the sequences that the batch was collected."""
        for chunk in self.chunks:
            chunk.sequence.num_in_flight -= chunk.count
            chunk.sequence.num_awaited -= chunk.samples

    @property
    def prompt_tokens(self) -> int:
        """Tokens of sequences that are not decoding; to be asked before the batch is launched."""
        return sum(chunk.count for chunk in self.chunks if not chunk.sequence.is_decoding)

    @property
    def has_drafts(self) -> bool:
        """Whether anything in it is a guess."""
        return any(chunk.drafts for chunk in self.chunks)

    @property
    def sampling(self) -> list[ScheduledChunk]:
        """The chunks that get new tokens in this step, in batch order."""
        return [chunk for chunk in self.chunks if chunk.samples]


@dataclass(frozen=True, slots=True)
class Sampled:
    """What one chunk got: the drafts that were accepted, then one token of the sampler's own.

    After a `complete` one its sequence's constraint lets nothing follow. With an `error` the
    constraint cannot be kept any more, and the last token means nothing.
    """

    token_ids: list[int]
    logprobs: list[TokenLogprobs] | None = None
    complete: bool = False
    error: str | None = None
