"""`path_entries`: how a chat's path stands in the transcript."""

from __future__ import annotations

from .chats.chat import Chat
from .chats.message import Message
from .transcript.entries import AnswerEntry, Entry, PromptEntry
from .turn import ending_note, facts_summary


def path_entries(chat: Chat) -> list[Entry]:
    """An entry for each message; answers that never had text are left out."""
    return [
        entry_of(chat, message)
        for message in chat.path
        if message.role == "user" or message.content or message.reasoning
    ]


def entry_of(chat: Chat, message: Message) -> Entry:
    """The message as it is drawn once nothing more of it comes."""
    if message.role == "user":
        return PromptEntry(message.text)
    entry = AnswerEntry(message.model, answer_note(chat, message))
    entry.append(message.content)
    entry.finish(ending_note(message))
    return entry


def answer_note(chat: Chat, message: Message) -> str:
    """What is known about an answer, and which of its siblings it is."""
    parts = [facts_summary(message.facts)]
    siblings = chat.siblings(message)
    if len(siblings) > 1:
        parts.append(f"answer {siblings.index(message) + 1}/{len(siblings)} ‹alt+←→›")
    return " · ".join(parts)
