"""`CudaModelRunner` under the real scheduler: output does not depend on how it is computed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ingle.backends.base.errors import LoadFailed
from ingle.backends.base.events import FinishReason
from ingle.backends.base.load_spec import KVStoreSpec, LoadSpec
from ingle.backends.base.requests import Priority
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.draft_model import CudaDraftRunner, open_drafter
from ingle.backends.cuda.model_runner import CudaModelRunner
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.kv_store.kv_store import KVStore
from ingle.backends.engine.model_runner import KVCacheFull
from ingle.backends.engine.sequence import Sequence
from ingle.backends.engine.speculation.adaptive_speculator import AdaptiveSpeculator
from ingle.backends.engine.speculation.step_costs import StepCosts
from ingle.backends.llama_cpp.model_runner import LlamaModelRunner
from ingle.models.kv_type import KVType

LoadModel = Callable[..., CudaModelRunner]
MakeModel = Callable[..., Path]

KINDS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 0.9},
    {"temperature": 0.7, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
    {"temperature": 0.0, "repeat_penalty": 1.3},
    {"temperature": 1.1, "top_k": 0, "top_p": 0.9, "frequency_penalty": 0.3},
    {"mirostat": 2},
    {"dry_multiplier": 0.8, "xtc_probability": 0.4},
]


@pytest.fixture(scope="module")
def runner(load_model: LoadModel, tiny_path: Path) -> CudaModelRunner:
    return load_model(tiny_path)


def prompt(seed: int, length: int) -> list[int]:
    return np.random.default_rng(seed).integers(2, 90, length).tolist()


def sequences(length: int = 40, count: int = 16, tokens: int = 24) -> list[Sequence]:
    """Return prompts of different lengths, for every kind of sampling."""
    return [
        Sequence(
            "r",
            index,
            prompt(index, length + 7 * index),
            SamplingParams(seed=5, **KINDS[index % len(KINDS)]),
            max_tokens=tokens,
            ignore_eos=True,
        )
        for index in range(count)
    ]


def run(engine: Engine, together: list[Sequence]) -> list[list[int]]:
    for sequence in together:
        engine.add(sequence)
    while engine.has_work:
        engine.step()
    return [sequence.token_ids[sequence.prompt_length :] for sequence in together]


def run_alone(runner: CudaModelRunner, each: list[Sequence]) -> list[list[int]]:
    """Run each with an empty cache."""
    return [run(Engine(runner), [sequence])[0] for sequence in each]


@pytest.fixture(scope="module")
def alone(runner: CudaModelRunner) -> list[list[int]]:
    """Return the outputs of sixteen sequences that run alone."""
    return run_alone(runner, sequences())


def test_batched_output_equals_each_sequence_alone(
    runner: CudaModelRunner, alone: list[list[int]]
) -> None:
    assert run(Engine(runner), sequences()) == alone
    assert len({tuple(text) for text in alone}) == 16


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 5, 33, 64])
def test_prefill_chunk_size_does_not_change_output(
    load_model: LoadModel, tiny_path: Path, alone: list[list[int]], batch: int
) -> None:
    runner = load_model(tiny_path, batch=max(batch, 16))
    runner.max_batch_tokens = batch
    assert run(Engine(runner), sequences()[:8]) == alone[:8]


def test_prefix_caching_does_not_change_output(
    load_model: LoadModel, tiny_path: Path, alone: list[list[int]]
) -> None:
    engine = Engine(load_model(tiny_path, kv_capacity=8192))
    run(engine, sequences())
    again = sequences()
    assert run(engine, again) == alone
    assert all(sequence.cached_tokens >= 32 for sequence in again)


class FixedSpeculator:
    """Drafts the known continuation of every sequence, with probability `right` per token."""

    def __init__(self, texts: dict[int, list[int]], *, right: float) -> None:
        self._texts = texts
        self._right = right
        self._random = np.random.default_rng(1)

    def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        drafts: dict[Sequence, tuple[int, ...]] = {}
        for sequence in decoding:
            count = min(5, room // len(decoding))
            said = sequence.num_generated
            coming = self._texts[sequence.index][said : min(said + count, 23)]
            right = self._random.random(len(coming)) < self._right
            drafts[sequence] = tuple(
                token if sure else (token + 1) % 90
                for token, sure in zip(coming, right, strict=True)
            )
        return drafts

    def waits(self, decoding: list[Sequence], room: int) -> bool:
        return True

    def observe(self, batch: Batch, seconds: float) -> None: ...

    def forget(self, sequence: Sequence) -> None: ...


@pytest.mark.parametrize("right", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("count", [1, 3])
def test_drafts_change_only_the_number_of_steps(
    runner: CudaModelRunner, alone: list[list[int]], right: float, count: int
) -> None:
    for first in range(0, 8, count):
        chosen = sequences()[first : first + count]
        speculator = FixedSpeculator(dict(enumerate(alone)), right=right)
        engine = Engine(runner, speculator)
        assert run(engine, chosen) == alone[first : first + count]
        gauges = engine.gauges()
        assert gauges.drafted_tokens_total > 0
        if right in (0.0, 1.0):
            rate = gauges.accepted_tokens_total / gauges.drafted_tokens_total
            assert rate == right


@pytest.mark.slow
def test_preempted_sequence_resumes_with_the_same_output(
    load_model: LoadModel, tiny_path: Path
) -> None:
    long = {"length": 150, "count": 6, "tokens": 60}
    expected = run_alone(load_model(tiny_path, context=512), sequences(**long))
    runner = load_model(tiny_path, context=256, kv_capacity=512, slots=6)
    engine = Engine(runner)
    crowd = sequences(**long)
    for sequence in crowd[::2]:
        sequence.priority = Priority.BATCH
    assert run(engine, crowd) == expected
    assert engine.gauges().preemptions_total > 0
    assert engine.gauges().kv_used == 0


def test_cancelling_a_sequence_does_not_affect_others(
    runner: CudaModelRunner, alone: list[list[int]]
) -> None:
    engine = Engine(runner)
    crowd = sequences()
    for sequence in crowd:
        engine.add(sequence)
    for _ in range(12):
        engine.step()
    engine.finish(crowd[3], FinishReason.CANCELLED)
    while engine.has_work:
        engine.step()
    texts = [s.token_ids[s.prompt_length :] for s in crowd]
    assert texts[:3] + texts[4:] == alone[:3] + alone[4:]
    assert texts[3] == alone[3][: len(texts[3])]


@pytest.mark.slow
@pytest.mark.parametrize("kv_type", [KVType.F32, KVType.Q8_0, KVType.Q4_0])
def test_unused_cache_slots_are_never_read(
    load_model: LoadModel, tiny_path: Path, kv_type: KVType
) -> None:
    """They are filled with NaN, which would spread to every later output."""
    runner = load_model(tiny_path, kv_type=kv_type)
    for plane in runner._pool._planes:  # pyright: ignore[reportPrivateUsage]
        plane.fill_(torch.nan if plane.is_floating_point() else 99)
    engine = Engine(runner, FixedSpeculator({i: [7] * 24 for i in range(16)}, right=1.0))
    texts = run(engine, sequences(count=5))
    assert texts == run_alone(load_model(tiny_path, kv_type=kv_type), sequences(count=5))


@pytest.mark.parametrize("kv_type", [KVType.F32, KVType.Q8_0, KVType.Q4_0])
def test_pages_are_copied_read_and_written(
    load_model: LoadModel, tiny_path: Path, kv_type: KVType
) -> None:
    runner, other = (load_model(tiny_path, kv_type=kv_type) for _ in range(2))
    tokens = prompt(9, 70)

    def step(runner: CudaModelRunner, table: list[int], computed: int) -> list[int]:
        sequence = Sequence("r", 0, list(tokens), SamplingParams(seed=3), logprobs=0)
        sequence.slot, sequence.block_table, sequence.num_computed = 0, table, computed
        batch = Batch()
        batch.add(sequence, len(tokens) - computed)
        runner.launch(batch)
        (sampled,) = runner.collect()
        return sampled.token_ids

    expected = step(runner, [4, 2, 7], 0)
    runner.copy_page(7, 5, 5)
    assert step(runner, [4, 2, 5], 69) == expected
    data = runner.read_pages([4, 2, 5], 69)
    assert len(data) % 69 == 0
    assert other.write_pages([1, 0, 3], 69, data)
    assert other.read_pages([1, 0, 3], 69) == data
    assert step(other, [1, 0, 3], 69) == expected
    assert other.write_pages([6, 8], 40, memoryview(data)), "it may be of more tokens"
    assert other.read_pages([6, 8], 40) == data[: 40 * len(data) // 69]
    for wrong in (b"", data[:-1], data[: len(data) // 2]):
        assert not other.write_pages([1, 0, 3], 69, wrong)


def test_too_short_block_table_raises_kv_cache_full(runner: CudaModelRunner) -> None:
    sequence = Sequence("r", 0, prompt(1, 40), SamplingParams())
    sequence.slot, sequence.block_table = 0, [3]
    batch = Batch()
    batch.add(sequence, 40)
    with pytest.raises(KVCacheFull):
        runner.launch(batch)


@pytest.mark.parametrize(
    ("kv_type", "head"),
    [(KVType.F16, 32), (KVType.BF16, 32), (KVType.Q8_0, 16 + 2), (KVType.Q4_0, 8 + 2)],
)
def test_kv_types_with_smaller_pages(
    load_model: LoadModel, tiny_path: Path, kv_type: KVType, head: int
) -> None:
    runner = load_model(tiny_path, kv_type=kv_type)
    assert runner.info().kv_bytes == 1056 * 3 * 2 * 2 * head
    assert runner.info().kv_type is kv_type
    texts = run_alone(runner, sequences(count=4))
    assert run(Engine(runner), sequences(count=4)) == texts


def test_restarted_runner_restores_its_kv_cache_from_disk(
    load_model: LoadModel, tiny_path: Path, tmp_path: Path
) -> None:
    """Two runners with a store on the same disk, as successive workers have."""
    spec = KVStoreSpec(folder=str(tmp_path), model="ab" * 32, disk_bytes=2**30, memory_bytes=2**28)
    texts: list[list[int]] = []
    for life in range(2):
        runner = load_model(tiny_path)
        store = KVStore(spec, runner.state_key, spare=lambda: 2**30)
        engine = Engine(runner, store=store)
        asked = Sequence("r", 0, prompt(4, 400), SamplingParams(seed=1), max_tokens=20)
        secret = Sequence("s", 0, prompt(6, 400), SamplingParams(), max_tokens=2, private=True)
        engine.add(asked)
        engine.add(secret)
        while engine.has_work or engine.is_fetching:
            engine.step()
        while engine.has_unsaved:
            engine.save(0.05)
        store.close(5)
        assert (asked.cached_tokens >= 256) is (life == 1)
        assert secret.cached_tokens == 0
        texts.append(asked.token_ids)
    assert texts[0] == texts[1]


def test_text_and_logits_equal_those_of_llama_cpp(runner: CudaModelRunner, tiny_path: Path) -> None:
    theirs = LlamaModelRunner(
        LoadSpec(engine="llama.cpp", path=str(tiny_path), context=512, threads=1)
    )
    for seed in range(6):
        texts: list[list[int]] = []
        chances: list[list[float]] = []
        for used in (runner, theirs):
            asked = Sequence(
                "r",
                0,
                prompt(seed, 50),
                SamplingParams(temperature=0),
                max_tokens=30,
                ignore_eos=True,
                logprobs=0,
            )
            engine = Engine(used)
            engine.add(asked)
            found: list[float] = []
            while engine.has_work:
                for output in engine.step():
                    found += [scored.logprob for scored in output.logprobs or ()]
            texts.append(asked.token_ids)
            chances.append(found)
        assert texts[0] == texts[1]
        np.testing.assert_allclose(chances[0], chances[1], atol=5e-2)
    theirs.close()


@pytest.mark.parametrize("seed", [0, 1])
def test_draft_model_does_not_change_output(
    runner: CudaModelRunner, make_model: MakeModel, alone: list[list[int]], seed: int
) -> None:
    """The same model as its own draft is right for greedy sequences, another one hardly ever."""
    spec = LoadSpec(
        engine="cuda",
        path=str(make_model()),
        draft_path=str(make_model(seed)),
        speculation="draft",
        context=512,
        slots=16,
        threads=1,
        device="cpu",
        kv_type=KVType.F32,
    )
    drafter = open_drafter(spec, runner, StepCosts())
    costs = StepCosts()
    for size in range(1, 18):
        costs.observe(size, 1.0)
    engine = Engine(runner, AdaptiveSpeculator(context=512, costs=costs, model=drafter))
    assert run(engine, sequences()[:1]) == alone[:1]
    gauges = engine.gauges()
    if seed == 0:
        assert gauges.accepted_tokens_total == gauges.drafted_tokens_total > 0
    assert run(engine, sequences()[:6]) == alone[:6]
    drafter.close()


def test_draft_model_reports_its_probabilities(make_model: MakeModel) -> None:
    spec = LoadSpec(engine="cuda", path=str(make_model()), context=64, threads=1, device="cpu")
    runner = CudaDraftRunner(spec, vocab_size=30)
    cache = runner.open_cache()
    sequence = Sequence("r", 0, prompt(2, 8), SamplingParams(temperature=0), logprobs=96)
    cache.open(sequence, cache.match(np.asarray(sequence.token_ids, np.int32)))
    batch = Batch()
    batch.add(sequence, 8)
    cache.reserve(batch)
    runner.launch(batch)
    ((token, chance),) = runner.collect_likeliest()
    (sampled,) = runner.collect()
    assert sampled.logprobs is not None
    known = {i: np.exp(logprob) for i, logprob in sampled.logprobs[0].top if i < 30}
    assert token == max(known, key=known.__getitem__)
    assert chance == pytest.approx(known[token] / sum(known.values()), rel=1e-5)
    runner.close()


def test_draft_model_with_another_vocabulary_is_rejected(
    runner: CudaModelRunner, make_model: MakeModel
) -> None:
    for path, reason in ((make_model(odd="odd"), "token 20"), (make_model(vocab=300), "300")):
        spec = LoadSpec(
            engine="cuda",
            path=str(make_model()),
            draft_path=str(path),
            speculation="draft",
            context=512,
            threads=1,
            device="cpu",
        )
        with pytest.raises(LoadFailed, match=reason):
            open_drafter(spec, runner, StepCosts())


def test_info_reports_what_was_loaded(runner: CudaModelRunner, tiny_path: Path) -> None:
    info = runner.info()
    assert (info.engine, info.device) == ("cuda", "CPU, 1 thread")
    assert (info.layers, info.layers_on_gpu, info.vocab_size) == (3, 0, 96)
    assert info.kv_capacity == runner.kv_capacity >= 512 + 16 * 32
    assert info.kv_bytes >= info.kv_capacity * 3 * 2 * 32 * 4
    assert info.warnings == []


def test_missing_gpu_is_a_warning(
    load_model: LoadModel, tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (warning,) = load_model(tiny_path, device="cuda").info().warnings
    assert "runs on the CPU" in warning


def test_unsupported_options_are_warnings(load_model: LoadModel, tiny_path: Path) -> None:
    asked: dict[str, Any] = {"mlock": True, "gpu_layers": 1, "flash_attention": "off"}
    layers, locked, flash = load_model(tiny_path, **asked).info().warnings
    assert "all 3 layers" in layers
    assert "not locked" in locked
    assert "flash attention" in flash


def test_state_key_depends_on_the_kv_type(load_model: LoadModel, tiny_path: Path) -> None:
    keys = {load_model(tiny_path, kv_type=kv_type).state_key for kv_type in KVType}
    assert len(keys) == len(KVType)


def test_invalid_model_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(LoadFailed, match="broken"):
        CudaModelRunner(LoadSpec(engine="cuda", path=str(path), context=64))
