"""The llama.cpp runner with a real model, against llama-cpp-python's own `Llama`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import llama_cpp
import numpy as np
import pytest

from ingle.backends.base.errors import FileRejected
from ingle.backends.base.events import FinishReason
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.kv.cell_cache import CellCache
from ingle.backends.engine.sequence import Sequence
from ingle.backends.llama_cpp.model_runner import LlamaModelRunner

pytestmark = pytest.mark.model

GREEDY = SamplingParams(temperature=0)
PROMPTS = [
    "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nName three fruits.<|im_end|>\n<|im_start|>assistant\n",
    "def fibonacci(n):",
    "Once upon a time, in a small village by the sea,",
]


def make_runner(path: Path, **fields: int) -> LlamaModelRunner:
    spec = {"context": 2048, "slots": 8} | fields
    return LlamaModelRunner(LoadSpec(engine="llama.cpp", path=str(path), **spec))  # pyright: ignore[reportArgumentType]


@pytest.fixture(scope="module")
def runner(smollm2_path: Path) -> Iterator[LlamaModelRunner]:
    runner = make_runner(smollm2_path)
    yield runner
    runner.close()


@pytest.fixture(scope="module")
def reference(smollm2_path: Path) -> Iterator[llama_cpp.Llama]:
    model = llama_cpp.Llama(
        str(smollm2_path), n_ctx=2048, flash_attn=True, verbose=False, logits_all=False
    )
    yield model
    model.close()


def sequence_of(
    runner: LlamaModelRunner,
    text: str,
    sampling: SamplingParams = GREEDY,
    max_tokens: int = 48,
    index: int = 0,
    parent: Sequence | None = None,
) -> Sequence:
    tokens = runner.tokenizer.encode(text, add_special=True, parse_special=True)
    return Sequence("r", index, tokens, sampling, max_tokens=max_tokens, parent=parent)


def run(runner: LlamaModelRunner, *sequences: Sequence) -> Engine:
    engine = Engine(runner)
    for sequence in sequences:
        engine.add(sequence)
    while engine.has_work:
        engine.step()
    return engine


def generated(sequence: Sequence) -> list[int]:
    return sequence.token_ids[sequence.prompt_length :]


def test_tokens_equal_the_reference(runner: LlamaModelRunner, reference: llama_cpp.Llama) -> None:
    for text in [*PROMPTS, "naïve 🙂 <|im_end|> \u0000x", "  two  spaces\n\n"]:
        ours = runner.tokenizer.encode(text, add_special=True, parse_special=True)
        assert ours == reference.tokenize(text.encode(), add_bos=True, special=True)


@pytest.mark.slow
@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedy_output_equals_the_reference(
    runner: LlamaModelRunner, reference: llama_cpp.Llama, prompt: str
) -> None:
    sequence = sequence_of(runner, prompt)
    run(runner, sequence)
    ours = generated(sequence)
    theirs: list[int] = []
    for token in reference.generate(sequence.token_ids[: sequence.prompt_length], temp=0.0):
        theirs.append(token)
        if len(theirs) == len(ours):
            break
    assert ours == theirs
    assert len(ours) == 48 or sequence.finish_reason is FinishReason.STOP


def test_greedy_completion_of_a_known_fact(runner: LlamaModelRunner) -> None:
    sequence = sequence_of(runner, PROMPTS[0])
    run(runner, sequence)
    answer = b"".join(map(runner.tokenizer.token_bytes, generated(sequence)))
    assert answer == b"The capital of France is Paris."


@pytest.mark.slow
def test_choices_of_one_prompt_equal_separate_requests(runner: LlamaModelRunner) -> None:
    """With a peaked distribution and fixed seeds, sharing the prompt changes nothing."""
    sampling = SamplingParams(temperature=0.3, seed=7)
    first = sequence_of(runner, PROMPTS[0], sampling)
    others = [sequence_of(runner, PROMPTS[0], sampling, index=i, parent=first) for i in (1, 2)]
    engine = run(runner, first, *others)
    assert engine.gauges().prompt_tokens_total == first.prompt_length + 2
    for index, sequence in enumerate([first, *others]):
        alone = sequence_of(runner, PROMPTS[0], sampling, index=index)
        run(runner, alone)
        assert generated(sequence) == generated(alone)


@pytest.mark.slow
def test_equal_seeds_repeat_and_others_differ(runner: LlamaModelRunner) -> None:
    def sample(seed: int) -> list[int]:
        sequence = sequence_of(runner, PROMPTS[3], SamplingParams(temperature=1.5, seed=seed))
        run(runner, sequence)
        return generated(sequence)

    for seed in (1, -1, 2**32 - 1):
        assert sample(seed) == sample(seed)
    assert sample(1) != sample(2)


def test_logit_bias_forbids_and_forces(runner: LlamaModelRunner) -> None:
    free = sequence_of(runner, PROMPTS[0], max_tokens=4)
    run(runner, free)
    first = generated(free)[0]
    forbidden = SamplingParams(temperature=0, logit_bias={first: -100.0})
    other = sequence_of(runner, PROMPTS[0], forbidden, max_tokens=4)
    run(runner, other)
    assert first not in generated(other)
    forced = SamplingParams(temperature=0, logit_bias={100: 100.0})
    one = sequence_of(runner, PROMPTS[0], forced, max_tokens=4)
    run(runner, one)
    assert generated(one) == [100] * 4


@pytest.mark.slow
def test_penalties_count_generated_tokens_only(runner: LlamaModelRunner) -> None:
    """Prompt tokens are not penalised; generated tokens are, at each repetition."""
    plain = sequence_of(runner, PROMPTS[3], max_tokens=48)
    penalised = sequence_of(
        runner, PROMPTS[3], SamplingParams(temperature=0, presence_penalty=2.0), max_tokens=48
    )
    run(runner, plain)
    run(runner, penalised)
    # The first token depends on the prompt alone, whatever the prompt repeats.
    assert generated(penalised)[0] == generated(plain)[0]
    assert len(set(generated(penalised))) > len(set(generated(plain)))


@pytest.mark.slow
def test_preempted_sequences_resume(smollm2_path: Path) -> None:
    runner = make_runner(smollm2_path, context=256, slots=4)
    try:
        sequences = [sequence_of(runner, prompt, max_tokens=120) for prompt in PROMPTS]
        for sequence in sequences:
            sequence.ignore_eos = True
        engine = run(runner, *sequences)
        assert engine.scheduler.preemptions > 0
        assert [sequence.num_generated for sequence in sequences] == [120] * 4
        assert engine.scheduler.kv.used == 0
    finally:
        runner.close()


def test_info_reports_what_was_allocated(runner: LlamaModelRunner) -> None:
    info = runner.info()
    assert info.architecture == "llama"
    assert (info.parameters, info.vocab_size) == (134515008, 49152)
    assert (info.trained_context, info.context, info.layers) == (8192, 2048, 30)
    assert info.kv_bytes == 2048 * 30 * 2 * 192 * 2
    assert info.weights_bytes > 90 * 2**20
    # The logits of a whole batch alone would be 96 MiB.
    assert 10 * 2**20 < info.compute_bytes < 30 * 2**20


def test_all_slots_may_sample_in_one_step(smollm2_path: Path) -> None:
    runner = make_runner(smollm2_path, context=512, slots=4)
    try:
        alone = [sequence_of(runner, prompt, max_tokens=1) for prompt in PROMPTS]
        for sequence in alone:
            run(runner, sequence)
        together = [sequence_of(runner, prompt, max_tokens=1) for prompt in PROMPTS]
        assert run(runner, *together).gauges().steps_total == 1
        assert list(map(generated, together)) == list(map(generated, alone))
    finally:
        runner.close()


@pytest.mark.parametrize("keep", [0.001, 0.01, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.99999])
def test_truncated_file_is_a_load_error(smollm2_path: Path, tmp_path: Path, keep: float) -> None:
    size = int(smollm2_path.stat().st_size * keep)
    broken = tmp_path / "broken.gguf"
    with smollm2_path.open("rb") as source:
        broken.write_bytes(source.read(size))
    with pytest.raises(FileRejected, match=r"cannot load broken\.gguf") as caught:
        make_runner(broken)
    assert cast("str", caught.value.hint)
    assert "failed to load model" not in caught.value.message, "that is no reason"


@pytest.mark.slow
def test_turn_with_a_cached_prefix_equals_the_reference(
    runner: LlamaModelRunner, reference: llama_cpp.Llama
) -> None:
    """Kept or truncated cells equal those of the same tokens computed again in the same chunks."""
    encode = runner.tokenizer.encode
    text = "The lighthouse keeper counted the ships every evening. " * 12
    story = encode(text, add_special=True, parse_special=True)
    question = encode("He asked himself why", add_special=False, parse_special=False)
    engine = Engine(runner)

    def ask(tokens: list[int], max_tokens: int) -> Sequence:
        sequence = Sequence("r", 0, list(tokens), GREEDY, max_tokens=max_tokens, ignore_eos=True)
        engine.add(sequence)
        while engine.has_work:
            engine.step()
        return sequence

    ask(story, 1)
    for kept in (len(story), 60):
        asked = ask(story[:kept] + question, 24)
        assert asked.cached_tokens == kept
        reference.reset()
        reference.eval(story[:kept])
        stream = reference.generate(story[:kept] + question, temp=0.0)
        assert generated(asked) == list(itertools.islice(stream, 24))


class AlternatingSpeculator:
    """Drafts the known answer, with a wrong last token in every other step."""

    def __init__(self, truth: list[int]) -> None:
        self._truth = truth

    def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        (sequence,) = decoding
        known = sequence.num_generated
        draft = self._truth[known : known + 3]
        if known % 2:
            draft[-1:] = [17]
        return {sequence: tuple(draft)}

    def waits(self, decoding: list[Sequence], room: int) -> bool:
        return True

    def observe(self, batch: Batch, seconds: float) -> None: ...

    def forget(self, sequence: Sequence) -> None: ...


@pytest.mark.slow
@pytest.mark.parametrize(
    "sampling", [GREEDY, SamplingParams(temperature=0.9, seed=5, repeat_penalty=1.2)]
)
def test_drafts_do_not_change_output(runner: LlamaModelRunner, sampling: SamplingParams) -> None:
    """Rejected drafts affect neither cells, text nor the random stream."""
    plain = sequence_of(runner, PROMPTS[2], sampling, max_tokens=24)
    run(runner, plain)
    drafted = sequence_of(runner, PROMPTS[2], sampling, max_tokens=24)
    engine = Engine(runner, AlternatingSpeculator(generated(plain)))
    engine.add(drafted)
    while engine.has_work:
        engine.step()
    assert generated(drafted) == generated(plain)
    assert 0 < drafted.accepted_tokens < drafted.drafted_tokens
    gauges = engine.gauges()
    assert gauges.completion_tokens_total == len(generated(plain))
    assert gauges.accepted_tokens_total == drafted.accepted_tokens
    assert gauges.kv_used == 0


@pytest.mark.slow
def test_restored_snapshot_continues_like_the_original(runner: LlamaModelRunner) -> None:
    """Taken in two parts and restored into another slot."""
    encode = runner.tokenizer.encode
    text = "The lighthouse keeper counted the ships every evening. " * 12
    tokens = encode(text, add_special=True, parse_special=True)
    cut, end = 64, len(tokens) - 1

    def compute(slot: int, start: int, stop: int) -> list[int]:
        sequence = Sequence("r", 0, tokens[:stop], GREEDY)
        sequence.slot, sequence.num_computed = slot, start
        batch = Batch()
        batch.add(sequence, stop - start)
        runner.launch(batch)
        return runner.collect()[0].token_ids

    def decode(slot: int) -> list[int]:
        answer = list(tokens)
        while len(answer) < len(tokens) + 24:
            sequence = Sequence("r", 0, answer, GREEDY)
            sequence.slot, sequence.num_computed = slot, len(answer) - 1
            batch = Batch()
            batch.add(sequence, 1)
            runner.launch(batch)
            answer += runner.collect()[0].token_ids
        return answer[len(tokens) :]

    CellCache(runner)  # empties it
    compute(1, 0, end)
    parts = [runner.snapshot(1, 0, cut), runner.snapshot(1, cut, end)]
    expected = decode(1)
    CellCache(runner)
    assert runner.restore(2, 0, cut, parts[0])
    assert runner.restore(2, cut, end, memoryview(parts[1]))
    assert decode(2) == expected
    # A prefix of a snapshot can be restored, and the rest computed.
    CellCache(runner)
    assert runner.restore(3, 0, 20, parts[0])
    compute(3, 20, end)
    assert decode(3) == expected
    assert not runner.restore(4, 0, cut, parts[0][:-1]), "a torn one is refused"
    CellCache(runner)


@pytest.mark.slow
def test_seeded_samples_do_not_depend_on_the_rest_of_the_batch(runner: LlamaModelRunner) -> None:
    """Unless two tokens are nearly tied: other batches change the last digits of logits."""
    sampling = SamplingParams(temperature=0.3, top_k=5, repeat_penalty=1.1, seed=7)
    alone = sequence_of(runner, PROMPTS[0], sampling)
    run(runner, alone)
    other = SamplingParams(temperature=1.2, seed=1)
    others = [sequence_of(runner, prompt, other) for prompt in PROMPTS[1:]]
    batched = sequence_of(runner, PROMPTS[0], sampling)
    run(runner, others[0], batched, *others[1:])
    assert generated(batched) == generated(alone)
    assert all(sequence.num_generated for sequence in others)


def test_logprobs_are_the_log_softmax_of_the_reference_logits(
    runner: LlamaModelRunner, reference: llama_cpp.Llama
) -> None:
    sampling = SamplingParams(temperature=0.8, seed=3, repeat_penalty=1.3)
    sequence = sequence_of(runner, PROMPTS[2], sampling, max_tokens=6)
    sequence.logprobs = 4
    engine = Engine(runner)
    engine.add(sequence)
    scores = [score for _ in range(6) for o in engine.step() for score in o.logprobs or []]
    assert [score.token_id for score in scores] == generated(sequence)
    reference.reset()
    reference.eval(sequence.token_ids[: sequence.prompt_length])
    for score in scores:
        logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits(reference.ctx), (49152,))
        exact = logits.astype(np.float64)
        exact -= exact.max() + np.log(np.exp(exact - exact.max()).sum())
        assert score.logprob == pytest.approx(exact[score.token_id], abs=1e-4)
        assert [token for token, _ in score.top] == np.argsort(-exact)[:4].tolist()
        expected = [exact[token] for token, _ in score.top]
        assert [logprob for _, logprob in score.top] == pytest.approx(expected, abs=1e-4)
        reference.eval([score.token_id])


@pytest.mark.slow
def test_accepted_draft_tokens_have_logprobs(runner: LlamaModelRunner) -> None:
    def scored(speculator: AlternatingSpeculator | None) -> list[tuple[int, float]]:
        sequence = sequence_of(runner, PROMPTS[2], max_tokens=12)
        sequence.logprobs = 0
        engine = Engine(runner, speculator)
        engine.add(sequence)
        scores: list[tuple[int, float]] = []
        while engine.has_work:
            for output in engine.step():
                assert output.logprobs is not None
                assert [score.token_id for score in output.logprobs] == output.token_ids
                scores += [(score.token_id, score.logprob) for score in output.logprobs]
        return scores

    plain = scored(None)
    drafted = scored(AlternatingSpeculator([token for token, _ in plain]))
    assert [token for token, _ in drafted] == [token for token, _ in plain]
    # Other batch shapes change logits slightly.
    assert [p for _, p in drafted] == pytest.approx([p for _, p in plain], abs=0.5)


def test_stopped_step_is_computed_again_to_the_same_answer(runner: LlamaModelRunner) -> None:
    text = PROMPTS[3] + " and the boats came home" * 6
    whole = sequence_of(runner, text)
    run(runner, whole)
    engine, asked = Engine(runner), [0]
    sequence = sequence_of(runner, text)

    def stops(_: Batch) -> bool:
        asked[0] += 1
        return asked[0] == 100  # in the midst of a step

    engine.stops = stops
    measured = Batch(num_tokens=64)
    engine.scheduler.mark_launched(measured)
    engine.scheduler.update(measured, [], 64.0)  # every step counts as long
    engine.add(sequence)
    computed: list[int] = []
    while engine.has_work:
        engine.step()
        computed.append(sequence.num_computed)
    assert computed[0] == 0, "the first step was stopped"
    assert generated(sequence) == generated(whole)
