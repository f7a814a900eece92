"""Imports conversations from Claude's export (`conversations.json`)."""

from __future__ import annotations

from ...chats.message import Attachment
from .imported_chat import (
    ForeignMessage,
    ImportedChat,
    Json,
    MalformedChat,
    objects_in,
    seconds,
    text_in,
)


def read_claude(conversation: Json) -> ImportedChat:
    """Read the messages in order, or as a tree if they name their parents."""
    if not isinstance(conversation.get("chat_messages"), list):
        raise MalformedChat("`chat_messages` is not a list")
    created = seconds(conversation.get("created_at"))
    title = text_in(conversation, "name")
    name = text_in(conversation, "uuid") or f"{title}/{created}"
    chat = ImportedChat(f"claude:{name}", title, created)
    messages = objects_in(conversation, "chat_messages")
    is_tree = any(text_in(message, "parent_message_uuid") for message in messages)
    before: str | None = None
    for place, message in enumerate(messages):
        key = text_in(message, "uuid") or str(place)
        parent = (text_in(message, "parent_message_uuid") or None) if is_tree else before
        placed = _message(key, parent, message)
        placed.model = text_in(conversation, "model") or "claude"
        chat.add(placed)
        before = key
    chat.current = text_in(conversation, "current_leaf_message_uuid") or before
    return chat


def _message(key: str, parent: str | None, message: Json) -> ForeignMessage:
    sender = text_in(message, "sender")
    placed = ForeignMessage(key, parent, created=seconds(message.get("created_at")))
    placed.role = "user" if sender == "human" else "assistant" if sender == "assistant" else None
    blocks = objects_in(message, "content")
    texts = [text_in(block, "text") for block in blocks if block.get("type") == "text"]
    thoughts = [text_in(block, "thinking") for block in blocks if block.get("type") == "thinking"]
    placed.text = "\n\n".join(text for text in texts if text) or text_in(message, "text")
    placed.reasoning = "\n\n".join(thought for thought in thoughts if thought)
    for attachment in objects_in(message, "attachments"):
        text = text_in(attachment, "extracted_content")
        if text:
            placed.attachments.append(Attachment(text_in(attachment, "file_name") or "file", text))
    names = [text_in(file, "file_name") for file in objects_in(message, "files")]
    if any(names):
        files = "\n".join(f"[file: {name}]" for name in names if name)
        placed.text = f"{placed.text}\n\n{files}".strip()
    return placed
