"""Pictures on llama.cpp: what the model computes, against libmtmd's own evaluation."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import llama_cpp
import numpy as np
import pytest
import torch
from msgspec import structs
from numpy.typing import NDArray

from ingle.backends.base.conversation import Picture
from ingle.backends.base.errors import RequestRejected
from ingle.backends.base.events import FinishReason
from ingle.backends.base.load_spec import KVStoreSpec, LoadSpec
from ingle.backends.base.picture_span import PictureSpan
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.kv_store.kv_store import KVStore
from ingle.backends.engine.sequence import Sequence
from ingle.backends.llama_cpp.model_runner import LlamaModelRunner
from ingle.models.vision.picture_encoders import is_known_encoder
from ingle.models.vision.vision_registry import open_vision
from tests.harness.small_projector import write_small_projector

KINDS = [("llama", "gemma3"), ("qwen2vl", "qwen2vl_merger"), ("llama", "idefics3")]
CLOSE = 1e-2
"""Of log-probabilities: keys and values are kept in half precision, and chunks differ."""


def picture(seed: int, width: int = 72, height: int = 48) -> Picture:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Picture(width=width, height=height, rgb=pixels.tobytes())


@pytest.fixture(scope="module", params=KINDS, ids=[kind for _, kind in KINDS])
def spec(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadSpec:
    from gpu.small_llama import write_small_llama

    folder = tmp_path_factory.mktemp("vision")
    architecture, kind = request.param
    model = write_small_llama(folder / "model.gguf", architecture=architecture, context=4096)
    projector = write_small_projector(folder / "mmproj.gguf", kind)
    return LoadSpec(
        engine="llama.cpp",
        path=str(model),
        projector_path=str(projector),
        context=2048,
        batch=64,
        slots=4,
    )


@pytest.fixture(scope="module")
def runner(spec: LoadSpec) -> Iterator[LlamaModelRunner]:
    runner = LlamaModelRunner(spec)
    yield runner
    runner.close()


def sequence_of(runner: LlamaModelRunner, *parts: str | Picture, max_tokens: int = 8) -> Sequence:
    assert runner.pictures is not None
    tokens, spans = [1], list[PictureSpan]()
    for part in parts:
        if isinstance(part, str):
            tokens += runner.tokenizer.encode(part, add_special=False, parse_special=True)
            continue
        encoded = runner.pictures.encode(part)
        spans += [replace(span, start=len(tokens) + span.start) for span in encoded.spans]
        tokens += encoded.token_ids
    return Sequence(
        "r",
        0,
        tokens,
        SamplingParams(temperature=0),
        max_tokens=max_tokens,
        logprobs=2,
        speculates=False,
        ignore_eos=True,
        pictures=tuple(spans),
    )


class Answer(NamedTuple):
    tokens: list[int]
    logprobs: list[float]


def run(engine: Engine, *sequences: Sequence) -> list[Answer]:
    answers = {sequence: Answer([], []) for sequence in sequences}
    others = Answer([], [])
    for sequence in sequences:
        engine.add(sequence)
    while engine.has_work or engine.is_fetching:
        for output in engine.step():
            answer = answers.get(output.sequence, others)
            answer.tokens.extend(output.token_ids)
            answer.logprobs.extend(one.logprob for one in output.logprobs or [])
    return list(answers.values())


def reference(spec: LoadSpec, first: str, shown: Picture, then: str) -> NDArray[np.float32]:
    """The log-probabilities after the prompt, evaluated by libmtmd's own helper."""
    from llama_cpp import mtmd_cpp

    lib: Any = mtmd_cpp
    api: Any = llama_cpp
    loaded = api.llama_model_load_from_file(spec.path.encode(), api.llama_model_default_params())
    params = api.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = 1024, 512, 512
    ctx = api.llama_init_from_model(loaded, params)
    settings = lib.mtmd_context_params_default()
    settings.use_gpu = settings.warmup = False
    mtmd = lib.mtmd_init_from_file(str(spec.projector_path).encode(), loaded, settings)
    pixels = (ctypes.c_uint8 * len(shown.rgb)).from_buffer_copy(shown.rgb)
    bitmap = lib.mtmd_bitmap_init(shown.width, shown.height, pixels)
    chunks = lib.mtmd_input_chunks_init()
    prompt = f"{first}<__media__>{then}".encode()
    text = lib.mtmd_input_text(prompt, len(prompt), True, True)
    assert not lib.mtmd_tokenize(mtmd, chunks, ctypes.byref(text), (ctypes.c_void_p * 1)(bitmap), 1)
    past = llama_cpp.llama_pos()
    assert not lib.mtmd_helper_eval_chunks(mtmd, ctx, chunks, 0, 0, 512, True, ctypes.byref(past))
    size = api.llama_vocab_n_tokens(api.llama_model_get_vocab(loaded))
    logits = np.ctypeslib.as_array(api.llama_get_logits_ith(ctx, -1), (size,)).copy()
    lib.mtmd_input_chunks_free(chunks)
    lib.mtmd_bitmap_free(bitmap)
    lib.mtmd_free(mtmd)
    api.llama_free(ctx)
    api.llama_model_free(loaded)
    return logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()


