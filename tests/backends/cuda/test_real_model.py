"""SmolLM2 on ingle's own engine: llama.cpp's text, alone, batched, cached, and through a worker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from ingle.backends.base.backend import stream_events
from ingle.backends.base.conversation import ChatMessage
from ingle.backends.base.events import Delta, Finished, FinishReason, Started, TokenLogprobs
from ingle.backends.base.load_spec import KVStoreSpec, LoadSpec
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import Grammar, GrammarKind, SamplingParams
from ingle.backends.cuda.model_runner import CudaModelRunner
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.sequence import Sequence
from ingle.backends.llama_cpp.model_runner import LlamaModelRunner
from ingle.backends.worker.supervisor.worker_process import WorkerProcess
from ingle.models.kv_type import KVType

pytestmark = pytest.mark.model

BAND = 1.0
"""Tokens whose log-probabilities are this close may change places: llama.cpp rounds activations to
8 bits, which moves them by a tenth for a model this small, and more where many are about as likely
(seen once: 0.71 among five candidates, with other batches than usual)."""
TOKENS = 16
SECRET = "Nobody but you and me may know of the ship. " * 28
QUESTIONS = [
    "What is the capital of France?",
    "Name three colours.",
    "Write a haiku about rain.",
    "How many legs does a spider have?",
    "Translate 'good morning' into Spanish.",
    "What is 12 plus 30?",
    "Who wrote Romeo and Juliet?",
    "Explain gravity to a child.",
    "Give me a recipe for pancakes.",
    "What is the largest ocean?",
    "Write a Python function that adds two numbers.",
    "What do bees make?",
    "Tell me a joke.",
    "Why is the sky blue?",
    "List the days of the week.",
    "What is the opposite of hot?",
    "Describe a cat in one sentence.",
    "What year did the second world war end?",
    "Suggest a name for a dog.",
    "How do I boil an egg?",
]


@pytest.fixture(scope="module")
def spec(smollm2_path: Path) -> LoadSpec:
    return LoadSpec(
        engine="cuda",
        path=str(smollm2_path),
        context=512,
        kv_capacity=4096,
        slots=len(QUESTIONS),
        threads=1,
        kv_type=KVType.F32,
        device="cpu",
    )


@pytest.fixture(scope="module")
def ours(spec: LoadSpec) -> Iterator[CudaModelRunner]:
    runner = CudaModelRunner(spec)
    yield runner
    runner.close()


@pytest.fixture(scope="module")
def asked(ours: CudaModelRunner) -> list[list[int]]:
    """Return the questions as chat prompts in tokens."""
    return [
        ours.tokenizer.encode(
            f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n",
            add_special=True,
            parse_special=True,
        )
        for question in QUESTIONS
    ]


def ask(engine: Engine, prompts: list[list[int]]) -> list[tuple[list[int], list[TokenLogprobs]]]:
    """Return the answers to all prompts at once, and their logprobs."""
    params = SamplingParams(temperature=0)
    sequences = [
        Sequence("r", i, list(prompt), params, TOKENS, ignore_eos=True, logprobs=20)
        for i, prompt in enumerate(prompts)
    ]
    scored: dict[Sequence, list[TokenLogprobs]] = {sequence: [] for sequence in sequences}
    for sequence in sequences:
        engine.add(sequence)
    while engine.has_work:
        for output in engine.step():
            scored[output.sequence] += output.logprobs or []
    return [(s.token_ids[s.prompt_length :], scored[s]) for s in sequences]


@pytest.fixture(scope="module")
def together(ours: CudaModelRunner, asked: list[list[int]]) -> list[tuple[list[int], Any]]:
    """Return our engine's answers to all questions at once."""
    return ask(Engine(ours), asked)


def assert_tied(scores: TokenLogprobs, other: int) -> None:
    top = dict(scores.top)
    assert other in top, "no tie"
    assert scores.logprob - top[other] < BAND


@pytest.mark.slow
def test_greedy_text_equals_llama_cpps_except_for_ties(
    spec: LoadSpec, asked: list[list[int]], together: list[tuple[list[int], list[TokenLogprobs]]]
) -> None:
    theirs = LlamaModelRunner(msgspec.structs.replace(spec, engine="llama.cpp", kv_type=KVType.F16))
    same = 0
    for mine, other in zip(together, ask(Engine(theirs), asked), strict=True):
        pairs = enumerate(zip(mine[0], other[0], strict=True))
        place = next((place for place, (a, b) in pairs if a != b), None)
        if place is None:
            same += 1
            continue
        assert_tied(mine[1][place], other[0][place])
        assert_tied(other[1][place], mine[0][place])
    theirs.close()
    assert same >= len(QUESTIONS) // 2


class MostlyRightSpeculator:
    """Drafts a known answer to the prompt, with every fourth token wrong."""

    def __init__(self, text: list[int]) -> None:
        self._text = text

    def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        (sequence,) = decoding
        generated = sequence.num_generated
        places = range(generated, min(generated + 5, len(self._text) - 1))
        return {sequence: tuple(self._text[i] + (i % 4 == 3) for i in places)}

    def waits(self, decoding: list[Sequence], room: int) -> bool:
        return True

    def observe(self, batch: Batch, seconds: float) -> None: ...

    def forget(self, sequence: Sequence) -> None: ...


