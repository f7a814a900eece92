"""`QueuedPrompt`: what somebody wants to send."""

from __future__ import annotations

from dataclasses import dataclass

from .message import Attachment, Message


@dataclass(frozen=True, slots=True)
class QueuedPrompt:
    """Words with their attachments; `edits` is the prompt in whose place they come."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    edits: Message | None = None
