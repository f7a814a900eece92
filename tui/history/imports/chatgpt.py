"""Imports conversations from ChatGPT's export (`conversations.json`)."""

from __future__ import annotations

from typing import Any

from .imported_chat import (
    ForeignMessage,
    ImportedChat,
    Json,
    MalformedChat,
    object_in,
    objects_in,
    seconds,
    text_in,
)


def read_chatgpt(conversation: Json) -> ImportedChat:
    """Read the tree in `mapping`, with the branch of `current_node`; raises `MalformedChat`.

    What ChatGPT does not show (system messages, tool calls and results) is omitted; reasoning is
    attached to the answer after it.
    """
    nodes = conversation.get("mapping")
    if not isinstance(nodes, dict):
        raise MalformedChat("`mapping` is not an object")
    name = text_in(conversation, "conversation_id") or text_in(conversation, "id")
    created = seconds(conversation.get("create_time"))
    title = text_in(conversation, "title")
    chat = ImportedChat(f"chatgpt:{name or f'{title}/{created}'}", title, created)
    chat.current = text_in(conversation, "current_node") or None
    default = text_in(conversation, "default_model_slug")
    for key in nodes:  # pyright: ignore[reportUnknownVariableType]
        node = object_in(nodes, str(key))  # pyright: ignore[reportUnknownArgumentType]
        parent = text_in(node, "parent") or None
        chat.add(_message(str(key), parent, object_in(node, "message"), default))  # pyright: ignore[reportUnknownArgumentType]
    return chat


def _message(key: str, parent: str | None, message: Json, default_model: str) -> ForeignMessage:
    role = text_in(object_in(message, "author"), "role")
    metadata, content = object_in(message, "metadata"), object_in(message, "content")
    placed = ForeignMessage(key, parent, created=seconds(message.get("create_time")))
    if content.get("content_type") == "thoughts":
        placed.reasoning = "\n\n".join(
            text_in(thought, "content") or text_in(thought, "summary")
            for thought in objects_in(content, "thoughts")
        )
        return placed
    hidden = metadata.get("is_visually_hidden_from_conversation") is True
    to_a_tool = (text_in(message, "recipient") or "all") != "all"
    if hidden or to_a_tool or content.get("content_type") not in ("text", "multimodal_text"):
        return placed
    if role == "user" or role == "assistant":
        placed.role = role
        names = [text_in(each, "name") for each in objects_in(metadata, "attachments")]
        parts = [*_parts(content.get("parts")), *(f"[file: {name}]" for name in names if name)]
        placed.text = "\n\n".join(part for part in parts if part)
        placed.model = text_in(metadata, "model_slug") or default_model
    return placed


def _parts(parts: Any) -> list[str]:
    """Return text parts as they are; pictures and sound as placeholders."""
    texts: list[str] = []
    for part in parts if isinstance(parts, list) else []:  # pyright: ignore[reportUnknownVariableType]
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            kind = text_in(part, "content_type")  # pyright: ignore[reportUnknownArgumentType]
            said = text_in(part, "text")  # pyright: ignore[reportUnknownArgumentType]
            if said:
                texts.append(said)
            elif "image" in kind:
                texts.append("[image]")
    return texts
