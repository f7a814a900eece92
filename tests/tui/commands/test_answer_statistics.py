"""Statistics of answers and chats, as `/stats` shows them."""

from __future__ import annotations

from ingle.tui.chats.message import Message, MessageFacts
from ingle.tui.commands.answer_statistics import answer_rows, chat_rows, reuse

FACTS = MessageFacts(
    prompt_tokens=3240,
    cached_tokens=3118,
    completion_tokens=116,
    first_token=0.21,
    seconds=2.2,
    prompt_seconds=0.061,
    decode_seconds=2.0,
    drafted_tokens=40,
    accepted_tokens=30,
)


def test_reuse_shows_100_percent_only_without_new_tokens() -> None:
    assert reuse(FACTS) == "96 % reused, 122 new"
    assert reuse(MessageFacts(prompt_tokens=9999, cached_tokens=9998)) == "99 % reused, 1 new"
    assert reuse(MessageFacts(prompt_tokens=5, cached_tokens=5)) == "100 % reused, 0 new"


def test_answer_statistics_rows() -> None:
    rows = dict(answer_rows(FACTS))
    assert rows["from the cache"] == "96 % reused, 122 new"
    assert rows["writing"] == "58 tok/s"
    assert rows["prefill"] == "2000 tok/s"
    assert rows["drafted"] == "75 % of 40 right"
    assert rows["first token"] == "0.21 s"


def test_unknown_statistics_are_omitted() -> None:
    assert dict(answer_rows(MessageFacts())) == {"where": "local"}


def test_chat_statistics_sum_up_its_answers() -> None:
    answers = [Message(role="assistant", content="x", facts=FACTS) for _ in range(2)]
    rows = dict(chat_rows([Message(role="user", content="?"), *answers]))
    assert rows["messages"] == "3, 2 of them answers"
    assert rows["written"] == "232 tokens"
    assert rows["prefill"] == "244 tokens; 6 236 were in the cache"
    assert rows["writing"] == "58 tok/s on average"
    assert rows["sent to cloud"] == "0"
