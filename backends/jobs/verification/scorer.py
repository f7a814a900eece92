"""The interface of an engine that returns logits for every token of a text."""

from __future__ import annotations

from collections.abc import Sequence as Tokens
from pathlib import Path
from typing import Protocol

from ...base.load_spec import LoadSpec
from ...base.sampling_params import SamplingParams
from ...engine.batch import Batch, ScheduledChunk
from ...engine.sequence import Sequence
from .logit_comparison import Logits

_CHUNK_ELEMENTS = 1 << 25
_LONGEST_CHUNK = 512


class Scorer(Protocol):
    """Reads windows of tokens in order, a chunk at a time, and keeps their KV cache."""

    @property
    def device(self) -> str:
        """Return the compute device in words."""
        ...

    def begin(self) -> None:
        """Clear the cache for a new window."""
        ...

    def read(self, window: Tokens[int], start: int, end: int) -> Logits:
        """Return logits (end - start, vocabulary) after each of the tokens `start` to `end`.

        Everything before `start` must have been read. The next call may overwrite the array.
        """
        ...

    def close(self) -> None:
        """Free everything."""
        ...


def reading_spec(path: Path, *, context: int, chunk: int) -> LoadSpec:
    """What loads a model in ingle's own engine to read windows of `context` tokens."""
    return LoadSpec(
        engine="cuda",
        path=str(path),
        context=context,
        kv_capacity=context,
        slots=1,
        batch=chunk,
        speculation="off",
    )


def chunk_size(vocab_size: int) -> int:
    """Return the tokens to read at once, so that their logits stay far smaller than a model.

    It is odd, hence no multiple of a page or a block: chunks begin and end inside them.
    """
    return max(1, min(_LONGEST_CHUNK, _CHUNK_ELEMENTS // vocab_size) - 1) | 1


def scored_chunk(window: Tokens[int], start: int, end: int, blocks: list[int]) -> Batch:
    """Return a step over the tokens from `start` to `end`, with logits for each of them."""
    sequence = Sequence("text", 0, list(window[: start + 1]), SamplingParams())
    sequence.num_computed = start
    sequence.slot = 0
    sequence.block_table = blocks
    # Draft tokens get logits each, which are needed for every token here.
    chunk = ScheduledChunk(sequence, 1, True, tuple(window[start + 1 : end]))
    return Batch([chunk], end - start)
