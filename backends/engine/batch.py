"""What one step computes."""

from __future__ import annotations

from dataclasses import dataclass, field

from .sequence import Sequence


@dataclass(frozen=True)
class Chunk:
    """The next `count` uncomputed tokens of a sequence; `samples` when they are its last."""

    sequence: Sequence
    count: int
    samples: bool


@dataclass
class Batch:
    """The chunks of one step, decoding sequences first."""

    chunks: list[Chunk] = field(default_factory=list[Chunk])
    num_tokens: int = 0

    def add(self, sequence: Sequence, count: int) -> None:
        """Append the sequence's next `count` tokens."""
        self.chunks.append(Chunk(sequence, count, samples=count == sequence.num_pending))
        self.num_tokens += count

    @property
    def sampling(self) -> list[Sequence]:
        """The sequences that get a new token in this step, in batch order."""
        return [chunk.sequence for chunk in self.chunks if chunk.samples]