def test_picture_is_computed_as_libmtmd_does(spec: LoadSpec, runner: LlamaModelRunner) -> None:
    if len(sequence_of(runner, picture(1)).pictures) > 1:
        pytest.skip("libmtmd aborts, since the marks of tiles are not in the small vocabulary")
    expected = reference(spec, "see ", picture(1), " what")
    (answer,) = run(Engine(runner), sequence_of(runner, "see ", picture(1), " what"))
    assert answer.tokens[0] == int(expected.argmax())
    assert abs(answer.logprobs[0] - expected.max()) < CLOSE


def test_own_engine_encodes_the_same(spec: LoadSpec, runner: LlamaModelRunner) -> None:
    """A picture of the encoder's size, since llama.cpp resizes with other rounding and borders."""
    projector = Path(str(spec.projector_path))
    if not is_known_encoder(projector):
        pytest.skip("our own engine computes Qwen2.5-VL, not Qwen2-VL")
    vision, _ = open_vision(projector, 64, device=torch.device("cpu"), dtype=torch.float32)
    shown = picture(1, 64, 64)
    assert runner.pictures is not None
    expected = [span.embeddings for span in runner.pictures.encode(shown).spans]
    pixels = np.frombuffer(shown.rgb, np.uint8).reshape(64, 64, 3)
    found = [part for part in vision.encode(pixels) if not isinstance(part, str)]
    for one, other in zip(found, expected, strict=True):
        # llama.cpp reads GELU from a table.
        assert np.abs(one.embeddings.numpy() - other).max() < 3e-3


def test_pictures_and_texts_in_one_batch(runner: LlamaModelRunner) -> None:
    prompts = [
        ("the ", picture(1), " and the ", picture(2, 40, 90), " there"),
        ("then the text",),
        (picture(3), "in"),
        ("the ", picture(2, 40, 90), " and the ", picture(1), " there"),
    ]
    alone = [run(Engine(runner), sequence_of(runner, *prompt))[0] for prompt in prompts]
    together = run(Engine(runner), *(sequence_of(runner, *prompt) for prompt in prompts))
    for one, other in zip(alone, together, strict=True):
        assert one.tokens == other.tokens
        assert np.allclose(one.logprobs, other.logprobs, atol=CLOSE)
    assert len({tuple(answer.logprobs) for answer in together}) == len(prompts)


def test_prefix_with_a_picture_is_shared(runner: LlamaModelRunner) -> None:
    engine = Engine(runner)
    shown = picture(5)
    first = sequence_of(runner, "a " * 20, shown, " what is in it")
    run(engine, first)
    next_turn = sequence_of(runner, "a " * 20, shown, " what is in it then")
    (warm,) = run(engine, next_turn)
    assert next_turn.cached_tokens > first.pictures[-1].end
    (cold,) = run(Engine(runner), sequence_of(runner, "a " * 20, shown, " what is in it then"))
    assert warm.tokens == cold.tokens
    assert np.allclose(warm.logprobs, cold.logprobs, atol=CLOSE)


def test_other_picture_shares_only_the_text_before(runner: LlamaModelRunner) -> None:
    engine = Engine(runner)
    run(engine, sequence_of(runner, "a " * 20, picture(5), " what"))
    other = sequence_of(runner, "a " * 20, picture(6), " what")
    (warm,) = run(engine, other)
    assert 0 < other.cached_tokens <= other.pictures[0].start
    (cold,) = run(Engine(runner), sequence_of(runner, "a " * 20, picture(6), " what"))
    assert np.allclose(warm.logprobs, cold.logprobs, atol=CLOSE)


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_text_that_was_shared_before_a_picture_has_its_own_positions(
    runner: LlamaModelRunner, is_cancelled: bool
) -> None:
    engine = Engine(runner)
    begin, end = "a " * 40, "the end of it " * 10
    first = sequence_of(runner, begin, picture(5), end)
    engine.add(first)
    engine.step()
    if is_cancelled:
        engine.finish(first, FinishReason.CANCELLED)
    run(engine, sequence_of(runner, begin, end))
    third = sequence_of(runner, begin, end[:-20], "other")
    (warm,) = run(engine, third)
    assert third.cached_tokens > len(begin)
    (cold,) = run(Engine(runner), sequence_of(runner, begin, end[:-20], "other"))
    assert warm.tokens == cold.tokens
    assert np.allclose(warm.logprobs, cold.logprobs, atol=CLOSE)


