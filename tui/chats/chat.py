"""`Chat`: messages in a tree, of which one path is on the screen."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from copy import copy

import msgspec

from .automatic_title import automatic_title
from .compaction_record import CompactionRecord
from .message import Message
from .message_ids import new_id


class ChatSettings(msgspec.Struct, kw_only=True):
    """What a chat is held with; None leaves it to the daemon, `title` "" to the first words.

    `thinking` is "off", "on", "low", "medium", "high", or "" for the model's own. `route` is
    "local", "auto", "ask", the name of one, or "" where nobody chose: then the model answers."""

    title: str = ""
    model: str | None = None
    system: str = ""
    sampling: dict[str, float] = {}
    thinking: str = ""
    route: str = ""
    folder: str = ""
    pinned: bool = False


class Chat:
    """A conversation with all its branches; it neither asks models nor writes files.

    An edited prompt and an answer asked for again stand beside the old ones, as children of the
    same message; `path` is the branch that is read and continued. A `temporary` chat is never
    written.
    """

    def __init__(
        self,
        settings: ChatSettings | None = None,
        *,
        id: str | None = None,  # noqa: A002
        created: float | None = None,
        temporary: bool = False,
    ) -> None:
        self.id = id or new_id()
        self.created = time.time() if created is None else created
        self.temporary = temporary
        self.settings = settings or ChatSettings()
        self.messages: dict[str, Message] = {}
        self.compactions: dict[str, CompactionRecord] = {}
        self.undone: set[str] = set()
        self._children: dict[str | None, list[str]] = {None: []}
        self._chosen: dict[str | None, str] = {}

    @property
    def title(self) -> str:
        """Its given title, else the first words of its first prompt; no model is asked for it."""
        if self.settings.title:
            return self.settings.title
        first = self._chosen.get(None)
        return automatic_title(self.messages[first].content) if first is not None else ""

    @property
    def label(self) -> str:
        """How its pages in the KV cache are named; a compaction begins a name of its own."""
        return self.label_behind(self.compaction_chain())

    def label_behind(self, chain: Sequence[CompactionRecord]) -> str:
        """The name of the pages behind a chain of compactions."""
        return f"{self.id}@{chain[-1].id}" if chain else self.id

    @property
    def path(self) -> list[Message]:
        """The messages from the first to the last of the chosen branch."""
        path: list[Message] = []
        name = self._chosen.get(None)
        while name is not None:
            path.append(self.messages[name])
            name = self._chosen.get(name)
        return path

    @property
    def leaf(self) -> Message | None:
        """The last message of the chosen branch."""
        path = self.path
        return path[-1] if path else None

    def add(self, message: Message) -> Message:
        """Put a message behind its `parent`, and choose it; raises `KeyError` without that."""
        if message.parent is not None and message.parent not in self.messages:
            raise KeyError(message.parent)
        self.messages[message.id] = message
        self._children[message.id] = []
        self._children[message.parent].append(message.id)
        self._chosen[message.parent] = message.id
        return message

    def children(self, name: str | None) -> list[Message]:
        """What was said next, in each branch; None asks for the first messages."""
        return [self.messages[child] for child in self._children[name]]

    def siblings(self, message: Message) -> list[Message]:
        """The message and those in its place in other branches, the oldest first."""
        return self.children(message.parent)

    def neighbour(self, message: Message, step: int) -> Message:
        """The sibling so many steps further, round the end."""
        siblings = self.siblings(message)
        return siblings[(siblings.index(message) + step) % len(siblings)]

    def choose(self, message: Message) -> None:
        """Go over to the branch of a message, and down to where that was left last."""
        step: Message | None = message
        while step is not None:
            self._chosen[step.parent] = step.id
            step = self.messages[step.parent] if step.parent is not None else None

    def cut_behind(self, message: Message) -> None:
        """Let the path end with a message, whatever was said behind it."""
        self.choose(message)
        self._chosen.pop(message.id, None)

    def chosen_names(self) -> list[str]:
        """The chosen child of every message that has any, for keeping the choice."""
        return list(self._chosen.values())

    def remove(self, message: Message) -> list[Message]:
        """Take away a message and all behind it; returns what went. The newest sibling is next."""
        gone: list[Message] = []
        waiting = [message.id]
        while waiting:
            name = waiting.pop()
            gone.append(self.messages.pop(name))
            waiting += self._children.pop(name)
            self._chosen.pop(name, None)
        left = self._children[message.parent]
        left.remove(message.id)
        if self._chosen.get(message.parent) == message.id:
            if left:
                self._chosen[message.parent] = left[-1]
            else:
                del self._chosen[message.parent]
        return gone

    def add_compaction(self, compaction: CompactionRecord) -> None:
        """Let a summary stand for what is before it."""
        self.compactions[compaction.id] = compaction

    def undo_compaction(self, name: str) -> None:
        """Send the originals again."""
        self.undone.add(name)

    def active_compaction(self) -> CompactionRecord | None:
        """The newest one that is not undone and whose last message is on the path."""
        places = {message.id: index for index, message in enumerate(self.path)}
        active = [
            compaction
            for compaction in self.compactions.values()
            if compaction.id not in self.undone and compaction.at in places
        ]
        # Not by place: a trim reaches further down than a summary made after it.
        return max(active, key=lambda c: (c.created, places[c.at]), default=None)

    def compaction_chain(self) -> list[CompactionRecord]:
        """The active compaction and those whose summaries stand before its own, the first first."""
        chain: list[CompactionRecord] = []
        step = self.active_compaction()
        while step is not None:
            chain.append(step)
            step = self.compactions.get(step.after) if step.after is not None else None
        chain.reverse()
        return chain

    def copy(self) -> Chat:
        """The chat as it is now, for another thread to read."""
        chat = Chat.restore(
            copy(self.settings),
            [copy(message) for message in self.messages.values()],
            self.chosen_names(),
            id=self.id,
            created=self.created,
        )
        chat.temporary = self.temporary
        chat.compactions = dict(self.compactions)
        chat.undone = set(self.undone)
        return chat

    @classmethod
    def restore(
        cls,
        settings: ChatSettings,
        messages: Iterable[Message],
        chosen: Iterable[str],
        *,
        id: str,  # noqa: A002
        created: float,
    ) -> Chat:
        """A chat as it was kept; parents come before their children."""
        chat = cls(settings, id=id, created=created)
        for message in messages:
            chat.add(message)
        for name in chosen:
            if name in chat.messages:
                chat._chosen[chat.messages[name].parent] = name
        return chat
