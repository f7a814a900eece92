"""Decides when a chat is compacted, from its size in tokens: pure functions."""

from __future__ import annotations

from enum import Enum
from typing import Literal

import msgspec

from ..chats.chat import Chat
from ..chats.context_view import tail_messages
from ..text import number_format

SUGGEST_AT = 0.75
"""The share of the context from which compaction is suggested."""
AUTOMATIC_AT = 0.9
INSTRUCTION = 420
"""Most tokens of the instruction, without a long focus."""
LEAST_REPLY = 256
"""Least tokens of an answer for which a prompt counts as fitting."""
TURNS_BETWEEN = 2

Choice = Literal["compact", "send", "trim"]
CHOICES: tuple[tuple[Choice, str, str], ...] = (
    ("compact", "Compact, then send", "summarises the earlier messages"),
    ("send", "Send anyway", "the model may refuse it"),
    ("trim", "Trim, then send", "leaves out old files and long texts"),
)
"""Choices for a prompt that does not fit: name, title and effect."""


class CompactionStep(Enum):
    """The step after an answer."""

    NOTHING = "nothing"
    SUGGEST = "suggest"
    COMPACT = "compact"


class ContextFill(msgspec.Struct, frozen=True):
    """How full the context is, in tokens; `turns_since` the last compaction, None before any.

    `refused_at` is the size at which a compaction was last refused or postponed. `at` is the share
    at which compaction is automatic, None if never.
    """

    used: int
    context: int
    notes: int
    turns_since: int | None = None
    refused_at: int | None = None
    at: float | None = AUTOMATIC_AT

    @property
    def share(self) -> float:
        """Return the share of the context that is used."""
        return self.used / self.context if self.context else 0.0


def automatic_at(context: int, notes: int, at: float = AUTOMATIC_AT) -> int:
    """Return the tokens from which compaction is automatic.

    This is the share `at` of the context, or less if the instruction and `notes` need the space.
    """
    return max(0, min(round(at * context), context - INSTRUCTION - notes))


def next_step(fill: ContextFill) -> CompactionStep:
    """Return the step after an answer, in idle time."""
    if not fill.context or (fill.turns_since is not None and fill.turns_since < TURNS_BETWEEN):
        return CompactionStep.NOTHING
    if fill.at is not None and fill.used >= automatic_at(fill.context, fill.notes, fill.at):
        # After a refusal, wait until the chat has grown considerably.
        if fill.refused_at is not None and fill.used < 1.05 * fill.refused_at:
            return CompactionStep.SUGGEST
        return CompactionStep.COMPACT
    return CompactionStep.SUGGEST if fill.share >= SUGGEST_AT else CompactionStep.NOTHING


def fill_of(
    chat: Chat, used: int, context: int, *, refused_at: int | None, at: float | None
) -> ContextFill:
    """Return how full the context is with a chat of `used` tokens; see `ContextFill`."""
    active = chat.active_compaction()
    turns = None
    if active is not None:
        turns = sum(m.role == "user" and m.created > active.created for m in chat.path)
    notes = min(1024, max(96, used // 8))
    return ContextFill(used, context, notes, turns, refused_at, at)


def is_worth_it(chat: Chat) -> bool:
    """Return whether there are turns to summarise."""
    tail = tail_messages(chat, chat.compaction_chain())
    return sum(message.role == "user" for message in tail) > 1


def fits(used: int, prompt: int, context: int) -> bool:
    """Return whether a prompt of `prompt` tokens can be answered without compacting first."""
    return not context or used + prompt + LEAST_REPLY <= context


def last_size(chat: Chat) -> tuple[int, int]:
    """Return the tokens of the path as last sent, and its context; 0 if unknown."""
    answers = (m for m in reversed(chat.path) if m.role == "assistant" and m.facts.prompt_tokens)
    answer = next(answers, None)
    if answer is None:
        return 0, 0
    active = chat.active_compaction()
    if active is not None and active.created > answer.created:
        return active.tokens_after, answer.facts.context
    return answer.facts.prompt_tokens + answer.facts.completion_tokens, answer.facts.context


def full_sentence(used: int, prompt: int, context: int) -> str:
    """Return why the user has to choose; counts are tokens."""
    return (
        f"About {number_format.tokens(used + prompt)} of {number_format.tokens(context)} tokens: "
        "this prompt leaves no room for an answer."
    )
