"""Computes logits with ingle's own engine, through the runner that serves requests."""

from __future__ import annotations

import random
from collections.abc import Sequence as Tokens
from pathlib import Path

from ...base.load_spec import LoadSpec
from ...base.sampling_params import SamplingParams
from ...cuda.model_runner import CudaModelRunner
from ...engine.batch import Batch, ScheduledChunk
from ...engine.sequence import Sequence
from .logit_comparison import Logits


class EngineScorer:
    """The CUDA runner over pages in shuffled order, with chunks that end within pages."""

    def __init__(self, path: Path, *, context: int, chunk: int) -> None:
        """Load a file or folder for windows of `context` tokens; raises `LoadFailed`."""
        spec = LoadSpec(
            engine="cuda",
            path=str(path),
            context=context,
            kv_capacity=context,
            slots=1,
            batch=chunk,
            speculation="off",
        )
        self._runner = CudaModelRunner(spec)
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
        sequence = Sequence("text", 0, list(window[: start + 1]), SamplingParams())
        sequence.num_computed = start
        sequence.slot = 0
        sequence.block_table = self._pages[: -(-end // self._runner.block_size)]
        # Draft tokens get logits each, which are needed for every token here.
        batch = Batch(
            [ScheduledChunk(sequence, 1, True, tuple(window[start + 1 : end]))], end - start
        )
        return self._runner.compute(batch).cpu().numpy()

    def close(self) -> None:
        """Free everything."""
        self._runner.close()
