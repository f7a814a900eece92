"""Every kind of entry of the transcript."""

from __future__ import annotations

from .answer_entry import AnswerEntry
from .compaction_entry import CompactionEntry
from .entry import Entry, RenderOptions
from .notice_entry import NoticeEntry
from .prompt_entry import PromptEntry
from .system_entry import SystemEntry
from .tool_call_block import ToolCallBlock

__all__ = [
    "AnswerEntry",
    "CompactionEntry",
    "Entry",
    "NoticeEntry",
    "PromptEntry",
    "RenderOptions",
    "SystemEntry",
    "ToolCallBlock",
]
