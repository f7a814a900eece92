"""A prompt that waits to be sent."""

from __future__ import annotations

from dataclasses import dataclass

from .message import Attachment, Message


@dataclass(frozen=True, slots=True)
class QueuedPrompt:
    """Text with attachments; `edits` is the prompt that it replaces."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    edits: Message | None = None
