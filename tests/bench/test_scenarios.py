"""Figures drawn from answers."""

from __future__ import annotations

import random

import pytest
from completion_client import Answer
from prompts import conversation, words
from scenarios import decode_rate, each_token, throughput


def answer(*times: float, tokens: int | None = None) -> Answer:
    """A stream whose texts came at these times."""
    return Answer(times, tokens or len(times), 0, 0, "")


def test_decoding_counts_only_while_all_streams_decode() -> None:
    # The second begins late and ends late: from 2.0 to 4.0 both run, with two tokens a second.
    early = answer(1.0, 2.0, 3.0, 4.0)
    late = answer(2.0, 3.0, 4.0, 4.1, 4.2, 4.3)
    assert decode_rate([early, late]) == pytest.approx(2.0)


def test_one_stream_counts_the_tokens_after_its_first() -> None:
    assert decode_rate([answer(0.5, 1.0, 1.5)]) == pytest.approx(2.0)


def test_events_of_several_tokens_count_as_such() -> None:
    assert decode_rate([answer(1.0, 2.0, 3.0, tokens=6)]) == pytest.approx(2.0)


def test_streams_one_after_another_are_not_counted_as_if_at_once() -> None:
    first, second = answer(1.0, 1.5, 2.0), answer(3.0, 3.5, 4.0)
    assert decode_rate([first, second]) == pytest.approx(4 / 3)


def test_throughput_counts_from_the_sending_of_all() -> None:
    figures = throughput([answer(1.0, 2.0), answer(1.5, 4.0), answer(3.0, 3.5)])
    assert figures["total"] == pytest.approx(6 / 4)
    assert figures["first_token"] == pytest.approx(1500)
    assert figures["last_first_token"] == pytest.approx(3000)


def test_each_token_is_the_mean_over_streams() -> None:
    assert each_token([answer(1.0, 1.1, 1.2), answer(1.0, 1.3)]) == pytest.approx(200)


def test_texts_repeat_for_a_seed_and_differ_without() -> None:
    assert words(random.Random(1), 30) == words(random.Random(1), 30)
    assert words(random.Random(1), 30) != words(random.Random(2), 30)
    chat = conversation(random.Random(3), 500)
    assert [message["role"] for message in chat[-2:]] == ["assistant", "user"]
    assert sum(len(message["content"].split()) for message in chat) == 500
