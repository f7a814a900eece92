"""Adapters on llama.cpp and in GGUF files, against models with them merged into their weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import pytest

from ingle.backends.base.errors import RequestRejected
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.model_runner import CudaModelRunner
from ingle.backends.engine.batch import Batch, ScheduledChunk
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.sequence import Sequence
from ingle.backends.jobs.quantization.messages import QuantizationTarget, QuantizeSpec
from ingle.backends.jobs.quantization.quantization import quantize
from ingle.backends.llama_cpp.model_runner import LlamaModelRunner
from ingle.models.catalog import Catalog
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.store.model_store import ModelStore
from tests.harness.peft_adapters import write_adapter

LoadModel = Callable[[Path], LlamaModelRunner]
MakeFolder = Callable[..., Path]
GREEDY = SamplingParams(temperature=0)
PROMPT = np.random.default_rng(1).integers(2, 250, 48).tolist()


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "data" / "models", Catalog.load())


def convert(source: Path, output: Path, adapter: str = "") -> Path:
    """Write the model as a GGUF file in F16."""
    target = QuantizationTarget.F16
    spec = QuantizeSpec(source=str(source), output=str(output), target=target, adapter=adapter)
    quantize(spec, lambda _: None)
    return output


@pytest.fixture
def base(make_folder: MakeFolder, tmp_path: Path) -> Path:
    return convert(make_folder("llama"), tmp_path / "base.gguf")


@pytest.fixture
def load_model() -> Iterator[LoadModel]:
    """Return a factory of runners, closed after the test."""
    made: list[LlamaModelRunner] = []

    def load(path: Path) -> LlamaModelRunner:
        made.append(LlamaModelRunner(LoadSpec(engine="llama.cpp", path=str(path), context=256)))
        return made[-1]

    yield load
    for runner in made:
        runner.close()


@pytest.fixture
def adapted(base: Path, store: ModelStore, tmp_path: Path) -> list[StoredModel]:
    """Return the model with each of two adapters, whose scales differ by module."""
    model, folder = store.resolve(str(base)), tmp_path / "model"
    scales = {"alpha_pattern": {"q_proj": 5.0}, "use_rslora": True}
    one = write_adapter(tmp_path / "one", folder, 1)
    two = write_adapter(tmp_path / "two", folder, 2, **scales)
    return [store.adapters.add(model, path, path.name) for path in (one, two)]


def run(
    runner: LlamaModelRunner, adapters: dict[int, int], temperature: float = 0
) -> list[list[int]]:
    sampling = SamplingParams(temperature=temperature, seed=3)
    together = [
        Sequence(
            *("r", index, PROMPT[: 20 + index], sampling),
            max_tokens=16,
            ignore_eos=True,
            adapter=adapter,
        )
        for index, adapter in adapters.items()
    ]
    engine = Engine(runner)
    for each in together:
        engine.add(each)
    while engine.has_work:
        engine.step()
    return [each.token_ids[each.prompt_length :] for each in together]


def logits(runner: LlamaModelRunner, adapter: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    each = Sequence("r", 0, list(PROMPT), GREEDY, adapter=adapter)
    each.slot = 0
    batch = Batch()
    batch.add(each, len(PROMPT))
    runner.launch(batch)
    raw = llama_cpp.llama_get_logits(runner._ctx)  # pyright: ignore[reportPrivateUsage]
    found = np.ctypeslib.as_array(raw, (runner.tokenizer.vocab_size,)).copy()
    runner.collect()
    runner.release(0)
    return found


@pytest.mark.slow
def test_an_adapter_computes_what_the_merged_model_does(
    load_model: LoadModel, base: Path, adapted: list[StoredModel], tmp_path: Path
) -> None:
    runner = load_model(base)
    plain = logits(runner, 0)
    for place, model in enumerate(adapted):
        merged = load_model(convert(base, tmp_path / f"merged-{place}.gguf", model.adapter))
        found = logits(runner, runner.adapter_number(Path(model.adapter)))
        exact = logits(merged, 0)
        scale = np.abs(exact).max()
        assert np.abs(found - exact).max() < 1e-2 * scale  # the merged weights are rounded to F16
        assert np.abs(plain - exact).max() > 0.1 * scale


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_requests_with_different_adapters_in_one_batch(
    load_model: LoadModel, base: Path, adapted: list[StoredModel], temperature: float
) -> None:
    runner = load_model(base)
    one, two = (runner.adapter_number(Path(model.adapter)) for model in adapted)
    wanted = {0: one, 1: 0, 2: two}
    mixed = run(runner, wanted, temperature)
    alone = [run(runner, {index: number}, temperature)[0] for index, number in wanted.items()]
    assert mixed == alone
    assert run(runner, {0: 0}, temperature) != alone[:1] != run(runner, {0: two}, temperature)


def test_the_same_file_on_both_engines(
    load_model: LoadModel, base: Path, adapted: list[StoredModel]
) -> None:
    """The rows of queries and keys have another order in the file than in the layers."""
    theirs = load_model(base)
    spec = LoadSpec(engine="cuda", path=str(base), context=256, slots=2, threads=1, device="cpu")
    ours = CudaModelRunner(spec)
    for model in adapted:
        folder = Path(model.adapter)
        exact = logits(theirs, theirs.adapter_number(folder))
        each = Sequence("r", 0, list(PROMPT), GREEDY, adapter=ours.adapter_number(folder))
        each.slot, each.block_table = 0, [0, 1, 2, 3]
        count = len(PROMPT)
        found = ours.compute(Batch([ScheduledChunk(each, count, True)], count)).float().numpy()
        assert np.abs(found - exact).max() < 1e-2 * np.abs(exact).max()
    ours.close()


def test_a_dropped_adapter_is_loaded_again_under_another_number(
    load_model: LoadModel, base: Path, adapted: list[StoredModel]
) -> None:
    runner = load_model(base)
    folder = Path(adapted[0].adapter)
    before = logits(runner, first := runner.adapter_number(folder))
    runner.drop_adapter(folder)
    plain = logits(runner, 0)
    again = runner.adapter_number(folder)
    assert again != first
    assert np.array_equal(logits(runner, again), before)
    assert not np.array_equal(plain, before)
    runner.drop_adapter(folder / "none")


def test_a_damaged_adapter_is_refused(
    load_model: LoadModel, base: Path, adapted: list[StoredModel]
) -> None:
    runner = load_model(base)
    file = Path(adapted[0].adapter) / "adapter.gguf"
    raw = file.read_bytes()
    file.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(RequestRejected):
        runner.adapter_number(file.parent)
    assert np.isfinite(logits(runner, 0)).all()