def test_same_picture_is_encoded_once(runner: LlamaModelRunner) -> None:
    assert runner.pictures is not None
    first, again = runner.pictures.encode(picture(8)), runner.pictures.encode(picture(8))
    assert again is first
    other = runner.pictures.encode(picture(9))
    own = {token for token in first.token_ids if token < 0}
    assert len(own) == sum(span.length for span in first.spans)
    assert not own & set(other.token_ids)


def test_cancelled_within_a_picture(runner: LlamaModelRunner) -> None:
    engine = Engine(runner)
    shown = picture(10, 160, 120)  # more tokens than a step computes, where it may be cut
    ended = sequence_of(runner, "a " * 20, shown, " what")
    engine.add(ended)
    for _ in range(2):
        engine.step()
    engine.finish(ended, FinishReason.CANCELLED)
    (warm,) = run(engine, sequence_of(runner, "a " * 20, shown, " what"))
    (cold,) = run(Engine(runner), sequence_of(runner, "a " * 20, shown, " what"))
    assert warm.tokens == cold.tokens
    assert np.allclose(warm.logprobs, cold.logprobs, atol=CLOSE)


def test_many_conversations_with_pictures_in_few_cells(spec: LoadSpec) -> None:
    small = LlamaModelRunner(structs.replace(spec, context=512, slots=4))
    wide = LlamaModelRunner(structs.replace(spec, context=2048, slots=4))
    try:
        prompts = [("the ", picture(n, 100, 80), " in " * n) for n in range(1, 9)]
        got = run(Engine(small), *(sequence_of(small, *p, max_tokens=24) for p in prompts))
        for prompt, answer in zip(prompts, got, strict=True):
            (alone,) = run(Engine(wide), sequence_of(wide, *prompt, max_tokens=24))
            assert answer.tokens == alone.tokens
    finally:
        small.close()
        wide.close()


def test_stored_pictures_are_restored(spec: LoadSpec, tmp_path: Path) -> None:
    stored = KVStoreSpec(folder=str(tmp_path), model="m", disk_bytes=2**28, memory_bytes=2**28)
    prompt = ("in the " * 60, picture(11), " and " * 100, picture(12), " the end")
    sequences: list[Sequence] = []
    answers: list[Answer] = []
    for _ in range(2):
        runner = LlamaModelRunner(spec)
        store = KVStore(stored, runner.state_key)
        engine = Engine(runner, store=store)
        sequence = sequence_of(runner, *prompt)
        sequences.append(sequence)
        answers += run(engine, sequence)
        while engine.has_unsaved:
            engine.save(1.0)
        store.close(10)
        runner.close()
    cold, warm = sequences
    first = warm.pictures[0]
    assert cold.cached_tokens == 0
    assert warm.cached_tokens > (first.start - 256 if first.axes is not None else first.end)
    assert answers[0].tokens == answers[1].tokens
    assert np.allclose(answers[0].logprobs, answers[1].logprobs, atol=CLOSE)


def test_projector_of_another_model(spec: LoadSpec, tmp_path: Path) -> None:
    other = write_small_projector(tmp_path / "mmproj.gguf", "gemma3", width=96)
    runner = LlamaModelRunner(structs.replace(spec, projector_path=str(other)))
    assert runner.pictures is None
    assert "does not see pictures" in runner.info().warnings[0]
    runner.close()


def test_picture_that_no_step_holds(spec: LoadSpec) -> None:
    runner = LlamaModelRunner(structs.replace(spec, batch=8))
    try:
        assert runner.pictures is not None
        encoded = runner.pictures.encode(picture(1, 8, 8))
        assert not encoded.spans[0].whole
    except RequestRejected as error:
        assert "larger batch" in (error.hint or "")  # noqa: PT017 - only one kind raises it
    finally:
        runner.close()
