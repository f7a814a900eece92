"""Paths of the chat's own files. Loaded before the first frame, so it imports nothing slow."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class ChatFolders(NamedTuple):
    """`chats` holds the history, `config` settings, keys and prompts; neither need exist."""

    chats: Path
    config: Path
