"""`path_entries`: how a chat's path stands in the transcript."""

from __future__ import annotations

from ..chats.chat import Chat
from ..chats.message import Message
from ..transcript.entries.answer_entry import AnswerEntry
from ..transcript.entries.entry import Entry
from ..transcript.entries.program_entries import CompactionEntry, SystemEntry
from ..transcript.entries.prompt_entry import PromptEntry
from .turn import ending_note, facts_summary


def path_entries(chat: Chat, running: AnswerEntry | None = None) -> list[Entry]:
    """The system prompt, an entry for each message that has something, and a seam a compaction.

    An answer that is being written keeps the entry it grows in, `running`.
    """
    entries: list[Entry] = [SystemEntry(chat.settings.system)] if chat.settings.system else []
    seams = {compaction.at: compaction for compaction in chat.compaction_chain()}
    for message in chat.path:
        if running is not None and message.id == running.id:
            entries.append(running)
        elif message.role == "user" or message.content or message.reasoning:
            entries.append(entry_of(chat, message))
        if (compaction := seams.get(message.id)) is not None:
            pins = len(compaction.kept)
            kept = f"{pins} pin{'' if pins == 1 else 's'}" if pins else ""
            entries.append(CompactionEntry(compaction, kept))
    return entries


def entry_of(chat: Chat, message: Message) -> Entry:
    """The message as it is drawn once nothing more of it comes."""
    if message.role == "user":
        return PromptEntry(
            message.content,
            id=message.id,
            created=message.created,
            attachments=message.attachments,
            place=place_of(chat, message),
            pinned=message.pinned,
        )
    entry = AnswerEntry(
        message.by,
        facts_summary(message.facts),
        id=message.id,
        created=message.created,
        place=place_of(chat, message),
        pinned=message.pinned,
    )
    return entry.complete(
        message.content,
        message.reasoning,
        ending_note(message),
        reasoning_tokens=message.facts.reasoning_tokens,
    )


def place_of(chat: Chat, message: Message) -> tuple[int, int] | None:
    """Which of how many siblings it is, counted from one; None where it has none."""
    siblings = chat.siblings(message)
    return (siblings.index(message) + 1, len(siblings)) if len(siblings) > 1 else None
