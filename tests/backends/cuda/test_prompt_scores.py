"""Log-probabilities of prompts, on both engines: those that the same tokens had when sampled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.local_runner import LocalRunner
from ingle.backends.engine.prescribed_tokens import PrescribedTokens
from ingle.backends.engine.sequence import Sequence
from ingle.backends.llama_cpp.model_runner import LlamaModelRunner

if TYPE_CHECKING:
    from .conftest import LoadModel


def prompt(seed: int, length: int) -> list[int]:
    return np.random.default_rng(seed).integers(2, 90, length).tolist()


GREEDY = SamplingParams(temperature=0)
SEEDED = SamplingParams(temperature=0.9, seed=5, repeat_penalty=1.2)


@pytest.fixture(params=["cuda", "llama.cpp"])
def runner(
    request: pytest.FixtureRequest, load_model: LoadModel, tiny_path: Path
) -> Iterator[LocalRunner]:
    if request.param == "cuda":
        yield load_model(tiny_path)
        return
    loaded = LlamaModelRunner(
        LoadSpec(engine="llama.cpp", path=str(tiny_path), context=512, threads=1, slots=4)
    )
    yield loaded
    loaded.close()


def scored(
    runner: LocalRunner, tokens: list[int], max_tokens: int = 1, sampling: SamplingParams = GREEDY
) -> Sequence:
    """A sequence whose prompt is scored."""
    return Sequence(
        "scored",
        0,
        tokens[:1],
        sampling,
        max_tokens=max_tokens,
        logprobs=2,
        scored=tokens,
        constraint=PrescribedTokens(tokens[1:], runner.tokenizer.vocab_size),
    )


def run(runner: LocalRunner, *sequences: Sequence) -> tuple[dict[Sequence, list[float]], Engine]:
    """The log-probabilities of all tokens that the sequences got."""
    engine = Engine(runner)
    found: dict[Sequence, list[float]] = {sequence: [] for sequence in sequences}
    for sequence in sequences:
        engine.add(sequence)
    while engine.has_work:
        for output in engine.step():
            found[output.sequence] += [each.logprob for each in output.logprobs or ()]
    return found, engine


def test_scores_of_a_generated_text_are_those_of_its_generation(runner: LocalRunner) -> None:
    generated = Sequence("r", 0, prompt(3, 40), GREEDY, max_tokens=50, ignore_eos=True, logprobs=2)
    (chances,) = run(runner, generated)[0].values()
    again = scored(runner, list(generated.token_ids))
    (scores,) = run(runner, again)[0].values()
    assert again.token_ids[:-1] == generated.token_ids
    assert len(scores) == 40 + 50  # none of the first token, one of the token that follows
    np.testing.assert_allclose(scores[39:-1], chances, atol=2e-2)
    assert again.num_generated == 1
    assert (again.drafted_tokens, again.accepted_tokens) == (0, 0)


def test_scores_do_not_depend_on_what_runs_beside_them(runner: LocalRunner) -> None:
    tokens = prompt(1, 60)
    (alone,) = run(runner, scored(runner, tokens))[0].values()
    others = [
        Sequence("a", 0, prompt(2, 30), GREEDY, max_tokens=40, ignore_eos=True),
        scored(runner, prompt(4, 25)),
        Sequence("b", 0, prompt(5, 90), SEEDED, max_tokens=20, ignore_eos=True),
    ]
    beside = scored(runner, tokens)
    found, engine = run(runner, *others, beside)
    np.testing.assert_allclose(found[beside], alone, atol=5e-2)  # other batch shapes
    gauges = engine.gauges()
    assert gauges.completion_tokens_total == 40 + 1 + 20 + 1
    assert gauges.prompt_tokens_total >= 30 + 25 + 90 + 60 - 4
    assert gauges.drafted_tokens_total == 0


def test_an_answer_follows_a_scored_prompt_as_any_other(runner: LocalRunner) -> None:
    tokens = prompt(7, 33)
    plain = Sequence("plain", 0, list(tokens), SEEDED, max_tokens=15, ignore_eos=True)
    run(runner, plain)
    answered = scored(runner, tokens, max_tokens=15, sampling=SEEDED)
    answered.ignore_eos = True
    run(runner, answered)
    assert answered.token_ids == plain.token_ids


def test_a_token_that_ends_answers_does_not_end_a_scored_prompt(runner: LocalRunner) -> None:
    vocabulary = range(runner.tokenizer.vocab_size)
    eog = next(token for token in vocabulary if runner.is_eog(token))
    tokens = [*prompt(8, 10), eog, *prompt(9, 10)]
    sequence = scored(runner, tokens)
    (scores,) = run(runner, sequence)[0].values()
    assert sequence.token_ids[:-1] == tokens
    assert len(scores) == len(tokens)
