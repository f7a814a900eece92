"""Pictures on our own engine: the embeddings and logits of transformers, however computed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType]

from ingle.backends.base.conversation import Picture
from ingle.backends.base.load_spec import KVStoreSpec, LoadSpec
from ingle.backends.base.picture_span import PictureSpan
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.model_runner import CudaModelRunner
from ingle.backends.cuda.pictures.torch_picture_encoder import Turns
from ingle.backends.cuda.state_model_runner import open_model_runner
from ingle.backends.engine.batch import Batch, ScheduledChunk
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.kv_store.kv_store import KVStore
from ingle.backends.engine.sequence import Sequence
from ingle.models.kv_type import KVType
from tests.harness.headed_models import headed_engine
from tests.harness.seeing_models import (
    FAMILIES,
    VOCABULARY,
    WIDTH,
    SeeingModel,
    picture,
    write_projector_of,
    write_seeing_model,
)

TEXT = " ".join(f"w{i * 7 % 60}" for i in range(18))


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SeeingModel:
    return write_seeing_model(tmp_path_factory.mktemp("seeing"), request.param)


def load(model: SeeingModel, **fields: Any) -> CudaModelRunner:
    values: dict[str, Any] = {
        "engine": "cuda",
        "path": str(model.folder),
        "projector_path": str(model.folder),
        "context": 1024,
        "slots": 4,
        "threads": 1,
        "device": "cpu",
        "dtype": "f32",
        "kv_type": KVType.F32,
        **fields,
    }
    return open_model_runner(LoadSpec(**values))


@pytest.fixture(scope="module")
def runner(model: SeeingModel) -> Iterator[CudaModelRunner]:
    runner = load(model, batch=256)
    yield runner
    runner.close()


def sequence_of(runner: CudaModelRunner, *parts: str | Picture, max_tokens: int = 8) -> Sequence:
    assert runner.pictures is not None
    tokens, spans, after = [1], list[PictureSpan](), ""
    for part in [*parts, ""]:
        if isinstance(part, str):
            text = after + part
            tokens += runner.tokenizer.encode(text, add_special=False, parse_special=True)
            after = ""
            continue
        encoded = runner.pictures.encode(part)
        text = after + encoded.before
        tokens += runner.tokenizer.encode(text, add_special=False, parse_special=True)
        spans += (replace(span, start=len(tokens) + span.start) for span in encoded.spans)
        tokens += encoded.token_ids
        after = encoded.after
    return Sequence(
        "r",
        0,
        tokens,
        SamplingParams(temperature=0),
        max_tokens=max_tokens,
        ignore_eos=True,
        speculates=False,
        pictures=tuple(spans),
    )


def write_head(folder: Path) -> Path:
    """Write an EAGLE-3 head for a model that sees, which reads its last residual stream."""
    shapes = {
        **dict.fromkeys(("q_proj", "k_proj", "v_proj"), (WIDTH, 2 * WIDTH)),
        "o_proj": (WIDTH, WIDTH),
    }
    tensors = {f"midlayer.self_attn.{name}.weight": shape for name, shape in shapes.items()}
    tensors |= {f"midlayer.mlp.{x}_proj.weight": (WIDTH, WIDTH) for x in ("gate", "up", "down")}
    norms = ("input_layernorm", "hidden_norm", "post_attention_layernorm")
    tensors |= {f"midlayer.{name}.weight": (WIDTH,) for name in norms}
    tensors |= {"fc.weight": (WIDTH, WIDTH), "norm.weight": (WIDTH,)}
    tensors |= {"lm_head.weight": (VOCABULARY, WIDTH)}
    folder.mkdir()
    filled = {name: torch.rand(shape) for name, shape in tensors.items()}
    save_file(filled, folder / "model.safetensors")
    settings = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": WIDTH,
        "intermediate_size": WIDTH,
        "num_attention_heads": 4,
        "num_hidden_layers": 1,
        "vocab_size": VOCABULARY,
        "eagle_aux_hidden_state_layer_ids": [2],
    }
    (folder / "config.json").write_text(json.dumps(settings))
    return folder


def run(engine: Engine, *sequences: Sequence) -> list[list[int]]:
    for sequence in sequences:
        engine.add(sequence)
    while engine.has_work or engine.is_fetching:
        engine.step()
    return [sequence.token_ids[sequence.prompt_length :] for sequence in sequences]


@pytest.mark.parametrize("size", [(77, 50), (30, 90), (16, 8)])
def test_embeddings_equal_those_of_transformers(
    model: SeeingModel, runner: CudaModelRunner, size: tuple[int, int]
) -> None:
    assert runner.pictures is not None
    shown = picture(1, *size)
    found = np.concatenate([span.embeddings for span in runner.pictures.encode(shown).spans])
    expected = model.embeddings(shown).numpy()
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < 1e-3


def test_projector_gives_the_same_embeddings(
    model: SeeingModel, runner: CudaModelRunner, tmp_path: Path
) -> None:
    projector = write_projector_of(model, tmp_path / "mmproj.gguf")
    other = load(model, projector_path=str(projector))
    assert runner.pictures is not None
    assert other.pictures is not None
    shown = picture(1)
    found, expected = other.pictures.encode(shown), runner.pictures.encode(shown)
    assert found.token_ids == expected.token_ids
    for one, two in zip(found.spans, expected.spans, strict=True):
        assert np.abs(one.embeddings - two.embeddings).max() < 1e-3
    assert other.state_key != runner.state_key
    other.close()


@pytest.mark.slow
@pytest.mark.parametrize("changed", ["projection_dim", "attention.head_count", "patch_size"])
def test_model_is_loaded_without_an_encoder_that_does_not_fit(
    model: SeeingModel, tmp_path: Path, changed: str
) -> None:
    wrong = {"projection_dim": 64, "attention.head_count": 3, "patch_size": 2}[changed]
    projector = write_projector_of(model, tmp_path / "mmproj.gguf", **{changed: wrong})
    blind = load(model, projector_path=str(projector))
    assert blind.pictures is None
    assert "does not see pictures" in blind.info().warnings[-1]
    blind.close()


def test_logits_equal_those_of_transformers(model: SeeingModel, runner: CudaModelRunner) -> None:
    """The prompt up to the end of its picture in one step, the rest token by token."""
    shown = picture(2)
    sequence = sequence_of(runner, "w1 w2", shown, TEXT)
    expected = model.logits(sequence.token_ids, shown)
    sequence.slot, sequence.block_table = 0, list(range(40))
    first = sequence.pictures[-1].end
    assert len(sequence.token_ids) - first >= 50
    for count in [first, *[1] * (len(sequence.token_ids) - first)]:
        batch = Batch([ScheduledChunk(sequence, count, samples=True)])
        found = runner.compute(batch)
        sequence.num_computed += count
        wanted = expected[sequence.num_computed - 1]
        assert float((found[-1] - wanted).abs().max() / expected.abs().max()) < 1e-4


def test_chunks_batches_and_prefixes_do_not_change_answers(
    model: SeeingModel, runner: CudaModelRunner
) -> None:
    prompts = [
        (TEXT[:40], picture(1), " w2 ", picture(3, 40, 90), " w3"),
        (TEXT,),
        (picture(4), "w5"),
        (TEXT[:40], picture(1), " w2 w9"),
    ]
    alone = [run(Engine(runner), sequence_of(runner, *prompt))[0] for prompt in prompts]
    assert len({tuple(answer) for answer in alone}) >= 3
    assert run(Engine(runner), *(sequence_of(runner, *prompt) for prompt in prompts)) == alone
    engine = Engine(runner)
    assert run(engine, sequence_of(runner, *prompts[0])) == alone[:1]
    again = sequence_of(runner, *prompts[3])
    assert run(engine, again) == alone[3:]
    assert again.cached_tokens > again.pictures[-1].end
    small = load(model, batch=24)
    try:
        found = run(Engine(small), *(sequence_of(small, *prompt) for prompt in prompts))
        assert found == alone
    finally:
        small.close()


def test_a_head_beside_pictures_changes_no_answer(tmp_path: Path) -> None:
    model = write_seeing_model(tmp_path / "model", "smolvlm")
    head = str(write_head(tmp_path / "head"))
    answers: list[list[list[int]]] = []
    for draft in (None, head):
        runner = load(model, draft_path=draft, speculation="draft", batch=256)
        assert runner.head.is_loaded is (draft is not None), runner.head.refused
        sequence = sequence_of(runner, TEXT, picture(1), "w2", max_tokens=40)
        sequence.speculates = draft is not None
        answers.append(run(Engine(runner) if draft is None else headed_engine(runner), sequence))
        assert (sequence.drafted_tokens > 0) is (draft is not None)
        runner.close()
    assert answers[0] == answers[1]


@pytest.mark.slow
def test_stored_pictures_are_restored(model: SeeingModel, tmp_path: Path) -> None:
    spec = KVStoreSpec(folder=str(tmp_path), model="m", disk_bytes=2**28, memory_bytes=2**28)
    prompt = (f"{TEXT} " * 4, picture(5), f" {TEXT} " * 5, picture(6), " w1")
    sequences: list[Sequence] = []
    answers: list[list[int]] = []
    for _ in range(2):
        runner = load(model, batch=256)
        store = KVStore(spec, runner.state_key)
        engine = Engine(runner, store=store)
        sequence = sequence_of(runner, *prompt)
        answers += run(engine, sequence)
        sequences.append(sequence)
        while engine.has_unsaved:
            engine.save(1.0)
        store.close(10)
        runner.close()
    cold, warm = sequences
    assert cold.cached_tokens == 0
    assert warm.cached_tokens > warm.pictures[0].end
    assert answers[0] == answers[1]


class WatchedTurns(Turns):
    @property
    def is_awaited(self) -> bool:
        return self._next.locked()


def test_waiting_thread_comes_before_the_one_that_comes_again() -> None:
    turns, order, waits = WatchedTurns(), list[str](), threading.Event()

    def step() -> None:
        waits.set()
        with turns:
            order.append("step")

    stepping = threading.Thread(target=step)
    with turns:
        stepping.start()
        waits.wait()
        while not turns.is_awaited:
            pass
        order.append("layer")
    with turns:
        order.append("next layer")
    stepping.join()
    assert order == ["layer", "step", "next layer"]


@pytest.mark.slow
def test_steps_while_a_picture_is_encoded(runner: CudaModelRunner) -> None:
    assert runner.pictures is not None
    expected = run(Engine(runner), sequence_of(runner, TEXT, max_tokens=40))
    encoding = threading.Thread(target=runner.pictures.encode, args=[picture(99, 400, 300)])
    encoding.start()
    assert run(Engine(runner), sequence_of(runner, TEXT, max_tokens=40)) == expected
    encoding.join()
