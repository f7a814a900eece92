"""A model divided among processes writes what one process does, under the real scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.cuda.model_runner import CudaModelRunner
from ingle.backends.cuda.parallel.lead_runner import open_divided
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.sequence import Sequence
from ingle.models.kv_type import KVType
from tests.backends.cuda.test_model_runner import prompt, run, sequences

LoadModel = Callable[..., CudaModelRunner]
OpenDivided = Callable[..., CudaModelRunner]


@pytest.fixture(scope="module")
def open_ranks() -> Iterator[OpenDivided]:
    """Return a factory of runners of divided models; keywords are fields of `LoadSpec`."""
    opened: list[CudaModelRunner] = []

    def load(path: Path, count: int = 2, **fields: Any) -> CudaModelRunner:
        values: dict[str, Any] = {
            "context": 512,
            "slots": 16,
            "threads": 1,
            "device": "cpu",
            "kv_type": KVType.F32,
            "confine": False,
            **fields,
        }
        spec = LoadSpec(engine="cuda", path=str(path), tensor_parallel=count, **values)
        opened.append(open_divided(spec))
        return opened[-1]

    yield load
    for runner in opened:
        runner.close()


def logits(runner: CudaModelRunner, tokens: list[int]) -> torch.Tensor:
    """Return those that follow a prompt, computed outside of any cache."""
    runner.open_cache()
    sequence, batch = Sequence("r", 0, tokens, sequences()[0].sampling), Batch()
    sequence.slot, sequence.block_table = 0, [3, 1, 2]
    batch.add(sequence, len(tokens))
    return runner.compute(batch)


def test_two_ranks_write_what_one_process_does(
    load_model: LoadModel, open_ranks: OpenDivided, tiny_path: Path
) -> None:
    """Sampled, in a batch of sixteen, and once more from cached prefixes."""
    one, two = load_model(tiny_path), open_ranks(tiny_path)
    tokens = prompt(3, 70)
    assert torch.allclose(logits(two, tokens), logits(one, tokens), rtol=0, atol=2e-4)
    expected = run(Engine(one), sequences())
    engine = Engine(two)
    assert run(engine, sequences()) == expected
    again = sequences()
    assert run(engine, again) == expected
    assert any(sequence.cached_tokens for sequence in again)
