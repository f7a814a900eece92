"""A model with sliding-window attention, whose cache keeps tokens outside the window."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import llama_cpp
import numpy as np
import pytest
from numpy.typing import NDArray

from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.sequence import Sequence
from ingle.backends.llama_cpp.model_runner import LlamaModelRunner
from ingle.models.kv_type import KVType

pytestmark = pytest.mark.model

Logits = NDArray[np.float32]

LICENCE = Path(__file__).parents[3] / "LICENSE"
LENGTH = 41 * 64
"""Attention goes over cells in tiles of 64. New cells that begin with one are summed up as in a
cold run; elsewhere the last bits differ, as they do between chunks of other sizes."""
EDIT = 3 * 512
"""A chunk ends here, so that a cold run can have the same chunks."""


@pytest.fixture(scope="module", params=[KVType.F16, KVType.Q8_0])
def runner(
    request: pytest.FixtureRequest, gemma3_path: Path, load_model: Callable[..., LlamaModelRunner]
) -> LlamaModelRunner:
    return load_model(gemma3_path, context=4096, kv_type=request.param)


@pytest.fixture(scope="module")
def conversation(runner: LlamaModelRunner) -> list[int]:
    encode = runner.tokenizer.encode
    tokens = encode(LICENCE.read_text() * 2, add_special=True, parse_special=False)
    return tokens[:LENGTH]


def ask(engine: Engine, tokens: list[int]) -> Sequence:
    sequence = Sequence("r", 0, list(tokens), SamplingParams(temperature=0), max_tokens=1)
    engine.add(sequence)
    while engine.has_work:
        engine.step()
    return sequence


@pytest.mark.slow
def test_edit_outside_the_window_reuses_the_prefix_before_it(
    runner: LlamaModelRunner,
    conversation: list[int],
    compute: Callable[..., Logits],
    read_logits: Callable[[LlamaModelRunner], Logits],
) -> None:
    engine = Engine(runner)
    ask(engine, conversation)
    edited = conversation[:EDIT] + list(reversed(conversation[EDIT:]))
    assert edited[EDIT] != conversation[EDIT]
    assert ask(engine, edited).cached_tokens == EDIT
    warm = read_logits(runner)
    for slot in range(runner.cache_slots):
        runner.release(slot)
    cold = compute(runner, 0, edited, *[512] * 5, LENGTH - 5 * 512)
    assert np.array_equal(warm, cold)


@pytest.mark.slow
def test_cells_outside_the_window_are_kept(
    runner: LlamaModelRunner, conversation: list[int], compute: Callable[..., Logits]
) -> None:
    for slot in range(runner.cache_slots):
        runner.release(slot)
    compute(runner, 0, conversation, *[512] * 5, LENGTH - 5 * 512)
    memory = llama_cpp.llama_get_memory(runner._ctx)  # pyright: ignore[reportPrivateUsage]
    assert memory is not None
    assert llama_cpp.llama_memory_seq_pos_min(memory, 0) == 0
    # 18 layers with keys and values of 256 elements, whatever their window.
    assert runner.info().kv_bytes == pytest.approx(
        4096 * 18 * 2 * runner.info().kv_type.bytes_of(256), rel=0.002
    )
