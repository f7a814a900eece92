"""The compaction planner: when compaction is suggested or done automatically."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ingle.tui.chats.chat import Chat
from ingle.tui.chats.message import CompactionRecord, MessageFacts
from ingle.tui.compaction.compaction_planner import (
    INSTRUCTION,
    CompactionStep,
    ContextFill,
    LastSize,
    PromptRoom,
    automatic_at,
    last_size,
    next_step,
)

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("used", "step"),
    [
        (5999, CompactionStep.NOTHING),
        (6000, CompactionStep.SUGGEST),
        (7199, CompactionStep.SUGGEST),
        (7200, CompactionStep.COMPACT),
        (8000, CompactionStep.COMPACT),
    ],
)
def test_compaction_is_suggested_at_75_percent_and_done_at_90(
    used: int, step: CompactionStep
) -> None:
    assert next_step(ContextFill(used, 8000, notes=300)) is step


def test_compaction_is_earlier_if_the_summary_would_not_fit() -> None:
    assert automatic_at(2048, 300) == 2048 - INSTRUCTION - 300
    assert automatic_at(100_000, 2000) == 90_000
    assert next_step(ContextFill(1328, 2048, notes=300)) is CompactionStep.COMPACT


def test_no_second_compaction_within_two_turns() -> None:
    assert next_step(ContextFill(7900, 8000, notes=300, turns_since=1)) is CompactionStep.NOTHING
    assert next_step(ContextFill(7900, 8000, notes=300, turns_since=2)) is CompactionStep.COMPACT


def test_refused_compaction_is_not_retried_immediately() -> None:
    assert next_step(ContextFill(7300, 8000, notes=300, refused_at=7200)) is CompactionStep.SUGGEST
    assert next_step(ContextFill(7600, 8000, notes=300, refused_at=7200)) is CompactionStep.COMPACT


def test_no_compaction_if_the_context_size_is_unknown() -> None:
    assert next_step(ContextFill(7900, 0, notes=300)) is CompactionStep.NOTHING


def test_prompt_fits_within_the_context() -> None:
    assert PromptRoom(7000, 500, 8000).lacking <= 0
    assert PromptRoom(7500, 500, 8000).lacking == 256
    assert PromptRoom(7500, 500, 0).lacking <= 0


def test_automatic_compaction_threshold_is_configurable() -> None:
    assert next_step(ContextFill(6100, 8000, notes=300, at=0.75)) is CompactionStep.COMPACT
    assert next_step(ContextFill(7900, 8000, notes=300, at=None)) is CompactionStep.SUGGEST


def test_size_of_an_opened_chat_comes_from_its_last_answer(
    make_chat: Callable[..., Chat],
) -> None:
    chat = make_chat("one?", "two?")
    assert last_size(chat) == LastSize()
    answer = chat.path[-1]
    answer.model = "a"
    answer.facts = MessageFacts(prompt_tokens=700, completion_tokens=80, context=1024)
    assert last_size(chat) == LastSize(780, 1024, "a")
    compaction = CompactionRecord(
        at=chat.path[1].id, summary="Short.", tokens_after=90, created=answer.created + 1, model="b"
    )
    chat.add_compaction(compaction)
    assert last_size(chat) == LastSize(90, 1024, "b")
