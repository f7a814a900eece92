"""The loop of an embedding worker: batching, fairness, cancellation, rejection and drain."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from ingle.backends.base.events import Embedded, Reranked, Tokenized
from ingle.backends.base.requests import (
    EmbedRequest,
    GenerateRequest,
    RerankRequest,
    TokenizeRequest,
)
from ingle.backends.testing.byte_tokenizer import BOS, EOS, ByteTokenizer
from ingle.backends.text.tokenization.encoder_inputs import EmbeddingInputs, PairMarks, TextPairs
from ingle.backends.worker.embedding_loop import EmbeddingLoop, normalized, scores
from ingle.backends.worker.inbox import Inbox
from ingle.backends.worker.worker_protocol import (
    Cancel,
    Drain,
    FromWorker,
    GaugesReport,
    LivenessPing,
    Pong,
    Rejected,
    WorkerRequest,
)
from ingle.models.model_task import ModelTask

CONTEXT = 64


@dataclass
class CountingEncoder:
    """Its vector of a text counts the letters a, b, c and d.

    Each batch waits for its `gate`.
    """

    task: ModelTask = ModelTask.EMBED
    width: int = 4
    batch_tokens: int = 32
    batch_texts: int = 8
    gate: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(10**6))
    batches: list[list[list[int]]] = field(default_factory=list[list[list[int]]])

    def compute(self, texts: Sequence[list[int]]) -> NDArray[np.float32]:
        assert self.gate.acquire(timeout=10)
        self.batches.append(list(texts))
        letters = range(ord("a"), ord("a") + self.width)
        return np.array([[text.count(x) for x in letters] for text in texts], np.float32)

    def text_inputs(self) -> EmbeddingInputs:
        return EmbeddingInputs(ByteTokenizer(), context=CONTEXT)

    def text_pairs(self) -> TextPairs:
        return TextPairs(ByteTokenizer(), PairMarks([], [0], []), None, context=CONTEXT)


Sent = queue.Queue[FromWorker]


@contextmanager
def running(encoder: CountingEncoder) -> Generator[tuple[Inbox, Sent]]:
    inbox: Inbox = queue.SimpleQueue()
    sent: Sent = queue.Queue()
    thread = threading.Thread(target=EmbeddingLoop(encoder, sent.put, inbox).run)
    thread.start()
    try:
        yield inbox, sent
    finally:
        inbox.put(Drain())
        encoder.gate.release(100)
        thread.join(10)
        assert not thread.is_alive()


def embed(request_id: str, *inputs: str | list[int], **options: object) -> EmbedRequest:
    return EmbedRequest(id=request_id, inputs=list(inputs), **options)  # pyright: ignore[reportArgumentType]


def next_answer(sent: Sent) -> Embedded | Reranked | Rejected:
    while True:
        message = sent.get(timeout=10)
        if isinstance(message, Embedded | Reranked | Rejected):
            return message


def rows(message: object) -> NDArray[np.float32]:
    assert isinstance(message, Embedded)
    return np.frombuffer(message.vectors, "<f4").reshape(-1, message.dimensions)


def test_vectors_are_normalised_and_in_input_order() -> None:
    encoder = CountingEncoder()
    with running(encoder) as (inbox, sent):
        inbox.put(embed("r", *["a", "bb", "aab", "", "cd"] * 5))
        answer = next_answer(sent)
    expected = [[1, 0, 0, 0], [0, 1, 0, 0], [2, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1]] * 5
    assert np.allclose(rows(answer), normalized(np.array(expected, np.float32)))
    assert isinstance(answer, Embedded)
    assert answer.prompt_tokens == 5 * (2 + 3 + 4 + 1 + 3)
    for batch in encoder.batches:
        assert len(batch) <= 8
        assert sum(map(len, batch)) <= 32


def test_text_longer_than_a_batch_is_computed_alone() -> None:
    encoder = CountingEncoder()
    with running(encoder) as (inbox, sent):
        inbox.put(embed("r", "a", "b" * 60, "c"))
        assert rows(next_answer(sent)).argmax(axis=1).tolist() == [0, 1, 2]
    assert [len(text) for text in encoder.batches[1]] == [61]


def test_short_request_does_not_wait_for_all_of_a_long_one() -> None:
    encoder = CountingEncoder(gate=threading.Semaphore(0))
    with running(encoder) as (inbox, sent):
        inbox.put(embed("long", *["a" * 30] * 50))
        encoder.gate.release()
        while not encoder.batches:
            threading.Event().wait(0.001)
        inbox.put(embed("short", "bbb"))
        encoder.gate.release(3)
        assert next_answer(sent).id == "short"
    # Two batches had begun when it arrived, and each text of the long request fills a batch.
    assert [256, 98, 98, 98] in [text for batch in encoder.batches[:4] for text in batch]


def test_concurrent_requests_share_batches() -> None:
    encoder = CountingEncoder(gate=threading.Semaphore(0))
    with running(encoder) as (inbox, sent):
        for name in ("x", "y", "z"):
            inbox.put(embed(name, *["aaa"] * 16))
        encoder.gate.release(100)
        assert {next_answer(sent).id for _ in range(3)} == {"x", "y", "z"}
    assert len(encoder.batches) <= 8  # 48 texts, 8 per batch, and those before the others arrived


def test_cancelled_request_is_not_computed_further() -> None:
    encoder = CountingEncoder(gate=threading.Semaphore(0))
    with running(encoder) as (inbox, sent):
        inbox.put(embed("gone", *["a" * 30] * 50))
        encoder.gate.release()
        while not encoder.batches:
            threading.Event().wait(0.001)
        inbox.put(Cancel("gone"))
        inbox.put(LivenessPing())
        encoder.gate.release()
        while not isinstance(message := sent.get(timeout=10), Pong):
            assert isinstance(message, GaugesReport)
        inbox.put(embed("next", "b"))
        encoder.gate.release()
        assert next_answer(sent).id == "next"
    assert len(encoder.batches) <= 3


def test_texts_are_tokenised_while_a_batch_computes() -> None:
    encoder = CountingEncoder(gate=threading.Semaphore(0))
    with running(encoder) as (inbox, sent):
        inbox.put(TokenizeRequest(id="t", text="a\ud800<|end|>", add_special=True))
        while not isinstance(message := sent.get(timeout=10), Tokenized):
            continue
    assert message.token_ids == [BOS, ord("a"), ord("?"), EOS]
    assert b"".join(message.pieces) == b"<|begin|>a?<|end|>"


def test_rejected_requests_contain_the_reason() -> None:
    asked = TokenizeRequest(id="i", generate=GenerateRequest(id="i", prompt="x"))
    cases: list[tuple[WorkerRequest, str, str]] = [
        (embed("a", "x" * 64), "context_length_exceeded", "Input 0 is 65 tokens long, 1 too many"),
        (embed("b", "x", [1, 999]), "invalid_request", "Token 999 of input 1"),
        (embed("c", []), "invalid_request", "Input 0 has no tokens"),
        (embed("d", "x", dimensions=5), "invalid_request", "have 4 dimensions, not 5"),
        (embed("e", "x" * 2_000_000), "context_length_exceeded", "2000000 characters"),
        (GenerateRequest(id="f", prompt="x"), "wrong_task", "cannot chat"),
        (RerankRequest(id="g", query="x", documents=["y"]), "wrong_task", "cannot rank"),
        (asked, "wrong_task", "cannot chat"),
        (TokenizeRequest(id="j", token_ids=[999]), "invalid_request", "Token 999"),
        (TokenizeRequest(id="k", text="x" * 2_000_000), "invalid_request", "too long"),
    ]
    encoder = CountingEncoder()
    with running(encoder) as (inbox, sent):
        for message, code, words in cases:
            inbox.put(message)
            answer = next_answer(sent)
            assert isinstance(answer, Rejected)
            assert answer.code == code
            assert words in answer.message
        inbox.put(embed("h", "a"))
        assert isinstance(next_answer(sent), Embedded)
    assert len(encoder.batches) == 1  # no rejected request was computed


def test_texts_are_truncated_only_on_request() -> None:
    encoder = CountingEncoder()
    with running(encoder) as (inbox, sent):
        inbox.put(embed("r", "a" * 100 + "b" * 3_000_000, [97] * 100, truncate=True))
        answer = next_answer(sent)
    assert isinstance(answer, Embedded)
    assert answer.prompt_tokens == 2 * CONTEXT
    assert np.allclose(rows(answer), [[1, 0, 0, 0]] * 2)


def test_dimensions_option_shortens_vectors() -> None:
    with running(CountingEncoder()) as (inbox, sent):
        inbox.put(embed("r", "aabbccdd", "cd", dimensions=2))
        assert np.allclose(rows(next_answer(sent)), [[0.5**0.5] * 2, [0, 0]])


def test_scores_are_in_document_order() -> None:
    encoder = CountingEncoder(task=ModelTask.RERANK, width=1)
    with running(encoder) as (inbox, sent):
        inbox.put(RerankRequest(id="r", query="q", documents=["", "aaa", "a"]))
        answer = next_answer(sent)
        assert isinstance(answer, Reranked)
        assert answer.scores == pytest.approx([1 / (1 + np.exp(-x)) for x in (0, 3, 1)])
        assert answer.prompt_tokens == 3 * 2 + 4
        inbox.put(RerankRequest(id="s", query="q", documents=["a" * 64]))
        refusal = next_answer(sent)
        assert isinstance(refusal, Rejected)
        assert refusal.param == "documents"
        assert "The query with document 0 is 66 tokens long" in refusal.message


def test_drain_finishes_running_requests() -> None:
    encoder = CountingEncoder(gate=threading.Semaphore(0))
    with running(encoder) as (inbox, sent):
        inbox.put(embed("r", *["a" * 30] * 3))
        encoder.gate.release()
        while not encoder.batches:
            threading.Event().wait(0.001)
        inbox.put(Drain())
        inbox.put(embed("late", "b"))
        encoder.gate.release(10)
        answers = {answer.id: answer for answer in (next_answer(sent), next_answer(sent))}
    assert isinstance(answers["r"], Embedded)
    late = answers["late"]
    assert isinstance(late, Rejected)
    assert late.code == "model_unloading"


def test_gauges_count_tokens_and_batches() -> None:
    with running(CountingEncoder()) as (inbox, sent):
        inbox.put(embed("r", "aaa", "b"))
        while True:
            message = sent.get(timeout=10)
            if isinstance(message, GaugesReport) and message.gauges.prompt_tokens_total:
                break
    assert message.gauges.prompt_tokens_total == 6
    assert message.gauges.steps_total == 1


def test_scores_of_extreme_logits_are_finite() -> None:
    logits = np.array([[-1000.0], [0.0], [1000.0]], np.float32)
    assert scores(logits).tolist() == [0.0, 0.5, 1.0]
    assert scores(np.array([[0.25, 0.75]], np.float32)).tolist() == [0.25]
