"""`Folders`: where the chat keeps what is its own."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Folders(NamedTuple):
    """`chats` holds the history, `config` settings, keys and prompts; neither need exist."""

    chats: Path
    config: Path
