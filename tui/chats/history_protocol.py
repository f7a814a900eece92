"""The interface through which a chat records its changes."""

from __future__ import annotations

from .chat import Chat, ChatSettings
from .message import CompactionRecord, Ending, Message, MessageFacts


class ChatRecorder:
    """Records changes as they happen; no method waits for a disk.

    Records are durable within a second. Those about one chat keep their order. A failure (a full
    disk) is reported once through a callback, and the chat continues.
    """

    def add_chat(self, chat: Chat) -> None:
        """Record a new chat; called before its first message is added."""

    def add_message(self, chat: str, message: Message) -> None:
        """Record an added and chosen message; an answer may still be empty."""

    def append(self, message: str, text: str = "", reasoning: str = "") -> None:
        """Record new text of an answer."""

    def set_generation(self, message: str, generation: str) -> None:
        """Record the generation id of an answer in the daemon, by which it can be resumed."""

    def end_message(self, message: str, ending: Ending, facts: MessageFacts) -> None:
        """Record the end of an answer."""

    def choose(self, chat: str, message: str) -> None:
        """Record that the branch of this message is the one on the screen."""

    def pin(self, message: str, pinned: bool) -> None:
        """Record that a message is pinned or unpinned."""

    def set_settings(self, chat: str, settings: ChatSettings) -> None:
        """Record changed settings: title, model, system prompt, sampling, folder, pin."""

    def add_compaction(self, chat: str, compaction: CompactionRecord) -> None:
        """Record a compaction."""

    def undo_compaction(self, chat: str, compaction: str) -> None:
        """Record that a compaction was undone."""

    def save_draft(self, chat: str, text: str) -> None:
        """Record the composer's text; a chat may have a draft and no messages yet."""

    def remove_message(self, chat: str, message: str) -> None:
        """Delete a message and its descendants."""


class NullRecorder(ChatRecorder):
    """Records nothing: for temporary chats."""