@pytest.mark.slow
def test_batching_caching_and_drafts_do_not_change_greedy_text(
    ours: CudaModelRunner,
    asked: list[list[int]],
    together: list[tuple[list[int], list[TokenLogprobs]]],
) -> None:
    """Compared with the text in a batch of twenty."""
    prompt, expected = asked[7], together[7][0]
    engine = Engine(ours)
    assert ask(engine, [prompt])[0][0] == expected
    assert ask(engine, [prompt])[0][0] == expected, "with the prompt in the cache"
    engine = Engine(ours, MostlyRightSpeculator(expected))
    assert ask(engine, [prompt])[0][0] == expected
    assert 0 < engine.gauges().accepted_tokens_total < engine.gauges().drafted_tokens_total


@pytest.mark.slow
def test_overlap_scheduling_does_not_change_output(
    ours: CudaModelRunner, asked: list[list[int]]
) -> None:
    """Greedy and seeded sequences, one cancelled in the middle, and one that ends at EOG."""
    outcomes: list[list[tuple[list[int], FinishReason | None, int]]] = []
    scores: list[list[TokenLogprobs]] = []
    prompts = [asked[0], *([*asked[i], *asked[i + 7]] for i in range(1, 6))]
    for ahead in (False, True):
        ours.can_run_ahead = ahead
        engine = Engine(ours)
        crowd = [
            Sequence(
                "r",
                index,
                list(prompt),
                SamplingParams(temperature=0 if index < 3 else 1.3, seed=6),
                TOKENS - index,
                ignore_eos=index > 0,
                logprobs=2,
            )
            for index, prompt in enumerate(prompts)
        ]
        scored: list[TokenLogprobs] = []
        for sequence in crowd:
            engine.add(sequence)
        while engine.has_work:
            for output in engine.step():
                scored += output.logprobs or [] if output.sequence is crowd[4] else []
            if crowd[5].num_generated == 6:
                engine.finish(crowd[5], FinishReason.CANCELLED)
        outcomes.append([(s.token_ids, s.finish_reason, s.cached_tokens) for s in crowd])
        scores.append(scored)
        kept = [engine.scheduler.kv.match(np.array(s.token_ids, np.int32)) for s in crowd]
        assert [prefix.length for prefix in kept[1:]] == [len(s.token_ids) - 1 for s in crowd[1:]]
    ours.can_run_ahead = False
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0][1] is FinishReason.STOP
    for one, other in zip(*scores, strict=True):
        assert one.token_id == other.token_id
        assert one.logprob == pytest.approx(other.logprob, abs=1e-3)


async def chat(worker: WorkerProcess, text: str, **fields: Any) -> tuple[str, int, FinishReason]:
    """Return the answer to a message, the cached prompt tokens, and the finish reason."""
    values: dict[str, Any] = {
        "id": text,
        "sampling": SamplingParams(temperature=0),
        "max_tokens": TOKENS,
        **fields,
    }
    request = GenerateRequest(messages=[ChatMessage("user", text)], **values)
    answer, cached, reason = "", -1, FinishReason.CANCELLED
    async for event in stream_events(worker, request):
        match event:
            case Started():
                cached = event.cached_tokens
            case Delta():
                answer += event.text
            case Finished():
                reason = event.reason
            case _:
                pytest.fail(f"unexpected {event}")
    return answer, cached, reason


@pytest.mark.slow
async def test_worker_answers_and_reuses_its_kv_cache(spec: LoadSpec, tmp_path: Path) -> None:
    """Text, a grammar, a seed, a private request, and a restarted worker."""
    store = KVStoreSpec(folder=str(tmp_path), model="cd" * 32, disk_bytes=2**30, memory_bytes=2**28)
    spec = msgspec.structs.replace(spec, kv_store=store, slots=4, kv_type=KVType.F16)
    story = (
        "The keeper counted the ships, and wrote them into his book. " * 22 + "What was counted?"
    )
    texts: list[str] = []
    for life in range(2):
        worker = WorkerProcess(spec)
        info = await worker.start()
        assert (info.engine, info.architecture, info.layers) == ("cuda", "llama", 30)
        answer, cached, reason = await chat(worker, story)
        assert (cached > 250) is (life == 1)
        texts.append(answer)
        if life == 0:
            answer, cached, reason = await chat(worker, QUESTIONS[0])
            assert (answer, reason) == ("The capital of France is Paris.", FinishReason.STOP)
            hot = SamplingParams(temperature=1.5, seed=4)
            dreams = [await chat(worker, QUESTIONS[2], sampling=hot) for _ in range(2)]
            assert dreams[0][0] == dreams[1][0]
            grammar = Grammar(GrammarKind.REGEX, "[0-9]{3}")
            answer, _, reason = await chat(worker, "Any number?", grammar=grammar)
            assert (answer.isdigit(), len(answer), reason) == (True, 3, FinishReason.STOP)
            await chat(worker, SECRET, private=True, max_tokens=2)
        await worker.stop(grace=30)
    assert texts[0] == texts[1]
    chunks = [file for _, _, files in os.walk(tmp_path) for file in files if file.endswith(".kv")]
    assert 2 <= len(chunks) <= 3, "nothing private"
