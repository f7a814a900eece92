"""The runner under the real scheduler and cache: one text, however it is computed."""

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
    """Prompts of different lengths, for every kind of sampling."""
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
    """Each in a cache of its own."""
    return [run(Engine(runner), [sequence])[0] for sequence in each]


@pytest.fixture(scope="module")
def alone(runner: CudaModelRunner) -> list[list[int]]:
    """What sixteen sequences say when nobody else is there."""
    return run_alone(runner, sequences())


def test_sixteen_at_once_say_what_each_says_alone(
    runner: CudaModelRunner, alone: list[list[int]]
) -> None:
    assert run(Engine(runner), sequences()) == alone
    assert len({tuple(text) for text in alone}) == 16


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 5, 33, 64])
def test_prompts_may_be_read_in_any_chunks(
    load_model: LoadModel, tiny_path: Path, alone: list[list[int]], batch: int
) -> None:
    runner = load_model(tiny_path, batch=max(batch, 16))
    runner.max_batch_tokens = batch
    assert run(Engine(runner), sequences()[:8]) == alone[:8]


def test_a_prefix_that_is_cached_changes_nothing(
    load_model: LoadModel, tiny_path: Path, alone: list[list[int]]
) -> None:
    engine = Engine(load_model(tiny_path, kv_capacity=8192))
    run(engine, sequences())
    again = sequences()
    assert run(engine, again) == alone
    assert all(sequence.cached_tokens >= 32 for sequence in again)


class Guesser:
    """Drafts for everybody: what will come, or what will not."""

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
def test_drafts_change_nothing_but_the_steps(
    runner: CudaModelRunner, alone: list[list[int]], right: float, count: int
) -> None:
    for first in range(0, 8, count):
        chosen = sequences()[first : first + count]
        guesser = Guesser(dict(enumerate(alone)), right=right)
        engine = Engine(runner, guesser)
        assert run(engine, chosen) == alone[first : first + count]
        gauges = engine.gauges()
        assert gauges.drafted_tokens_total > 0
        if right in (0.0, 1.0):
            rate = gauges.accepted_tokens_total / gauges.drafted_tokens_total
            assert rate == right


@pytest.mark.slow
def test_who_was_preempted_goes_on_with_the_same_text(
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


def test_cancelling_one_leaves_the_others_alone(
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
def test_unused_places_are_never_read(
    load_model: LoadModel, tiny_path: Path, kv_type: KVType
) -> None:
    """Full of NaNs, one of which in an output would spread to everything behind it."""
    runner = load_model(tiny_path, kv_type=kv_type)
    for plane in runner._pool._planes:  # pyright: ignore[reportPrivateUsage]
        plane.fill_(torch.nan if plane.is_floating_point() else 99)
    engine = Engine(runner, Guesser({i: [7] * 24 for i in range(16)}, right=1.0))
    texts = run(engine, sequences(count=5))
    assert texts == run_alone(load_model(tiny_path, kv_type=kv_type), sequences(count=5))


@pytest.mark.parametrize("kv_type", [KVType.F32, KVType.Q8_0, KVType.Q4_0])
def test_pages_can_be_copied_read_and_written(
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


def test_a_table_that_is_too_short_is_noticed(runner: CudaModelRunner) -> None:
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
def test_smaller_pages(load_model: LoadModel, tiny_path: Path, kv_type: KVType, head: int) -> None:
    runner = load_model(tiny_path, kv_type=kv_type)
    assert runner.info().kv_bytes == 1056 * 3 * 2 * 2 * head
    assert runner.info().kv_type is kv_type
    texts = run_alone(runner, sequences(count=4))
    assert run(Engine(runner), sequences(count=4)) == texts


def test_what_was_computed_survives_the_process(
    load_model: LoadModel, tiny_path: Path, tmp_path: Path
) -> None:
    """Each with a store on the same disk, as two lives of one worker have it."""
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


def test_text_and_logits_are_llama_cpps(runner: CudaModelRunner, tiny_path: Path) -> None:
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
def test_a_draft_model_changes_nothing(
    runner: CudaModelRunner, make_model: MakeModel, alone: list[list[int]], seed: int
) -> None:
    """The same model guesses right whenever nothing is left to chance, another one hardly ever."""
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


def test_a_draft_model_says_how_sure_it_is(make_model: MakeModel) -> None:
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


def test_a_draft_of_another_family_is_refused(
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


def test_it_says_what_it_got(runner: CudaModelRunner, tiny_path: Path) -> None:
    info = runner.info()
    assert (info.engine, info.device) == ("cuda", "CPU, 1 thread")
    assert (info.layers, info.layers_on_gpu, info.vocab_size) == (3, 0, 96)
    assert info.kv_capacity == runner.kv_capacity >= 512 + 16 * 32
    assert info.kv_bytes >= info.kv_capacity * 3 * 2 * 32 * 4
    assert info.warnings == []


def test_a_gpu_that_is_not_there_is_a_warning(
    load_model: LoadModel, tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (warning,) = load_model(tiny_path, device="cuda").info().warnings
    assert "runs on the CPU" in warning


def test_what_the_engine_does_not_do_is_told(load_model: LoadModel, tiny_path: Path) -> None:
    asked: dict[str, Any] = {"mlock": True, "gpu_layers": 1, "flash_attention": "off"}
    layers, locked, flash = load_model(tiny_path, **asked).info().warnings
    assert "all 3 layers" in layers
    assert "not locked" in locked
    assert "flash attention" in flash


def test_what_is_stored_is_for_pages_of_one_type(load_model: LoadModel, tiny_path: Path) -> None:
    keys = {load_model(tiny_path, kv_type=kv_type).state_key for kv_type in KVType}
    assert len(keys) == len(KVType)


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(LoadFailed, match="broken"):
        CudaModelRunner(LoadSpec(engine="cuda", path=str(path), context=64))
