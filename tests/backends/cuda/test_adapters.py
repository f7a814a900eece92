"""Several adapters in one batch on one copy of the weights, against models with them merged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from ingle.backends.base.errors import RequestRejected
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.model_runner import CudaModelRunner
from ingle.backends.engine.batch import Batch, ScheduledChunk
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.sequence import Sequence
from tests.harness.peft_adapters import merge_adapter, write_adapter

LoadModel = Callable[..., CudaModelRunner]
MakeFolder = Callable[..., Path]
GREEDY = SamplingParams(temperature=0)
PROMPT = np.random.default_rng(1).integers(2, 250, 48).tolist()


@pytest.fixture
def base(make_folder: MakeFolder) -> Path:
    return make_folder()


@pytest.fixture
def adapters(base: Path, tmp_path: Path) -> list[Path]:
    """Return the folders of four adapters of the model."""
    return [write_adapter(tmp_path / f"adapter-{seed}", base, seed) for seed in range(4)]


def sequence(index: int, adapter: int = 0, tokens: list[int] | None = None) -> Sequence:
    prompt = list(tokens or PROMPT[: 20 + 3 * index])
    return Sequence("r", index, prompt, GREEDY, max_tokens=12, ignore_eos=True, adapter=adapter)


def run(engine: Engine, together: list[Sequence]) -> list[list[int]]:
    for each in together:
        engine.add(each)
    while engine.has_work:
        engine.step()
    return [each.token_ids[each.prompt_length :] for each in together]


def logits(runner: CudaModelRunner, adapter: int) -> torch.Tensor:
    each = sequence(0, adapter)
    each.slot, each.block_table = 0, [0, 1, 2, 3]
    count = len(each.token_ids)
    return runner.compute(Batch([ScheduledChunk(each, count, True)], count)).clone()


def test_eight_requests_over_four_adapters_equal_four_merged_models(
    load_model: LoadModel, base: Path, adapters: list[Path], tmp_path: Path
) -> None:
    runner = load_model(base)
    numbers = [runner.adapters.number_of(folder) for folder in adapters]
    assert numbers == [1, 2, 3, 4]
    assert [runner.adapters.number_of(folder) for folder in adapters] == numbers
    requests = [sequence(index, numbers[index % 4]) for index in range(8)]
    found = run(Engine(runner), requests)
    plain = run(Engine(runner), [sequence(index) for index in range(8)])
    expected: dict[int, list[int]] = {}
    for place, adapter in enumerate(adapters):
        merged = load_model(merge_adapter(tmp_path / f"merged-{place}", base, adapter))
        own = [index for index in range(8) if index % 4 == place]
        texts = run(Engine(merged), [sequence(index) for index in own])
        expected |= dict(zip(own, texts, strict=True))
        exact, close = logits(merged, 0), logits(runner, numbers[place])
        assert float((exact - close).abs().max() / exact.abs().max()) < 1e-5
    assert found == [expected[index] for index in range(8)]
    assert all(own != other for own, other in zip(found, plain, strict=True))


def test_a_prefix_of_one_adapter_is_never_matched_by_another(
    load_model: LoadModel, base: Path, adapters: list[Path]
) -> None:
    runner = load_model(base)
    first, second = (runner.adapters.number_of(folder) for folder in adapters[:2])
    engine = Engine(runner)
    cached: list[int] = []
    for number in (first, second, 0, first, second, 0):
        each = sequence(0, number, PROMPT)
        run(engine, [each])
        cached.append(each.cached_tokens)
    assert cached[:3] == [0, 0, 0]
    assert all(tokens >= 32 for tokens in cached[3:])


def test_an_adapter_is_dropped_without_a_reload(
    load_model: LoadModel, base: Path, adapters: list[Path]
) -> None:
    runner = load_model(base)
    before = logits(runner, 0)
    number = runner.adapters.number_of(adapters[0])
    assert runner.adapters.nbytes > 0
    assert not torch.equal(logits(runner, number), before)
    assert runner.adapters.drop(adapters[0])
    assert not runner.adapters.drop(adapters[0])
    assert runner.adapters.nbytes == 0
    assert torch.equal(logits(runner, 0), before)
    assert runner.adapters.number_of(adapters[0]) > number  # its cached prefixes stay apart


BROKEN = {
    "another kind": ({"peft_type": "IA3"}, "an adapter of the kind 'IA3'"),
    "DoRA": ({"use_dora": True}, "uses DoRA"),
    "biases": ({"bias": "all"}, "replaces whole layers or biases"),
    "another rank": ({"r": 8}, "do not fit this model with the rank 8"),
    "a huge rank": ({"r": 512}, "'r' is 512, outside 1 to 256"),
    "expressions": ({"alpha_pattern": {"^.*q_proj": 3}}, "has regular expressions"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_other_adapters_are_refused(
    load_model: LoadModel, base: Path, tmp_path: Path, kind: str
) -> None:
    settings, message = BROKEN[kind]
    folder = write_adapter(tmp_path / "broken", base, 1, **settings)
    with pytest.raises(RequestRejected, match=message):
        load_model(base).adapters.number_of(folder)


def test_scales_of_the_settings(load_model: LoadModel, base: Path, tmp_path: Path) -> None:
    """rsLoRA divides by the root of the rank; a pattern is the end of a module's name."""
    runner = load_model(base)
    plain = write_adapter(tmp_path / "plain", base, 1, lora_alpha=6)
    root = write_adapter(tmp_path / "root", base, 1, lora_alpha=3, use_rslora=True)
    by_name = write_adapter(
        tmp_path / "by-name", base, 1, lora_alpha=1, alpha_pattern=json.loads(
            '{"q_proj": 6, "k_proj": 6, "v_proj": 6, "o_proj": 6, "gate_proj": 6, "up_proj": 6,'
            ' "mlp.down_proj": 6}'
        ),
    )  # fmt: skip
    first, second, third = (
        logits(runner, runner.adapters.number_of(folder)) for folder in (plain, root, by_name)
    )
    assert torch.allclose(first, second, rtol=1e-4, atol=1e-4)
    assert torch.equal(first, third)
