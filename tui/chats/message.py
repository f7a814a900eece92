"""A message of a chat, with its attachments and statistics."""

from __future__ import annotations

import os
import time
from typing import Literal

import msgspec


def new_id() -> str:
    """Return a unique id of 22 hexadecimal digits; later ids sort after earlier ones."""
    return f"{time.time_ns() // 1_000_000:012x}{os.urandom(5).hex()}"


Role = Literal["user", "assistant", "tool"]
Ending = Literal["answered", "length", "stopped", "failed", "interrupted"]
"""How an answer ended; `interrupted`: the chat or the daemon died, and it could not be resumed."""


class Attachment(msgspec.Struct, frozen=True, omit_defaults=True):
    """Attached to a prompt: a file's text, pasted text, or a `picture` as a data URI.

    `name` is shown to model and user.
    """

    name: str
    text: str
    picture: str = ""

    @property
    def size(self) -> int:
        """Return the bytes of the file."""
        return len(self.picture) * 3 // 4 if self.picture else len(self.text.encode())

    @property
    def sent_text(self) -> str:
        """Return what the model reads of it; a picture is sent beside that."""
        if self.picture:
            return f'<picture name="{self.name}"/>'
        return f'<file name="{self.name}">\n{self.text.rstrip()}\n</file>'


class RequestedCall(msgspec.Struct, frozen=True):
    """A call in an answer; `arguments` is the JSON text that the model wrote, valid or not."""

    id: str
    name: str
    arguments: str


class ToolStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of a call: a `summary` of one line, and the `diff` of an edit.

    With `undoable` the edit can be taken back; after that it is `undone`.
    """

    call: RequestedCall
    summary: str = ""
    diff: str = ""
    seconds: float = 0.0
    failed: bool = False
    declined: bool = False
    undoable: bool = False
    undone: bool = False


class MessageFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Statistics of an answer: tokens and seconds, None or 0 if unknown; and its tool calls.

    A message with the result of a call has a `step` in place of all that.

    `first_token` and `seconds` are measured by the client: from the request to the first text, and
    to the end. `prompt_seconds` and `decode_seconds` are the engine's own.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    context: int = 0
    first_token: float | None = None
    seconds: float | None = None
    prompt_seconds: float = 0.0
    decode_seconds: float = 0.0
    route: str = "local"
    route_reason: str = ""
    calls: tuple[RequestedCall, ...] = ()
    step: ToolStep | None = None

    @property
    def speed(self) -> float | None:
        """Return tokens per second of decode."""
        if self.decode_seconds <= 0 or self.completion_tokens <= 0:
            return None
        return self.completion_tokens / self.decode_seconds


class Message(msgspec.Struct, kw_only=True):
    """One node of a chat's tree; `created` is in Unix seconds.

    `content` is exactly what was typed or generated. `ending` is None for a prompt, and for an
    answer that is still being written: `generation` is then its id in the daemon. The role "tool"
    is the result of a call in an answer before it.
    """

    role: Role
    content: str = ""
    parent: str | None = None
    id: str = msgspec.field(default_factory=new_id)
    created: float = msgspec.field(default_factory=time.time)
    attachments: tuple[Attachment, ...] = ()
    model: str = ""
    reasoning: str = ""
    ending: Ending | None = None
    generation: str | None = None
    facts: MessageFacts = MessageFacts()
    pinned: bool = False

    @property
    def by(self) -> str:
        """Return the model that answered: a provider's, or the one requested, if it is known."""
        return self.facts.route if "/" in self.facts.route else self.model or "assistant"

    @property
    def is_open(self) -> bool:
        """Return whether it is an answer that is still being written."""
        return self.role == "assistant" and self.ending is None

    @property
    def text(self) -> str:
        """Return the text sent to the model: attachments, then content."""
        parts = [attachment.sent_text for attachment in self.attachments]
        return "\n\n".join([*parts, self.content] if self.content else parts)

    @property
    def pictures(self) -> list[str]:
        """Return the pictures sent to the model, as data URIs."""
        return [attachment.picture for attachment in self.attachments if attachment.picture]


class QueuedPrompt(msgspec.Struct, frozen=True):
    """Text with attachments; `edits` is the prompt that it replaces."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    edits: Message | None = None

    @property
    def sent_text(self) -> str:
        """Return the text sent to the model; see `Message.text`."""
        return Message(role="user", content=self.text, attachments=self.attachments).text


class CompactionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One compaction: `summary` covers everything up to the message `at`.

    `after` is the compaction whose summary precedes this one; None if this one covers everything.
    `kept` are the pinned messages in the range, which stay verbatim. Counts are tokens, `kv_pages`
    pages of the KV cache, `seconds` the time it took.
    """

    at: str
    summary: str
    after: str | None = None
    kept: tuple[str, ...] = ()
    id: str = msgspec.field(default_factory=new_id)
    created: float = msgspec.field(default_factory=time.time)
    model: str = ""
    focus: str = ""
    turns: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    kv_pages: int = 0
    seconds: float = 0.0
    trims: bool = False
    """Made without a model: `summary` is empty, and attachments and long pasted texts up to `at`
    are omitted from requests.
    """
