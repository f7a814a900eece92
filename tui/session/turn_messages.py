"""Adds the messages of a turn, a prompt and the answer to it, to a chat and its history."""

from __future__ import annotations

from ..chats.chat import Chat
from ..chats.history_protocol import ChatRecorder
from ..chats.message import Attachment, Message


def add_prompt(
    chat: Chat,
    history: ChatRecorder,
    text: str,
    attachments: tuple[Attachment, ...] = (),
    edits: Message | None = None,
) -> Message:
    """The prompt as the last message, or beside the one it edits; keeps the chat if it is new."""
    leaf = chat.leaf
    parent = edits.parent if edits is not None else leaf.id if leaf is not None else None
    message = Message(role="user", content=text, attachments=attachments, parent=parent)
    if not chat.messages:
        history.add_chat(chat)
    chat.add(message)
    history.add_message(chat.id, message)
    return message


def add_answer(
    chat: Chat,
    history: ChatRecorder,
    model: str,
    parent: str | None,
    begun: Message | None = None,
) -> Message:
    """An open answer to the message `parent`, with the text of the interrupted answer `begun`."""
    answer = Message(
        role="assistant",
        parent=parent,
        model=model,
        content=begun.content if begun is not None else "",
        reasoning=begun.reasoning if begun is not None else "",
    )
    chat.add(answer)
    history.add_message(chat.id, answer)
    return answer
