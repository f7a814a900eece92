"""Chat completions that are stored because their request has `store: true`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType, structs

from ingle.backends.base.conversation import ChatMessage
from ingle.backends.base.events import Event

from ....errors import InvalidBody, NotFound
from ....stores.response_store import ResponseStore
from ...job import AnswerBuilder, Job
from ...job_runner import AnswerEncoder
from .answers import chat_completion
from .messages import InputMessage
from .request_types import ChatCompletionRequest
from .types import AnsweredCall, AnsweredFunction

PREFIX = "chatcmpl-"
"""Begins the ids of chats, also of those that are not stored."""


class StoredTextPart(msgspec.Struct, frozen=True):
    """A part of a message."""

    text: str
    type: Literal["text"] = "text"


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a stored chat; `content_parts` if it was sent in parts."""

    id: str
    role: str
    content: str | None
    content_parts: list[StoredTextPart] | None = None
    name: str | None = None
    refusal: str | None = None
    tool_calls: list[AnsweredCall] | UnsetType = UNSET
    tool_call_id: str | UnsetType = UNSET


class CompletionHead(msgspec.Struct, frozen=True, kw_only=True):
    """What lists of chats are filtered and ordered by; `stored_at` in Unix seconds."""

    id: str
    stored_at: float
    model: str
    metadata: dict[str, str]


class StoredCompletion(CompletionHead, frozen=True, kw_only=True):
    """One chat: its answer as it was sent, and the messages of its request."""

    version: int = 1
    completion: msgspec.Raw
    messages: list[StoredMessage]

    def described(self) -> dict[str, Any]:
        """The answer, with the present metadata."""
        fields = msgspec.json.decode(self.completion, type=dict[str, msgspec.Raw])
        return {**fields, "metadata": self.metadata}


class CompletionStore:
    """The chats in the store of responses; what a method has changed is on disk."""

    def __init__(self, store: ResponseStore) -> None:
        self._store = store

    async def wants(self, body: ChatCompletionRequest, job: Job) -> bool:
        """Whether an answer is to be kept.

        Raises `InvalidBody` for a private one, and what the store raises if it cannot be written.
        """
        if not body.store:
            return False
        if job.request.private:
            raise InvalidBody(
                "A private request is never written to disk, and cannot be stored.",
                hint="Leave 'store' out.",
                param="store",
            )
        await self._store.check_room()
        return True

    async def keep(self, body: ChatCompletionRequest, collected: AnswerBuilder) -> None:
        """Store an answer; raises `StorageFull` and `StorageUnusable`."""
        completion = chat_completion(collected, body)
        stored = StoredCompletion(
            id=completion.id,
            stored_at=time.time(),
            model=completion.model,
            metadata=body.metadata or {},
            completion=msgspec.Raw(msgspec.json.encode(completion)),
            messages=[
                _message(f"{completion.id}-{number}", given, read)
                for number, (given, read) in enumerate(
                    zip(body.messages, collected.job.request.messages or [], strict=True)
                )
            ],
        )
        await self._store.save(completion.id, stored)

    async def list(self) -> list[CompletionHead]:
        """Return all chats, the newest first."""
        heads = await self._store.list_as(PREFIX, CompletionHead)
        return sorted(heads, key=lambda head: (-head.stored_at, head.id))

    async def get(self, completion_id: str) -> StoredCompletion:
        """Return a chat; raises `NotFound`."""
        stored = None
        if completion_id.startswith(PREFIX):
            stored = await self._store.get_as(completion_id, StoredCompletion)
        return _found(stored, completion_id)

    async def update(self, completion_id: str, metadata: dict[str, str]) -> StoredCompletion:
        """Replace the metadata; raises `NotFound`, `StorageFull` and `StorageUnusable`."""
        await self.get(completion_id)
        changed = await self._store.change(
            completion_id, StoredCompletion, lambda old: structs.replace(old, metadata=metadata)
        )
        return _found(changed, completion_id)

    async def delete(self, completion_id: str) -> None:
        """Delete a chat; raises `NotFound`."""
        await self.get(completion_id)
        await self._store.discard(completion_id)


class RecordedStream:
    """Encodes a stream with another encoder, and collects its answer as well."""

    def __init__(self, encode: Callable[[AnswerBuilder], AnswerEncoder]) -> None:
        self._encode = encode

    def begin(self, empty: AnswerBuilder) -> RecordedStream:
        """Begin; `empty` is for the other encoder."""
        self._encoder = self._encode(empty)
        self.collected = empty.twin()
        return self

    def feed(self, prompt: int, events: list[Event]) -> bytes:
        """See `AnswerEncoder`."""
        self.collected.take(prompt, events)
        return self._encoder.feed(prompt, events)

    def end(self) -> bytes:
        """See `AnswerEncoder`."""
        return self._encoder.end()


def _found(stored: StoredCompletion | None, completion_id: str) -> StoredCompletion:
    if stored is None:
        raise NotFound(
            f"Chat completion {completion_id[:80]!r} not found.",
            hint="Only chats with 'store': true are kept.",
            param="completion_id",
        )
    return stored


def _message(message_id: str, given: InputMessage, read: ChatMessage) -> StoredMessage:
    """A message as it was `given`, with its text and calls as they were `read`."""
    parts = given.content if isinstance(given.content, list) else None
    calls = [
        AnsweredCall(id=call.id, function=AnsweredFunction(call.name, call.arguments))
        for call in read.tool_calls
    ]
    return StoredMessage(
        id=message_id,
        role=given.role,
        content=None if given.content is None else read.content,
        content_parts=None
        if parts is None
        else [StoredTextPart(part.text or "") for part in parts],
        name=given.name,
        refusal=given.refusal,
        tool_calls=calls or UNSET,
        tool_call_id=given.tool_call_id or UNSET,
    )
