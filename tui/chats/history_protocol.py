"""`ChatRecorder`: what the chat asks of the place where chats are kept."""

from __future__ import annotations

from .chat import Chat, ChatSettings
from .compaction_record import CompactionRecord
from .message import Ending, Message, MessageFacts


class ChatRecorder:
    """Takes note of everything as it happens; no method waits for a disk.

    What was noted is durable within a second. Notes about one chat keep their order. A failure (a
    full disk) is told once through the callback it was made with, and the chat goes on.
    """

    def add_chat(self, chat: Chat) -> None:
        """A chat has its first message; called before that is added."""

    def add_message(self, chat: str, message: Message) -> None:
        """A message was added and chosen; an answer may be empty yet."""

    def append(self, message: str, text: str = "", reasoning: str = "") -> None:
        """An answer grew by so much."""

    def set_generation(self, message: str, generation: str) -> None:
        """The answer has this name in the daemon, and can be taken up again by it."""

    def end_message(self, message: str, ending: Ending, facts: MessageFacts) -> None:
        """An answer is complete, or nothing more of it will come."""

    def choose(self, chat: str, message: str) -> None:
        """The branch of this message is the one on the screen."""

    def pin(self, message: str, pinned: bool) -> None:
        """A message is to be kept word for word, or no longer."""

    def set_settings(self, chat: str, settings: ChatSettings) -> None:
        """Title, model, system prompt, sampling, folder or pin changed."""

    def add_compaction(self, chat: str, compaction: CompactionRecord) -> None:
        """A summary stands for what is before it."""

    def undo_compaction(self, chat: str, compaction: str) -> None:
        """The originals are sent again."""

    def save_draft(self, chat: str, text: str) -> None:
        """What stands in the composer; a chat may have a draft and no messages yet."""

    def remove_message(self, chat: str, message: str) -> None:
        """A message and all behind it were deleted by their owner."""


class NullRecorder(ChatRecorder):
    """Keeps nothing: for temporary chats."""
