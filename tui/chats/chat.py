"""A chat: messages in a tree, of which one path is on the screen."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any

import msgspec

from .message import CompactionRecord, Message, new_id


class ChatSettings(msgspec.Struct, kw_only=True):
    """A chat's settings; None leaves a choice to the daemon, `title` "" uses the first words.

    `thinking` is "off", "on", "low", "medium", "high", or "" for the model's default. `route` is
    "local", "auto", "ask", the name of one, or "" if not chosen: then the model answers. `tools` is
    the folder in which tools work, "" if they are off, and `consents` are the user's choices about
    them by scope.
    """

    title: str = ""
    model: str | None = None
    system: str = ""
    sampling: dict[str, float] = {}
    thinking: str = ""
    route: str = ""
    folder: str = ""
    pinned: bool = False
    tools: str = ""
    consents: dict[str, str] = {}


class Chat:
    """A conversation with all its branches; it neither calls models nor writes files.

    An edited prompt or a regenerated answer is a sibling of the old one; `path` is the branch that
    is shown and continued. A `temporary` chat is never saved.
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
        self.functions: tuple[dict[str, Any], ...] = ()
        """The tools that its requests offer, in the API's format; never saved."""
        self.messages: dict[str, Message] = {}
        self.compactions: dict[str, CompactionRecord] = {}
        self.undone: set[str] = set()
        self._children: dict[str | None, list[str]] = {None: []}
        self._chosen: dict[str | None, str] = {}

    @property
    def title(self) -> str:
        """Return the given title, else one from the first prompt."""
        if self.settings.title:
            return self.settings.title
        first = self._chosen.get(None)
        if first is None:
            return ""
        # Its patterns take milliseconds to compile, and a new chat needs none.
        from .automatic_title import automatic_title

        return automatic_title(self.messages[first].content)

    @property
    def label(self) -> str:
        """Return the label of the chat's pages in the KV cache; each compaction changes it."""
        return self.label_after(self.compaction_chain())

    def label_after(self, chain: Sequence[CompactionRecord]) -> str:
        """Return the label of the pages after a chain of compactions."""
        return f"{self.id}@{chain[-1].id}" if chain else self.id

    @property
    def path(self) -> list[Message]:
        """Return the messages from the first to the last of the chosen branch."""
        path: list[Message] = []
        name = self._chosen.get(None)
        while name is not None:
            path.append(self.messages[name])
            name = self._chosen.get(name)
        return path

    @property
    def leaf(self) -> Message | None:
        """Return the last message of the chosen branch."""
        path = self.path
        return path[-1] if path else None

    def add(self, message: Message) -> Message:
        """Add a message after its `parent`, and choose it; raises `KeyError` for an unknown
        parent.
        """
        if message.parent is not None and message.parent not in self.messages:
            raise KeyError(message.parent)
        self.messages[message.id] = message
        self._children[message.id] = []
        self._children[message.parent].append(message.id)
        self._chosen[message.parent] = message.id
        return message

    def children(self, name: str | None) -> list[Message]:
        """Return the messages after one, a branch each; None asks for the first messages."""
        return [self.messages[child] for child in self._children[name]]

    def siblings(self, message: Message) -> list[Message]:
        """Return the message and its alternatives in other branches, the oldest first."""
        return self.children(message.parent)

    def neighbour(self, message: Message, step: int) -> Message:
        """Return the sibling `step` positions further, wrapping around."""
        siblings = self.siblings(message)
        return siblings[(siblings.index(message) + step) % len(siblings)]

    def choose(self, message: Message) -> None:
        """Switch to the branch of a message, and down to its last chosen leaf."""
        step: Message | None = message
        while step is not None:
            self._chosen[step.parent] = step.id
            step = self.messages[step.parent] if step.parent is not None else None

    def end_path_at(self, message: Message) -> None:
        """End the path at a message, keeping its descendants."""
        self.choose(message)
        self._chosen.pop(message.id, None)

    def chosen_ids(self) -> list[str]:
        """Return the chosen child of every message that has children, for saving."""
        return list(self._chosen.values())

    def remove(self, message: Message) -> list[Message]:
        """Remove a message and its descendants, and return them. The newest sibling is chosen."""
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
        """Add a compaction."""
        self.compactions[compaction.id] = compaction

    def undo_compaction(self, name: str) -> None:
        """Undo a compaction: the original messages are sent again."""
        self.undone.add(name)

    def active_compaction(self) -> CompactionRecord | None:
        """Return the newest compaction that is not undone and whose last message is on the path."""
        places = {message.id: index for index, message in enumerate(self.path)}
        active = [
            compaction
            for compaction in self.compactions.values()
            if compaction.id not in self.undone and compaction.at in places
        ]
        # Not by position: a trim may reach further than a later summary.
        return max(active, key=lambda c: (c.created, places[c.at]), default=None)

    def compaction_chain(self) -> list[CompactionRecord]:
        """Return the active compaction and its predecessors, the first first."""
        return self.chain_to(self.active_compaction())

    def chain_to(self, step: CompactionRecord | None) -> list[CompactionRecord]:
        """Return a compaction, which may not be in the chat yet, and its predecessors."""
        chain: list[CompactionRecord] = []
        while step is not None:
            chain.append(step)
            step = self.compactions.get(step.after) if step.after is not None else None
        return chain[::-1]

    def copy(self) -> Chat:
        """Return a copy for another thread to read."""
        chat = copy(self)
        chat.settings = copy(self.settings)
        chat.messages = {name: copy(message) for name, message in self.messages.items()}
        chat.compactions, chat.undone = dict(self.compactions), set(self.undone)
        chat._children = {name: list(children) for name, children in self._children.items()}
        chat._chosen = dict(self._chosen)
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
        """Return a chat from its saved parts; parents come before their children."""
        chat = cls(settings, id=id, created=created)
        for message in messages:
            chat.add(message)
        for name in chosen:
            if name in chat.messages:
                chat._chosen[chat.messages[name].parent] = name
        return chat
