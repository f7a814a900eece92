"""Entries of the transcript for the messages of a chat and for failures."""

from __future__ import annotations

from ingle.daemon.client.client_errors import ClientError

from ..chats.chat import Chat
from ..chats.message import Message, MessageFacts, RequestedCall, ToolStep
from ..chats.tool_steps import open_calls
from ..text import number_format
from ..transcript.entries.answer_entry import AnswerEntry
from ..transcript.entries.entry import Entry
from ..transcript.entries.program_entries import CompactionEntry, NoticeEntry, SystemEntry
from ..transcript.entries.prompt_entry import PromptEntry
from ..transcript.entries.step_entry import StepEntry
from .turn import ending_note, facts_summary, route_note

NEXT_KEYS = {
    "daemon_unreachable": "F5 starts it and asks again; your prompt is kept",
    "context_length_exceeded": "F6 compacts · ctrl+n starts a new chat · ctrl+o other models",
    "model_not_found": "ctrl+o chooses another model",
    "no_vision": "ctrl+o chooses a model, F5 asks it · /edit, to ask without the picture",
    "wrong_task": "ctrl+o chooses another model",
    "load_failed": "F5 tries again · ctrl+o chooses another model",
    "out_of_memory": "F5 tries again · ctrl+o chooses another model",
}


def path_entries(chat: Chat, running: AnswerEntry | None = None) -> list[Entry]:
    """The system prompt, an entry for each non-empty message, and one for each compaction.

    An answer that is being written keeps the entry it grows in, `running`.
    """
    entries: list[Entry] = [SystemEntry(chat.settings.system)] if chat.settings.system else []
    seams = {compaction.at: compaction for compaction in chat.compaction_chain()}
    path = chat.path
    for message in path:
        if running is not None and message.id == running.id:
            entries.append(running)
        elif message.role != "assistant" or message.content or message.reasoning:
            entries.append(entry_of(chat, message))
        if (compaction := seams.get(message.id)) is not None:
            pins = len(compaction.kept)
            kept = number_format.counted(pins, "pin") if pins else ""
            entries.append(CompactionEntry(compaction, kept))
    latest = next((e for e in reversed(entries) if isinstance(e, AnswerEntry)), None)
    if latest is not None:
        latest.set_latest(True)
    unrun = open_calls(chat) if path and not path[-1].is_open else []
    return entries + [StepEntry(_unrun(call)) for call in unrun]


def _unrun(call: RequestedCall) -> Message:
    """A message that stands for a call that was not run, since the chat ended before."""
    step = ToolStep(call, summary="not finished · /continue runs it", declined=True)
    return Message(role="tool", id="", facts=MessageFacts(step=step))


def entry_of(chat: Chat, message: Message) -> Entry:
    """The entry of a complete message."""
    if message.role == "user":
        return PromptEntry(
            message.content,
            id=message.id,
            created=message.created,
            attachments=message.attachments,
            place=place_of(chat, message),
            pinned=message.pinned,
        )
    if message.facts.step is not None:
        return StepEntry(message)
    entry = AnswerEntry(
        message.by,
        route_note(message.facts.route),
        facts=facts_summary(message.facts),
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
    """The number of a message among its siblings, from one, and their count; None without any."""
    siblings = chat.siblings(message)
    return (siblings.index(message) + 1, len(siblings)) if len(siblings) > 1 else None


def branch_of(chat: Chat) -> str:
    """`2/3` of the last message on the path that has siblings; "" if none has."""
    for message in reversed(chat.path):
        place = place_of(chat, message)
        if place is not None:
            return f"{place[0]}/{place[1]}"
    return ""


def answer_failed(error: ClientError, *, is_begun: bool = False) -> NoticeEntry:
    """The notice for an answer that failed; one that `is_begun` has text, and can be continued."""
    keys = NEXT_KEYS.get(error.code, "F5 asks again; your prompt is kept")
    if is_begun:
        keys = "/continue goes on from there · F5 answers again"
    return failure(error.message, error.hint, keys)


def failure(message: str, hint: str | None, keys: str) -> NoticeEntry:
    """The notice for a failure, with its hint and the keys for the next step."""
    return NoticeEntry(message, "\n".join(part for part in (hint, keys) if part), "error")
