"""Speculative decoding is lossless: sampling with drafts has the distribution of sampling without.

The test's model has its attention silenced: the next token depends only on the last one, so every
distribution is known exactly. Drafts, verification, sampler chains and scheduler are the real ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import gguf
import llama_cpp
import numpy as np
import pytest
from numpy.typing import NDArray

from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.sequence import Sequence
from ingle.backends.llama_cpp.model_runner import LlamaModelRunner
from tests.harness.chi_square import Probabilities, deviation

WIDTH, HEADS, WIDER, VOCAB = 32, 2, 32, 24
LENGTH, SEQUENCES, SLOTS = 128, 800, 8
SAMPLING = SamplingParams(temperature=0.9, top_k=10, top_p=1.0, min_p=0.0, seed=20_000)
"""With one seed, each sequence still has its own: its index is added."""

DraftRule = Callable[[int], int]


class OpenRunner(LlamaModelRunner):
    """Exposes the logits of the last step."""

    def logits(self) -> Probabilities:
        shape = (1, VOCAB)
        logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits(self._ctx), shape)
        return logits[0].astype(np.float64)


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenRunner]:
    path = tmp_path_factory.mktemp("markov") / "markov.gguf"
    _write_model(path)
    spec = LoadSpec(
        engine="llama.cpp",
        path=str(path),
        context=256,
        kv_capacity=1280,
        slots=SLOTS,
        batch=64,
        threads=1,
    )
    runner = OpenRunner(spec)
    yield runner
    runner.close()


@pytest.fixture(scope="module")
def transitions(runner: OpenRunner) -> Probabilities:
    """Return the probabilities of the tokens after token t in row t, from the logits."""
    matrix = np.zeros((VOCAB, VOCAB))
    for token in range(VOCAB):
        sequence = Sequence("r", 0, [token], SamplingParams(temperature=0))
        sequence.slot = 0
        batch = Batch()
        batch.add(sequence, 1)
        runner.launch(batch)
        runner.collect()
        logits = runner.logits() / SAMPLING.temperature
        runner.release(0)
        allowed = np.argsort(-logits)[: SAMPLING.top_k]
        weights = np.exp(logits[allowed] - logits.max())
        matrix[token, allowed] = weights / weights.sum()
    return matrix


class FixedSpeculator:
    """Drafts two tokens for every sequence by a rule that sees the last token."""

    def __init__(self, draft_rule: DraftRule) -> None:
        self._draft_rule = draft_rule

    def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        drafts: dict[Sequence, tuple[int, ...]] = {}
        for sequence in decoding:
            most = min(2, room // len(decoding), LENGTH - sequence.num_generated - 1)
            tokens = [sequence.token_ids[-1]]
            for _ in range(most):
                tokens.append(self._draft_rule(tokens[-1]))
            drafts[sequence] = tuple(tokens[1:])
        return drafts

    def waits(self, decoding: list[Sequence], room: int) -> bool:
        return True

    def observe(self, batch: Batch, seconds: float) -> None: ...

    def forget(self, sequence: Sequence) -> None: ...


def count_transitions(
    runner: LlamaModelRunner, draft_rule: DraftRule
) -> tuple[NDArray[np.int64], Engine]:
    """Return how often each token followed each other one, over all sequences."""
    engine = Engine(runner, FixedSpeculator(draft_rule))
    sequences = [
        Sequence("r", index, [2 + index % 20], SAMPLING, max_tokens=LENGTH, ignore_eos=True)
        for index in range(SEQUENCES)
    ]
    for sequence in sequences:
        engine.add(sequence)
    while engine.has_work:
        engine.step()
    counts = np.zeros((VOCAB, VOCAB), np.int64)
    for sequence in sequences:
        np.add.at(counts, (sequence.token_ids[:-1], sequence.token_ids[1:]), 1)
    return counts, engine


@pytest.mark.slow
@pytest.mark.parametrize("adversary", ["likeliest", "unlikeliest", "random"])
def test_drafts_do_not_change_the_distribution(
    runner: OpenRunner, transitions: Probabilities, adversary: str
) -> None:
    rng = np.random.default_rng(11)
    possible = np.where(transitions > 0, transitions, 2)
    rules: dict[str, DraftRule] = {
        "likeliest": lambda last: int(transitions[last].argmax()),
        "unlikeliest": lambda last: int(possible[last].argmin()),
        "random": lambda _: int(rng.integers(VOCAB)),
    }
    counts, engine = count_transitions(runner, rules[adversary])
    assert counts.sum() == SEQUENCES * LENGTH > 100_000
    assert deviation(counts, transitions) < 3.5
    gauges = engine.gauges()
    rate = gauges.accepted_tokens_total / gauges.drafted_tokens_total
    low, high = {"likeliest": (0.15, 0.9), "unlikeliest": (0, 0.1), "random": (0.01, 0.1)}[
        adversary
    ]
    assert low < rate < high


def test_deviation_detects_a_wrong_verifier(transitions: Probabilities) -> None:
    """A verifier that resamples from the full distribution after a rejection favours drafts."""
    rng = np.random.default_rng(3)
    counts = np.zeros((VOCAB, VOCAB), np.int64)
    for token in range(VOCAB):
        row = transitions[token]
        favoured = row * (1 - row.max())
        favoured[row.argmax()] += row.max()
        counts[token] = rng.multinomial(SEQUENCES * LENGTH // VOCAB, favoured)
    assert deviation(counts, transitions) > 20
    for token in range(VOCAB):
        counts[token] = rng.multinomial(SEQUENCES * LENGTH // VOCAB, transitions[token])
    assert deviation(counts, transitions) < 3.5


@pytest.mark.parametrize(
    "penalties",
    [{"repeat_penalty": 1.3}, {"presence_penalty": 0.8, "frequency_penalty": 0.4}],
)
def test_penalties_count_only_accepted_draft_tokens(
    runner: OpenRunner, transitions: Probabilities, penalties: dict[str, float]
) -> None:
    """Draft positions are penalised for the drafts before them, which a rejection takes back."""
    sampling = SamplingParams(temperature=0.9, top_k=0, top_p=1.0, min_p=0.0, seed=5, **penalties)  # pyright: ignore[reportArgumentType]

    def generate(draft_rule: DraftRule | None) -> tuple[list[int], Engine]:
        engine = Engine(runner, FixedSpeculator(draft_rule) if draft_rule else None)
        sequence = Sequence("r", 0, [3], sampling, max_tokens=LENGTH, ignore_eos=True)
        engine.add(sequence)
        while engine.has_work:
            engine.step()
        return sequence.token_ids, engine

    plain, _ = generate(None)
    drafted, engine = generate(lambda last: int(transitions[last].argmax()))
    assert drafted == plain
    gauges = engine.gauges()
    assert 5 < gauges.accepted_tokens_total < gauges.drafted_tokens_total


def _write_model(path: Path) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(512)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(WIDER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(VOCAB)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([f"t{token}" for token in range(VOCAB)])
    writer.add_token_types([1] * VOCAB)
    writer.add_token_merges(["t 0"])
    writer.add_eos_token_id(0)
    writer.add_bos_token_id(1)
    random = np.random.default_rng(7)
    block = {
        "attn_q": (WIDTH, WIDTH),
        "attn_k": (WIDTH, WIDTH),
        "attn_v": (WIDTH, WIDTH),
        "attn_output": (WIDTH, WIDTH),
        "ffn_gate": (WIDER, WIDTH),
        "ffn_up": (WIDER, WIDTH),
        "ffn_down": (WIDTH, WIDER),
        "attn_norm": (WIDTH,),
        "ffn_norm": (WIDTH,),
    }
    tensors = {f"blk.0.{name}": shape for name, shape in block.items()}
    tensors |= {"token_embd": (VOCAB, WIDTH), "output": (VOCAB, WIDTH), "output_norm": (WIDTH,)}
    for name, shape in tensors.items():
        weights = random.normal(0, 1.5 / math.sqrt(shape[-1]), shape)
        if name.endswith("norm"):
            weights = np.ones(shape)
        if name.endswith("attn_output"):
            weights = np.zeros(shape)
        writer.add_tensor(f"{name}.weight", weights.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
