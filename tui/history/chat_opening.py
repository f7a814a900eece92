"""`load_at`: a chat, opened where a message stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..chats.chat import Chat
    from .history_store import HistoryStore


def load_at(store: HistoryStore, chat: str, message: str | None) -> Chat | None:
    """The chat with `message` on its path, None where it was deleted; raises `HistoryError`.

    What is said next goes on from there, so that this is the branch to come back to.
    """
    loaded = store.load(chat)
    found = loaded.messages.get(message) if loaded is not None and message is not None else None
    if loaded is not None and found is not None and found not in loaded.path:
        loaded.choose(found)
        store.choose(chat, found.id)
    return loaded
