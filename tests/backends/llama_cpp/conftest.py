"""Fixtures: llama.cpp runners of real models, and their logits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import pytest
from numpy.typing import NDArray

from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.sequence import Sequence
from ingle.backends.llama_cpp.model_runner import LlamaModelRunner

Logits = NDArray[np.float32]
LoadModel = Callable[..., LlamaModelRunner]


@pytest.fixture(scope="module")
def load_model() -> Iterator[LoadModel]:
    """Return a factory of runners, closed after the module; keywords are fields of `LoadSpec`."""
    made: list[LlamaModelRunner] = []

    def load(path: Path, **fields: Any) -> LlamaModelRunner:
        spec: dict[str, Any] = {"context": 2048, "slots": 4, **fields}
        runner = LlamaModelRunner(LoadSpec(engine="llama.cpp", path=str(path), **spec))
        made.append(runner)
        return runner

    yield load
    for runner in made:
        runner.close()


def last_logits(runner: LlamaModelRunner) -> Logits:
    """Return the logits of the latest step, in which one sequence sampled."""
    raw = llama_cpp.llama_get_logits(runner._ctx)  # pyright: ignore[reportPrivateUsage]
    return np.ctypeslib.as_array(raw, (runner.tokenizer.vocab_size,)).copy()


@pytest.fixture(scope="session")
def read_logits() -> Callable[[LlamaModelRunner], Logits]:
    """Return a function that copies the logits of the latest step."""
    return last_logits


@pytest.fixture(scope="session")
def compute() -> Callable[..., Logits]:
    """Return a function that computes tokens in chunks of given sizes, for the last logits."""

    def compute(
        runner: LlamaModelRunner, slot: int, tokens: list[int], *sizes: int, start: int = 0
    ) -> Logits:
        assert start + sum(sizes) == len(tokens)
        sequence = Sequence("r", 0, tokens, SamplingParams(temperature=0))
        sequence.slot, sequence.num_computed = slot, start
        for size in sizes:
            batch = Batch()
            batch.add(sequence, size)
            runner.launch(batch)
            sequence.num_computed += size
        return last_logits(runner)

    return compute
