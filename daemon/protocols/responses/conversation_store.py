"""Stored conversations: items that responses read and extend."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

import msgspec
from msgspec import structs

from ...errors import InvalidBody, NotFound
from ...stores.response_store import ResponseStore
from .items import ItemIds, id_of


class StoredConversation(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation; `used` is the number of ids that were made for its items."""

    version: int = 1
    id: str
    created_at: int
    metadata: dict[str, str]
    items: list[msgspec.Raw] = []
    used: int = 0

    def extended(self, items: list[msgspec.Raw], used: int | None = None) -> StoredConversation:
        """The conversation with more items; raises `InvalidBody` for one that it has."""
        ids = {id_of(item) for item in self.items}
        for item in items:
            if (item_id := id_of(item)) in ids:
                raise InvalidBody(
                    f"The conversation already has an item with the id {item_id[:80]!r}.",
                    hint="Send only new items.",
                    code="duplicate_item",
                )
            ids.add(item_id)
        return structs.replace(
            self, items=[*self.items, *items], used=self.used if used is None else used
        )

    def without(self, item_id: str) -> StoredConversation:
        """The conversation without an item; raises `NotFound`."""
        left = [item for item in self.items if id_of(item) != item_id]
        if len(left) == len(self.items):
            raise item_not_found(item_id)
        return structs.replace(self, items=left)


def item_not_found(item_id: str) -> NotFound:
    """The error for an item that a conversation does not have."""
    return NotFound(f"The conversation has no item {item_id[:80]!r}.", code="item_not_found")


class ConversationStore:
    """The conversations in the store of responses; what a method has changed is on disk."""

    def __init__(self, store: ResponseStore) -> None:
        self._store = store

    @staticmethod
    def new(metadata: dict[str, str] | None) -> StoredConversation:
        """Return an empty conversation, which is not stored yet."""
        return StoredConversation(
            id=f"conv_{secrets.token_hex(ItemIds.LENGTH // 2)}",
            created_at=int(time.time()),
            metadata=metadata or {},
        )

    async def add(self, conversation: StoredConversation) -> None:
        """Store a new conversation; raises `StorageFull` and `StorageUnusable`."""
        await self._store.save(conversation.id, conversation)

    async def get(self, conversation_id: str) -> StoredConversation:
        """Return a conversation; raises `NotFound`."""
        return _found(await self._find(conversation_id), conversation_id)

    async def change(
        self, conversation_id: str, change: Callable[[StoredConversation], StoredConversation]
    ) -> StoredConversation:
        """Store and return what `change` makes of a conversation.

        Raises `NotFound`, `StorageFull`, `StorageUnusable` and what `change` raises.
        """
        if not conversation_id.startswith("conv_"):
            return _found(None, conversation_id)
        changed = await self._store.change(conversation_id, StoredConversation, change)
        return _found(changed, conversation_id)

    async def delete(self, conversation_id: str) -> None:
        """Delete a conversation, but not its responses; raises `NotFound`."""
        await self.get(conversation_id)
        await self._store.discard(conversation_id)

    async def _find(self, conversation_id: str) -> StoredConversation | None:
        if not conversation_id.startswith("conv_"):
            return None
        return await self._store.get_as(conversation_id, StoredConversation)


def _found(conversation: StoredConversation | None, conversation_id: str) -> StoredConversation:
    if conversation is None:
        raise NotFound(
            f"Conversation with id {conversation_id[:80]!r} not found.",
            hint="Conversations expire when they are not used; create another one.",
            code="conversation_not_found",
            param="conversation",
        )
    return conversation
