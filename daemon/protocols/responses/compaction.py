"""Compaction: the user's messages stay, and a summary replaces all others."""

from __future__ import annotations

import dataclasses
import time
from typing import Literal

import msgspec
from msgspec import structs

from ingle.backends.base.conversation import ChatMessage, Reasoning, ToolChoice

from ..answer_builder import AnswerBuilder
from ..job import Job
from .item_reader import seal
from .items import CompactionItem, MessageItem
from .requests import ResponseDraft
from .response_types import ResponseUsage

LONGEST_SUMMARY = 1024
"""Tokens."""

REQUEST = (
    "Write a summary of this conversation for somebody who will go on with it and sees nothing "
    "else of it. Keep what was asked for, what was decided and why, what was done and found out "
    "(with names, paths, numbers and commands as they are), and what is left to do. Write only "
    "the summary."
)


class CompactedResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The user's messages, and behind them the summary; to be sent as `input` of the next turn."""

    id: str
    object: Literal["response.compaction"] = "response.compaction"
    created_at: int
    output: list[MessageItem | CompactionItem]
    usage: ResponseUsage


def summary_job(draft: ResponseDraft) -> Job:
    """The job that writes the summary; what is too old for the context is left out."""
    request = draft.job.request
    messages = [*(request.messages or []), ChatMessage("user", REQUEST)]
    asked = structs.replace(
        request,
        messages=messages,
        max_tokens=LONGEST_SUMMARY,
        tool_choice=ToolChoice("none"),
        reasoning=Reasoning(enabled=False),
        grammar=None,
    )
    return dataclasses.replace(draft.job, request=asked, fit=draft.fit)


def compacted(draft: ResponseDraft, collected: AnswerBuilder) -> CompactedResponse:
    """The conversation with the summary that was written."""
    summary = "".join(collected.answers[0].text).strip()
    asked = [
        item for item in draft.history if isinstance(item, MessageItem) and item.role == "user"
    ]
    item = CompactionItem(id=draft.ids.new("cmp"), encrypted_content=seal(summary))
    return CompactedResponse(
        id=draft.job.id,
        created_at=int(time.time()),
        output=[*asked, item],
        usage=ResponseUsage.of(
            prompt=collected.prompt_tokens,
            cached=collected.cached_tokens,
            completion=collected.completion_tokens,
            reasoning=collected.reasoning_tokens,
        ),
    )
