"""What one step computes."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..base import TokenLogprobs
from .sequence import Sequence


@dataclass(frozen=True)
class Chunk:
    """The next `count` uncomputed tokens of a sequence; `samples` when they are its last.

    `drafts` are guesses at the tokens that follow: they are computed along, and those that the
    sampler would have chosen anyway stay.
    """

    sequence: Sequence
    count: int
    samples: bool
    drafts: tuple[int, ...] = ()

    @property
    def num_tokens(self) -> int:
        """Tokens the chunk computes."""
        return self.count + len(self.drafts)


@dataclass
class Batch:
    """The chunks of one step, decoding sequences first."""

    chunks: list[Chunk] = field(default_factory=list[Chunk])
    num_tokens: int = 0

    def add(self, sequence: Sequence, count: int, drafts: tuple[int, ...] = ()) -> None:
        """Append the sequence's next `count` tokens, and guesses where they are its last."""
        chunk = Chunk(sequence, count, count == sequence.num_pending, drafts)
        self.chunks.append(chunk)
        self.num_tokens += chunk.num_tokens

    @property
    def has_drafts(self) -> bool:
        """Whether anything in it is a guess."""
        return any(chunk.drafts for chunk in self.chunks)

    @property
    def sampling(self) -> list[Chunk]:
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
