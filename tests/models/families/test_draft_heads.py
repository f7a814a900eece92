"""Heads that draft: what they compute, that text is the same, and that good ones are right."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary

from ingle.backends.base.load_spec import KVStoreSpec
from ingle.backends.cuda.compute_backend import ComputeBackend
from ingle.backends.cuda.graphs.step_graphs import Recording
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.kv_store.kv_store import KVStore
from ingle.backends.engine.sequence import Sequence
from ingle.backends.engine.speculation.head_drafter import HeadSteps
from ingle.kernels.attention.attention_input import AttentionInput
from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.operations import Operations
from ingle.models.heads.head_tensors import mtp_tensors
from ingle.models.heads.layer_heads import MTPHead
from ingle.models.layers.picture_input import PictureInput
from tests.harness.full_attention import FullAttention
from tests.harness.headed_models import (
    FAMILIES,
    SIZES,
    EagerSpeculator,
    HeadedModel,
    HeadedRunners,
    headed_engine,
    run,
    sequences,
)

_LENGTHS = (74, 91, 108, 125)
_CPU, _EXACT = torch.device("cpu"), Operations(torch.float32)
MakeHeaded = Callable[[str], HeadedModel]


def _mostly(quick: str) -> list[Any]:
    """All families; but for one they are left to the nightly run."""
    return [
        kind if kind == quick else pytest.param(kind, marks=pytest.mark.slow) for kind in FAMILIES
    ]


@pytest.fixture
def make_headed(make_random_model: Any, memory_weights: Any) -> MakeHeaded:
    """Return a factory of random models with heads."""

    def make(kind: str) -> HeadedModel:
        return HeadedModel(make_random_model(kind, **SIZES, **FAMILIES[kind]), memory_weights)

    return make


@pytest.fixture
def runners() -> Iterator[HeadedRunners]:
    made = HeadedRunners()
    yield made
    made.close()


def test_a_model_without_attention_has_no_head(make_headed: MakeHeaded) -> None:
    config = make_headed("qwen3_5_text").source.files.config
    recurrent = next(layer for layer in config.layers if layer.recurrent is not None)
    names = [f"blk.{config.num_layers}.nextn.eh_proj.weight"]
    assert mtp_tensors(names, config) is not None
    without = replace(config, layers=(recurrent,) * config.num_layers)
    assert mtp_tensors(names, without) is None


@pytest.mark.parametrize("kind", _mostly("glm4_moe"))
@torch.inference_mode()
def test_a_head_computes_what_its_layer_does(kind: str, make_headed: MakeHeaded) -> None:
    model = make_headed(kind)
    files = model.source.files
    target = files.load(_CPU, _EXACT)
    assert files.head is not None
    head = MTPHead(files.head, target, device=_CPU, operations=_EXACT)
    random = torch.Generator().manual_seed(5)
    tokens = torch.randint(3, 250, (60,), generator=random)
    places = torch.arange(len(tokens))

    seen: list[torch.Tensor] = []
    head.join(lambda residuals: seen.append(head.features(residuals)))
    target.forward(tokens, places, FullAttention(files.config), places)
    features = torch.cat((torch.zeros(1, 64), seen[0][:-1]))
    expected = torch.cat((torch.zeros(1, 64), model.hidden(tokens)[:-1]))
    torch.testing.assert_close(features, expected, atol=1e-4, rtol=1e-4)

    context = FullAttention(head.config)
    for found, wanted in zip(
        head.step(tokens, features, places, context),
        model.reference(tokens, expected),
        strict=True,
    ):
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


class SeenAttention(FullAttention):
    """Keeps the keys of the last layer that it computed."""

    def attend(self, layer: int, x: AttentionInput) -> Activations:
        self.key = x.key
        return super().attend(layer, x)


@torch.inference_mode()
def test_a_head_reads_the_embeddings_of_pictures(make_headed: MakeHeaded) -> None:
    files = make_headed("glm4_moe").source.files
    target = files.load(_CPU, _EXACT)
    assert files.head is not None
    head = MTPHead(files.head, target, device=_CPU, operations=_EXACT)
    shown = PictureInput(torch.tensor([1, 2]), target.embed(torch.tensor([9, 4])))
    features, places = torch.ones(4, SIZES["hidden_size"]), torch.arange(4)
    keys: list[torch.Tensor | None] = []
    for tokens, pictures in (([7, 9, 4, 8], None), ([7, 0, 0, 8], shown)):
        context = SeenAttention(head.config)
        head.append(torch.tensor(tokens), features, places, context, pictures)
        keys.append(context.key)
    torch.testing.assert_close(*keys)


@pytest.mark.parametrize("kind", _mostly("qwen3_5_text"))
def test_text_is_the_same_with_a_head(
    kind: str, make_headed: MakeHeaded, runners: HeadedRunners
) -> None:
    source = make_headed(kind).source
    alone = [
        run(Engine(runners.load(source, draft_path=None)), [s])[0] for s in sequences(*_LENGTHS)
    ]
    engine = headed_engine(runners.load(source, kv_capacity=4096))
    assert run(engine, sequences(*_LENGTHS)) == alone
    assert engine.gauges().drafted_tokens_total > 20
    again = sequences(*_LENGTHS)
    assert run(engine, again) == alone, "with the prompts in the cache"
    assert all(sequence.cached_tokens for sequence in again)
    engine = headed_engine(runners.load(source, context=256, kv_capacity=320))
    assert run(engine, sequences(*_LENGTHS)) == alone, "preempted"
    assert engine.gauges().preemptions_total > 0


def _accepted(engine: Engine) -> float:
    gauges = engine.gauges()
    assert gauges.drafted_tokens_total > 10
    return gauges.accepted_tokens_total / gauges.drafted_tokens_total


@pytest.mark.parametrize("kind", _mostly("glm4_moe"))
@pytest.mark.parametrize("right", [HeadedModel.become_copy, HeadedModel.become_cycle])
def test_a_good_head_is_right(
    kind: str,
    right: Callable[[HeadedModel], None],
    make_headed: MakeHeaded,
    runners: HeadedRunners,
    tmp_path: Path,
) -> None:
    """One reads tokens and its own keys alone, the other one features alone."""
    model = make_headed(kind)
    right(model)
    source = model.source

    def prompts(*lengths: int) -> list[Any]:
        return sequences(*lengths, high=64, greedy=True)

    runner = runners.load(source, kv_capacity=4096)
    engine = headed_engine(runner)
    texts = run(engine, prompts())
    assert len({tuple(text) for text in texts}) > 4
    assert run(engine, prompts()) == texts, "with the prompts in the cache"
    assert _accepted(engine) > 0.99
    runner.max_batch_tokens = 24
    engine = headed_engine(runner)
    assert run(engine, prompts()) == texts, "with prompts in chunks"
    assert _accepted(engine) > 0.99
    engine = headed_engine(runners.load(source, context=256, kv_capacity=320))
    assert run(engine, prompts()) == texts, "preempted"
    assert _accepted(engine) > 0.99

    spec = KVStoreSpec(folder=str(tmp_path), model="ab" * 32, disk_bytes=2**30, memory_bytes=2**28)
    for life in range(2):
        runner = runners.load(source)
        store = KVStore(spec, runner.state_key, spare=lambda: 2**30)
        engine = headed_engine(runner, store=store)
        (long,) = prompts(400)
        run(engine, [long])
        while engine.has_unsaved:
            engine.save(0.05)
        store.close(5)
        assert (long.cached_tokens >= 256) is (life == 1)
        gauges = engine.gauges()
        assert gauges.accepted_tokens_total / gauges.drafted_tokens_total > 0.99


class OccasionalSpeculator(EagerSpeculator):
    """Drafts in every third step alone, so that others are launched ahead."""

    def __init__(self, head: HeadSteps) -> None:
        super().__init__(head)
        self._steps = 0

    def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        return {} if self._steps % 3 else super().propose(decoding, room)

    def waits(self, decoding: list[Sequence], room: int) -> bool:
        self._steps += 1
        return self._steps % 3 == 0


class Recorder:
    """Stands in for graph capture: a replay computes the step again into the recorded output."""

    def __init__(self) -> None:
        self.replays = 0

    def __call__(self, work: Callable[[], torch.Tensor]) -> Recording:
        output = work().clone()

        def replay() -> None:
            self.replays += 1
            output.copy_(work())

        return Recording(replay, output)


@pytest.mark.parametrize(
    "right",
    [HeadedModel.become_copy, pytest.param(HeadedModel.become_cycle, marks=pytest.mark.slow)],
)
@pytest.mark.slow
def test_a_head_follows_recorded_steps(
    right: Callable[[HeadedModel], None],
    make_headed: MakeHeaded,
    runners: HeadedRunners,
    pytestconfig: pytest.Config,
) -> None:
    """Steps are padded, launched ahead, and continued from tokens that only the device knows."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    model = make_headed("glm4_moe")
    right(model)
    assert pytestconfig.cache is not None
    library = CPUKernelLibrary(pytestconfig.cache.mkdir("kernels"))
    recorder = Recorder()
    backend = ComputeBackend(Operations(torch.float32), recorder, library)
    plain = Engine(runners.load(model.source, kv_capacity=4096, draft_path=None))
    texts = run(plain, sequences(high=64))
    runner = runners.load(model.source, backend, kv_capacity=4096)
    runner.can_run_ahead = True
    engine = Engine(runner, OccasionalSpeculator(runner.head))
    assert run(engine, sequences(high=64)) == texts
    again = sequences(high=64, greedy=True)
    before = engine.gauges()
    run(engine, again)
    after = engine.gauges()
    assert recorder.replays > 20
    drafted = after.drafted_tokens_total - before.drafted_tokens_total
    assert drafted > 50
    assert (after.accepted_tokens_total - before.accepted_tokens_total) / drafted > 0.99
