"""Tool calls on a chat's path: those without a result, rounds of them, edits to undo."""

from __future__ import annotations

from .chat import Chat
from .message import Message, RequestedCall


def open_calls(chat: Chat) -> list[RequestedCall]:
    """Return the calls at the end of the path that have no result."""
    calls: list[RequestedCall] = []
    answered: set[str] = set()
    for message in reversed(chat.path):
        if message.facts.step is None:
            calls = [call for call in message.facts.calls if call.id not in answered]
            break
        answered.add(message.facts.step.call.id)
    return calls


def rounds(chat: Chat) -> int:
    """Return how many answers with calls follow the last prompt."""
    count = 0
    for message in reversed(chat.path):
        if message.role == "user":
            break
        count += bool(message.facts.calls)
    return count


def undoable_edit(chat: Chat, name: str = "") -> Message | None:
    """Return the message of this id, else the last on the path, whose edit can be undone."""
    for message in reversed(chat.path):
        step = message.facts.step
        if step is not None and step.undoable and not step.undone and name in ("", message.id):
            return message
    return None
