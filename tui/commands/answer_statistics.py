"""Figures of the last answer and of the whole chat, for `/stats`."""

from __future__ import annotations

from collections.abc import Sequence

from ..chats.message import Message, MessageFacts
from ..text import number_format

Rows = list[tuple[str, str]]


def answer_rows(facts: MessageFacts) -> Rows:
    """Names and values for one answer; unknown values are left out."""
    rows: Rows = []
    if facts.prompt_tokens:
        rows.append(("prompt", number_format.counted(facts.prompt_tokens, "token")))
        rows.append(("from the cache", reuse(facts)))
    if facts.completion_tokens:
        rows.append(("answer", number_format.counted(facts.completion_tokens, "token")))
    if facts.reasoning_tokens:
        rows.append(("of it reasoning", number_format.counted(facts.reasoning_tokens, "token")))
    if facts.first_token is not None:
        rows.append(("first token", number_format.duration(facts.first_token)))
    if facts.seconds is not None:
        rows.append(("whole answer", number_format.duration(facts.seconds)))
    if facts.speed is not None:
        rows.append(("writing", number_format.speed(facts.speed)))
    computed = facts.prompt_tokens - facts.cached_tokens
    if facts.prompt_seconds > 0 and computed > 0:
        rows.append(("prefill", number_format.speed(computed / facts.prompt_seconds)))
    if facts.drafted_tokens:
        rows.append(("drafted", acceptance(facts.accepted_tokens, facts.drafted_tokens)))
    where = f"{facts.route}, {facts.route_reason}" if facts.route_reason else facts.route
    rows.append(("where", where))
    return rows


def chat_rows(messages: Sequence[Message]) -> Rows:
    """Names and values for the messages of a branch."""
    answers = [message.facts for message in messages if message.role == "assistant"]
    written = sum(facts.completion_tokens for facts in answers)
    computed = sum(facts.prompt_tokens - facts.cached_tokens for facts in answers)
    cached = sum(facts.cached_tokens for facts in answers)
    writing = sum(facts.decode_seconds for facts in answers)
    drafted = sum(facts.drafted_tokens for facts in answers)
    rows: Rows = [
        ("messages", f"{len(messages)}, {len(answers)} of them answers"),
        ("written", number_format.counted(written, "token")),
        (
            "prefill",
            f"{number_format.counted(computed, 'token')}; "
            f"{number_format.tokens(cached)} were in the cache",
        ),
    ]
    if writing > 0:
        timed = sum(facts.completion_tokens for facts in answers if facts.decode_seconds > 0)
        rows.append(("writing", f"{number_format.speed(timed / writing)} on average"))
    if drafted:
        accepted = sum(facts.accepted_tokens for facts in answers)
        rows.append(("drafted", acceptance(accepted, drafted)))
    away = sum(1 for facts in answers if facts.route != "local")
    rows.append(("sent to cloud", str(away)))
    return rows


def reuse(facts: MessageFacts) -> str:
    """`96 % reused, 122 new`."""
    new = max(0, facts.prompt_tokens - facts.cached_tokens)
    part = facts.cached_tokens / facts.prompt_tokens if facts.prompt_tokens else 0.0
    # "100 %" only where nothing at all was new.
    percent = min(part, 0.99) if new else 1.0
    return f"{number_format.percent(percent)} reused, {number_format.tokens(new)} new"


def acceptance(accepted: int, drafted: int) -> str:
    """The share of draft tokens that were accepted."""
    return f"{number_format.percent(accepted / drafted)} of {number_format.tokens(drafted)} right"
