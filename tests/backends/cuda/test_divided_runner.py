"""A model divided among processes writes what one process does, under the real scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from ingle.backends.base.errors import LoadFailed, RequestRejected
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.cuda.model_runner import CudaModelRunner
from ingle.backends.cuda.parallel.lead_runner import open_divided
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.sequence import Sequence
from ingle.models.kv_type import KVType
from tests.backends.cuda.test_model_runner import prompt, run, sequences
from tests.harness.peft_adapters import write_adapter

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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("stages", [(), (1, 1)])
def test_adapters_of_a_divided_model_add_what_they_add_to_a_whole_one(
    load_model: LoadModel,
    open_ranks: OpenDivided,
    make_folder: Any,
    tmp_path: Path,
    stages: tuple[int, ...],
) -> None:
    folder = make_folder()
    adapters = [write_adapter(tmp_path / f"adapter-{seed}", folder, seed) for seed in range(2)]
    texts: list[list[list[int]]] = []
    other = write_adapter(tmp_path / "other", make_folder("wider", intermediate_size=384), 2)
    divided = open_ranks(folder, adapters=str(tmp_path), stages=stages)
    for runner in (load_model(folder), divided):
        with pytest.raises(RequestRejected, match=r"mlp\.\w+_proj', which do not fit"):
            runner.adapter_number(other)
        numbers = [0, *map(runner.adapter_number, adapters)]
        mixed = sequences(count=6, tokens=16)
        for place, sequence in enumerate(mixed):
            sequence.adapter = numbers[place % 3]
        texts.append(run(Engine(runner), mixed))
        runner.drop_adapter(adapters[0])
        assert runner.adapter_number(adapters[0]) == 3
        again = sequences(count=2, tokens=16)
        again[1].adapter = 3
        texts[-1] += run(Engine(runner), again)
    assert texts[0] == texts[1]
    assert texts[0][1] != run(Engine(load_model(folder)), sequences(count=2, tokens=16))[1]


@pytest.mark.slow
@pytest.mark.parametrize("kv_type", [KVType.F32, KVType.Q8_0])
def test_pages_of_all_ranks_are_read_and_written(
    open_ranks: OpenDivided, tiny_path: Path, kv_type: KVType
) -> None:
    runner = open_ranks(tiny_path, kv_type=kv_type)
    tokens = prompt(9, 70)
    expected = logits(runner, tokens)
    data = runner.read_pages([3, 1, 2], 64)
    other = open_ranks(tiny_path, kv_type=kv_type)
    assert not other.write_pages([7, 5], 64, data[:-1])
    assert not other.write_pages([7, 5, 6], 65, data)
    assert other.write_pages([7, 5], 64, data)
    other.copy_page(5, 9, 32)
    sequence, batch = Sequence("r", 0, tokens, sequences()[0].sampling), Batch()
    sequence.slot, sequence.block_table, sequence.num_computed = 0, [7, 9, 8], 64
    batch.add(sequence, 6)
    assert torch.allclose(other.compute(batch), expected, rtol=0, atol=1e-3)
    assert other.state_key != open_ranks(tiny_path, count=4, kv_type=kv_type).state_key


@pytest.mark.slow
def test_model_that_cannot_be_divided_leaves_no_process(
    open_ranks: OpenDivided, tiny_path: Path
) -> None:
    before = set(psutil.Process().children())
    with pytest.raises(LoadFailed, match="among 5 GPUs: it has 4 heads, which share 2 key heads"):
        open_ranks(tiny_path, count=5)
    assert set(psutil.Process().children()) == before
