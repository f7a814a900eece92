"""Paths of the chat's own files. Loaded before the first frame, so it imports nothing slow."""

from __future__ import annotations

from pathlib import Path


class ChatFolders:
    """`chats` holds the history, `config` settings, keys and prompts; neither need exist."""

    __slots__ = ("chats", "config")

    def __init__(self, chats: Path, config: Path) -> None:
        self.chats = chats
        self.config = config

    def edits(self, chat: str) -> Path:
        """Return the folder in which a chat's tools keep copies of edited files."""
        from hashlib import sha256

        # An imported chat may have any text as its id.
        return self.chats / "tools" / sha256(chat.encode("utf-8", "replace")).hexdigest()[:24]
