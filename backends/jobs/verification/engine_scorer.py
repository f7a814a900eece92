"""Computes logits with ingle's own engine, through the runner that serves requests."""

from __future__ import annotations

import random
from collections.abc import Sequence as Tokens
from pathlib import Path

from ...cuda.state_model_runner import open_model_runner
from ...engine.batch import StateStep
from .logit_comparison import Logits
from .scorer import reading_spec, scored_chunk

_ROW = 0
"""Of the pool of states, if the model has one."""


class EngineScorer:
    """The CUDA runner over pages in shuffled order, with chunks that end within pages."""

    def __init__(self, path: Path, *, context: int, chunk: int) -> None:
        """Load a file or folder for windows of `context` tokens; raises `LoadFailed`."""
        self._runner = open_model_runner(reading_spec(path, context=context, chunk=chunk))
        self._random = random.Random(context)  # noqa: S311 - only an order, and the same each time
        self._pages: list[int] = []

    @property
    def device(self) -> str:
        """Return the compute device in words."""
        return self._runner.info().device

    def begin(self) -> None:
        """See `Scorer.begin`."""
        self._pages = list(range(self._runner.num_blocks))
        self._random.shuffle(self._pages)

    def read(self, window: Tokens[int], start: int, end: int) -> Logits:
        """See `Scorer.read`."""
        blocks = self._pages[: -(-end // self._runner.block_size)]
        batch = scored_chunk(window, start, end, blocks)
        batch.states.append(StateStep(_ROW if start else None, ((end - start, _ROW),)))
        return self._runner.compute(batch).cpu().numpy()

    def close(self) -> None:
        """Free everything."""
        self._runner.close()
