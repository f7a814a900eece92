"""Converts another program's chat into a `Chat`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

from ...chats.chat import Chat, ChatSettings
from ...chats.message import Attachment, Message, Role

Json = dict[str, Any]
MAX_MESSAGES = 100_000
"""Most messages of one chat."""


class MalformedChat(Exception):
    """A file does not follow its program's format; the message names the deviation."""


@dataclass(slots=True)
class ForeignMessage:
    """A message with the other program's ids; one without a role is only a link in the tree."""

    key: str
    parent: str | None = None
    role: Role | None = None
    text: str = ""
    reasoning: str = ""
    model: str = ""
    created: float | None = None
    attachments: list[Attachment] = field(default_factory=list[Attachment])


class ImportedChat:
    """Collects a chat of `program`, whose own id is `name`, "" without one.

    `source` identifies it permanently, so that a second import recognises it.
    """

    def __init__(self, program: str, name: str, title: str, created: float | None) -> None:
        self.source = f"{program}:{name or f'{title}/{created}'}"
        self.settings = ChatSettings(title=" ".join(title.split())[:300])
        self.created = created
        self.current: str | None = None
        self._messages: dict[str, ForeignMessage] = {}
        self._last: str | None = None

    def add(self, message: ForeignMessage) -> None:
        """Add a message; parents may come later."""
        if len(self._messages) >= MAX_MESSAGES:
            raise MalformedChat(f"a chat has more than {MAX_MESSAGES} messages")
        self._messages[message.key] = message
        self._last = message.key

    def append(self, message: ForeignMessage) -> None:
        """Add a message whose parent is the one added last."""
        message.parent = self._last
        self.add(message)

    def build(self) -> Chat | None:
        """Return the converted chat, None if it has no messages."""
        created = self.created
        if created is None:
            times = [each.created for each in self._messages.values() if each.created]
            created = min(times, default=0.0)
        chat = Chat(self.settings, id=_name(self.source), created=created)
        children: dict[str | None, list[ForeignMessage]] = {}
        for message in self._messages.values():
            # A message whose parent is missing begins a branch.
            parent = message.parent if message.parent in self._messages else None
            children.setdefault(parent, []).append(message)
        placed: dict[str | None, _Place] = {}
        # Parents before children; cycles are never reached, and so are omitted.
        waiting = children.get(None, [])[::-1]
        while waiting:
            foreign = waiting.pop()
            is_alone = len(children.get(foreign.parent, ())) == 1
            before = placed.get(foreign.parent, _Place(None))
            placed[foreign.key] = self._place(chat, foreign, before, is_alone)
            waiting += reversed(children.get(foreign.key, []))
        if not chat.messages:
            return None
        current = placed.get(self.current, _Place(None)).message
        if current is not None:
            chat.choose(current)
        return chat

    def _place(self, chat: Chat, foreign: ForeignMessage, before: _Place, is_alone: bool) -> _Place:
        """Add a message to the chat; `is_alone` if it is the only child of its parent."""
        parent = before.message
        reasoning = paragraphs(before.thoughts, foreign.reasoning)
        if foreign.role is None or not (foreign.text.strip() or foreign.attachments):
            return _Place(parent, reasoning)
        if foreign.role == "assistant" and parent and parent.role == "assistant" and is_alone:
            # Parts of one answer, with omitted tool calls between them.
            parent.content += "\n\n" + foreign.text
            parent.reasoning = paragraphs(parent.reasoning, reasoning)
            return _Place(parent)
        message = Message(
            role=foreign.role,
            content=foreign.text,
            parent=None if parent is None else parent.id,
            id=_name(f"{self.source}/{foreign.key}"),
            created=foreign.created or (parent.created if parent else chat.created),
            attachments=tuple(foreign.attachments),
        )
        if foreign.role == "assistant":
            message.model, message.reasoning = foreign.model, reasoning
            message.ending = "answered"
        return _Place(chat.add(message))


class _Place(NamedTuple):
    """The message that a foreign one became or continues, and reasoning for the next answer."""

    message: Message | None
    thoughts: str = ""


def seconds(value: object) -> float | None:
    """Parse a timestamp (seconds, milliseconds, nanoseconds or ISO 8601) into Unix seconds."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            time = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
        # Times without a zone are UTC in all databases read here.
        time = time.replace(tzinfo=UTC) if time.tzinfo is None else time
        return time.timestamp()
    if not isinstance(value, (int, float)):
        return None
    number = float(value)
    for limit, divisor in ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3)):
        if number > limit:
            number /= divisor
            break
    return number if 0 < number < 1e11 else None


def role_of(name: object) -> Role | None:
    """Return the role for its name in other programs, None for unknown names."""
    if name in ("user", "me", "human"):
        return "user"
    return "assistant" if name in ("assistant", "ollama", "ai") else None


def paragraphs(*texts: str) -> str:
    """Return the texts that are not empty, with blank lines between them."""
    return "\n\n".join(filter(None, texts))


def text_in(value: Json, *keys: str) -> str:
    """Return the first text that is not empty under one of `keys`, "" if missing."""
    found = (value.get(key) for key in keys)
    return next((each for each in found if each and isinstance(each, str)), "")


def object_in(value: Json, key: str) -> Json:
    """Return the object under `key`, an empty one if missing."""
    found = value.get(key)
    return cast("Json", found) if isinstance(found, dict) else {}


def objects_in(value: Json, key: str) -> list[Json]:
    """Return the objects in the list under `key`."""
    found = value.get(key)
    if not isinstance(found, list):
        return []
    return [cast("Json", each) for each in cast("list[object]", found) if isinstance(each, dict)]


def _name(source: str) -> str:
    """Derive a stable id in ingle's format from the other program's id."""
    return hashlib.sha256(source.encode("utf-8", "replace")).hexdigest()[:22]
