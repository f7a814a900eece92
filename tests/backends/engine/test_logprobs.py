from __future__ import annotations

import math

import numpy as np
import pytest

from ingle.backends.engine.logprobs import token_logprobs


def test_logprobs_are_the_log_softmax() -> None:
    logits = np.log(np.array([0.1, 0.6, 0.3], np.float32)) + 4
    scored = token_logprobs(logits, 0, 2)
    assert scored.token_id == 0
    assert scored.logprob == pytest.approx(math.log(0.1), abs=1e-6)
    assert [token for token, _ in scored.top] == [1, 2]
    assert [p for _, p in scored.top] == pytest.approx([math.log(0.6), math.log(0.3)], abs=1e-6)


def test_large_vocabulary_keeps_precision() -> None:
    rng = np.random.default_rng(1)
    logits = (rng.standard_normal(150_000) * 2 + 20).astype(np.float32)
    exact = logits.astype(np.float64)
    exact -= exact.max() + np.log(np.exp(exact - exact.max()).sum())
    scored = token_logprobs(logits, 77, 20)
    assert scored.logprob == pytest.approx(exact[77], abs=1e-6)
    order = np.argsort(-exact)[:20]
    assert [token for token, _ in scored.top] == order.tolist()
    assert [p for _, p in scored.top] == pytest.approx(exact[order].tolist(), abs=1e-6)


def test_impossible_tokens_have_a_finite_logprob() -> None:
    logits = np.array([0.0, -np.inf, 90.0], np.float32)
    scored = token_logprobs(logits, 1, 5)
    assert scored.logprob == -9999.0
    assert [token for token, _ in scored.top] == [2, 0, 1]


def test_no_top_logprobs_without_request() -> None:
    assert token_logprobs(np.zeros(4, np.float32), 3, 0).top == []
