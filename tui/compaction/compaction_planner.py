"""Decides when a chat is compacted, from its size in tokens: pure functions."""

from __future__ import annotations

from enum import Enum
from typing import Literal, NamedTuple

import msgspec

from ..chats.chat import Chat
from ..chats.context_view import tail_messages
from ..chats.message import MessageFacts
from ..text import number_format

SUGGEST_AT = 0.75
"""The share of the context from which compaction is suggested."""
AUTOMATIC_AT = 0.9
INSTRUCTION = 420
"""Most tokens of the instruction, without a long focus."""
LEAST_REPLY = 256
"""Least tokens of an answer for which a prompt counts as fitting."""
TURNS_BETWEEN = 2

Choice = Literal["compact", "extend", "trim", "edit", "send"]
CHOICES: dict[Choice, tuple[str, str]] = {
    "compact": ("Compact, then send", "summarises the earlier messages"),
    "extend": ("More context, then send", "loads the model again"),
    "trim": ("Trim, then send", "leaves out old files and the middle of long texts"),
    "edit": ("Shorten the prompt", "returns it to the draft"),
    "send": ("Send anyway", "the model may refuse it"),
}
"""What can be done about a prompt that does not fit: title and effect."""


class PromptRoom(msgspec.Struct, frozen=True):
    """The tokens that are sent before a prompt, those of the prompt, and the model's context."""

    used: int
    prompt: int
    context: int

    @property
    def lacking(self) -> int:
        """Return the tokens that are missing for the prompt and an answer; at most 0 if it fits."""
        return self.used + self.prompt + LEAST_REPLY - self.context if self.context else 0

    @property
    def sentence(self) -> str:
        """Return why the user has to choose."""
        sent, context = self.used + self.prompt, number_format.tokens(self.context)
        return (
            f"With this prompt the chat has {number_format.tokens(sent)} tokens; "
            f"{context} is the limit, with the answer."
        )


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


class LastSize(NamedTuple):
    """The tokens of the path as last counted by `model`, and its context; 0 if unknown."""

    used: int = 0
    context: int = 0
    model: str = ""


def last_size(chat: Chat) -> LastSize:
    """Return the size of the path by its last answer, or by a compaction since."""
    answers = (m for m in reversed(chat.path) if m.role == "assistant" and m.facts.prompt_tokens)
    answer, active = next(answers, None), chat.active_compaction()
    if active is not None and (answer is None or active.created > answer.created):
        facts = MessageFacts() if answer is None else answer.facts
        return LastSize(active.tokens_after, facts.context, active.model)
    if answer is None:
        return LastSize()
    facts = answer.facts
    return LastSize(facts.prompt_tokens + facts.completion_tokens, facts.context, answer.model)
