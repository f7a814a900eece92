"""Prefix reuse by checkpoints in a hybrid model, whose recurrent state cannot be truncated.

The model has random weights, because no real one is available from a package index.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
import pytest

from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.sequence import Sequence
from ingle.backends.llama_cpp.model_runner import LlamaModelRunner

WIDTH, HEADS, WIDER, VOCAB, LAYERS = 32, 2, 64, 64, 4


@pytest.fixture(scope="module")
def lfm2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a model with two short-convolution and two attention layers."""
    path = tmp_path_factory.mktemp("lfm2") / "lfm2.gguf"
    writer = gguf.GGUFWriter(path, "lfm2")
    writer.add_block_count(LAYERS)
    writer.add_context_length(4096)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(WIDER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv([layer % 2 for layer in range(LAYERS)])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_uint32("lfm2.shortconv.l_cache", 3)
    writer.add_vocab_size(VOCAB)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([f"t{token}" for token in range(VOCAB)])
    writer.add_token_types([1] * VOCAB)
    writer.add_token_merges(["t 0"])
    writer.add_eos_token_id(0)
    writer.add_bos_token_id(1)
    random = np.random.default_rng(0)
    for name, *shape in _tensors():
        scale = 1 / np.sqrt(shape[-1])
        norm = name.endswith("norm.weight")
        weights = np.ones(shape) if norm else random.normal(0, scale, shape)
        writer.add_tensor(name, weights.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tensors() -> list[tuple[str, *tuple[int, ...]]]:
    head = WIDTH // HEADS
    feed_forward = {
        "ffn_gate": (WIDER, WIDTH),
        "ffn_up": (WIDER, WIDTH),
        "ffn_down": (WIDTH, WIDER),
    }
    norms = {"ffn_norm": (WIDTH,), "attn_norm": (WIDTH,)}
    attention = {
        "attn_q_norm": (head,),
        "attn_k_norm": (head,),
        "attn_q": (WIDTH, WIDTH),
        "attn_k": (head, WIDTH),
        "attn_v": (head, WIDTH),
        "attn_output": (WIDTH, WIDTH),
    }
    convolution = {
        "shortconv.conv": (WIDTH, 3),
        "shortconv.in_proj": (3 * WIDTH, WIDTH),
        "shortconv.out_proj": (WIDTH, WIDTH),
    }
    return [
        ("token_embd.weight", VOCAB, WIDTH),
        ("token_embd_norm.weight", WIDTH),
        *(
            (f"blk.{layer}.{name}.weight", *shape)
            for layer in range(LAYERS)
            for name, shape in (
                norms | feed_forward | (attention if layer % 2 else convolution)
            ).items()
        ),
    ]


def _opened(path: Path) -> Iterator[LlamaModelRunner]:
    spec = LoadSpec(engine="llama.cpp", path=str(path), context=2048, slots=2, batch=128, threads=1)
    runner = LlamaModelRunner(spec)
    yield runner
    runner.close()


@pytest.fixture
def runner(lfm2: Path) -> Iterator[LlamaModelRunner]:
    yield from _opened(lfm2)


@pytest.fixture(scope="module")
def cold(lfm2: Path) -> Iterator[LlamaModelRunner]:
    """Return another runner of the same model, whose cache is cleared between prompts."""
    yield from _opened(lfm2)


def ask(engine: Engine, tokens: list[int]) -> Sequence:
    sampling = SamplingParams(temperature=0)
    sequence = Sequence("r", 0, list(tokens), sampling, max_tokens=40, ignore_eos=True)
    engine.add(sequence)
    while engine.has_work:
        engine.step()
    return sequence


def chat(seed: int, length: int) -> list[int]:
    return np.random.default_rng(seed).integers(2, VOCAB, length).tolist()


def ask_without_cache(runner: LlamaModelRunner, sequence: Sequence) -> Sequence:
    again = ask(Engine(runner), sequence.token_ids[: sequence.prompt_length])
    assert again.cached_tokens == 0
    return again


def answer(sequence: Sequence) -> list[int]:
    return sequence.token_ids[sequence.prompt_length :]


def test_edit_resumes_from_the_checkpoint_before_it(
    runner: LlamaModelRunner, cold: LlamaModelRunner
) -> None:
    assert not runner.can_fork
    engine = Engine(runner)
    first = ask(engine, chat(1, 300))
    second = ask(engine, first.token_ids + chat(2, 50))
    assert second.cached_tokens == len(first.token_ids) - 1, "its end is as good as a checkpoint"
    third = ask(engine, second.token_ids + chat(3, 50))
    for turn in (third, second, first):
        edited = ask(engine, turn.token_ids[: turn.prompt_length - 2] + chat(4, 60))
        assert edited.cached_tokens == turn.prompt_length - 4


def test_repeated_prompt_computes_only_its_end(runner: LlamaModelRunner) -> None:
    engine = Engine(runner)
    first = ask(engine, chat(1, 300))
    again = ask(engine, chat(1, 300))
    assert again.cached_tokens == 296
    assert answer(again) == answer(first)


def test_parallel_conversations_do_not_interfere(
    runner: LlamaModelRunner, cold: LlamaModelRunner
) -> None:
    engine = Engine(runner)
    turns = [ask(engine, chat(seed, 200)) for seed in range(3)]
    for turn in turns:
        following = ask(engine, turn.token_ids + chat(7, 30))
        assert following.cached_tokens == len(turn.token_ids) - 1
        assert answer(following) == answer(ask_without_cache(cold, following))
