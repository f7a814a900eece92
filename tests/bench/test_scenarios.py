"""Decode rates, throughput and latencies computed from streamed answers."""

from __future__ import annotations

import random

import pytest
from completion_client import Answer
from prompts import conversation, words
from scenarios import decode_rate, each_token, throughput


def answer(*times: float, tokens: int | None = None) -> Answer:
    """A stream whose texts arrived at these times."""
    return Answer(times, tokens or len(times), 0, 0, "")


def test_decode_rate_is_measured_while_all_streams_decode() -> None:
    # Both streams run from 2.0 to 4.0, with two tokens a second.
    early = answer(1.0, 2.0, 3.0, 4.0)
    late = answer(2.0, 3.0, 4.0, 4.1, 4.2, 4.3)
    assert decode_rate([early, late]) == pytest.approx(2.0)


def test_decode_rate_of_one_stream_excludes_its_first_token() -> None:
    assert decode_rate([answer(0.5, 1.0, 1.5)]) == pytest.approx(2.0)


def test_decode_rate_counts_tokens_instead_of_events() -> None:
    assert decode_rate([answer(1.0, 2.0, 3.0, tokens=6)]) == pytest.approx(2.0)


def test_decode_rate_of_sequential_streams_is_not_added_up() -> None:
    first, second = answer(1.0, 1.5, 2.0), answer(3.0, 3.5, 4.0)
    assert decode_rate([first, second]) == pytest.approx(4 / 3)


def test_throughput_starts_when_the_requests_are_sent() -> None:
    figures = throughput([answer(1.0, 2.0), answer(1.5, 4.0), answer(3.0, 3.5)])
    assert figures["total"] == pytest.approx(6 / 4)
    assert figures["first_token"] == pytest.approx(1500)
    assert figures["last_first_token"] == pytest.approx(3000)


def test_time_per_token_is_the_mean_over_streams() -> None:
    assert each_token([answer(1.0, 1.1, 1.2), answer(1.0, 1.3)]) == pytest.approx(200)


def test_generated_text_is_determined_by_the_seed() -> None:
    assert words(random.Random(1), 30) == words(random.Random(1), 30)
    assert words(random.Random(1), 30) != words(random.Random(2), 30)
    chat = conversation(random.Random(3), 500)
    assert [message["role"] for message in chat[-2:]] == ["assistant", "user"]
    assert sum(len(message["content"].split()) for message in chat) == 500
