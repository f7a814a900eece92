"""Imports chats from the JSON exports of ChatGPT, Claude and Open WebUI."""

from __future__ import annotations

import html
import re

from ...chats.message import Attachment
from .imported_chat import (
    ForeignMessage,
    ImportedChat,
    Json,
    MalformedChat,
    object_in,
    objects_in,
    paragraphs,
    role_of,
    seconds,
    text_in,
)

_THOUGHTS = re.compile(
    r'<details\s+type="reasoning"[^>]*>\s*(?:<summary>.*?</summary>)?(.*?)</details>\s*', re.DOTALL
)


def read_chatgpt(conversation: Json) -> ImportedChat:
    """Read the tree in `mapping`, with the branch of `current_node`; raises `MalformedChat`.

    Messages that ChatGPT hides (system messages, tool calls and results) are omitted; reasoning is
    attached to the answer after it.
    """
    if not isinstance(conversation.get("mapping"), dict):
        raise MalformedChat("`mapping` is not an object")
    nodes = object_in(conversation, "mapping")
    name = text_in(conversation, "conversation_id", "id")
    created = seconds(conversation.get("create_time"))
    chat = ImportedChat("chatgpt", name, text_in(conversation, "title"), created)
    chat.current = text_in(conversation, "current_node") or None
    default = text_in(conversation, "default_model_slug")
    for key in nodes:
        node = object_in(nodes, key)
        placed = _chatgpt_message(key, object_in(node, "message"), default)
        placed.parent = text_in(node, "parent") or None
        chat.add(placed)
    return chat


def _chatgpt_message(key: str, message: Json, default_model: str) -> ForeignMessage:
    metadata, content = object_in(message, "metadata"), object_in(message, "content")
    placed = ForeignMessage(key, created=seconds(message.get("create_time")))
    if content.get("content_type") == "thoughts":
        thoughts = objects_in(content, "thoughts")
        placed.reasoning = "\n\n".join(text_in(each, "content", "summary") for each in thoughts)
        return placed
    hidden = metadata.get("is_visually_hidden_from_conversation") is True
    to_a_tool = (text_in(message, "recipient") or "all") != "all"
    if hidden or to_a_tool or content.get("content_type") not in ("text", "multimodal_text"):
        return placed
    placed.role = role_of(text_in(object_in(message, "author"), "role"))
    if placed.role is not None:
        names = [text_in(each, "name") for each in objects_in(metadata, "attachments")]
        placed.text = paragraphs(*_chatgpt_parts(content), *_file_marks(names))
        placed.model = text_in(metadata, "model_slug") or default_model
    return placed


def _chatgpt_parts(content: Json) -> list[str]:
    """Return text parts as they are; pictures as placeholders."""
    texts: list[str] = []
    parts = content.get("parts")
    for part in parts if isinstance(parts, list) else ():  # pyright: ignore[reportUnknownVariableType]
        # A text part is a string, or an object with a `text`.
        fields: Json = (
            {"text": part} if isinstance(part, str) else object_in({"part": part}, "part")
        )
        is_image = "image" in text_in(fields, "content_type")
        texts.append(text_in(fields, "text") or ("[image]" if is_image else ""))
    return texts


def read_claude(conversation: Json) -> ImportedChat:
    """Read the messages in order, or as a tree if they name their parents."""
    if not isinstance(conversation.get("chat_messages"), list):
        raise MalformedChat("`chat_messages` is not a list")
    created = seconds(conversation.get("created_at"))
    name = text_in(conversation, "uuid")
    chat = ImportedChat("claude", name, text_in(conversation, "name"), created)
    messages = objects_in(conversation, "chat_messages")
    is_tree = any(text_in(message, "parent_message_uuid") for message in messages)
    for place, message in enumerate(messages):
        placed = _claude_message(place, message)
        placed.model = text_in(conversation, "model") or "claude"
        if is_tree:
            placed.parent = text_in(message, "parent_message_uuid") or None
            chat.add(placed)
        else:
            chat.append(placed)
        chat.current = placed.key
    chat.current = text_in(conversation, "current_leaf_message_uuid") or chat.current
    return chat


def _claude_message(place: int, message: Json) -> ForeignMessage:
    key = text_in(message, "uuid") or str(place)
    role, created = role_of(text_in(message, "sender")), seconds(message.get("created_at"))
    placed = ForeignMessage(key, role=role, created=created)
    blocks = objects_in(message, "content")
    texts = [text_in(block, "text") for block in blocks if block.get("type") == "text"]
    thoughts = [text_in(block, "thinking") for block in blocks if block.get("type") == "thinking"]
    placed.text = paragraphs(*texts) or text_in(message, "text")
    placed.reasoning = paragraphs(*thoughts)
    for attachment in objects_in(message, "attachments"):
        text = text_in(attachment, "extracted_content")
        if text:
            placed.attachments.append(Attachment(text_in(attachment, "file_name") or "file", text))
    marks = _file_marks([text_in(file, "file_name") for file in objects_in(message, "files")])
    if marks:
        placed.text = paragraphs(placed.text, "\n".join(marks)).strip()
    return placed


def read_open_webui(entry: Json) -> ImportedChat:
    """Read the tree in `chat.history`, or the list of an old export; raises `MalformedChat`."""
    inner = object_in(entry, "chat")
    history = object_in(inner, "history")
    messages = object_in(history, "messages")
    if not messages and not isinstance(inner.get("messages"), list):
        raise MalformedChat("`chat.history.messages` is not an object")
    title = text_in(entry, "title") or text_in(inner, "title")
    created = seconds(entry.get("created_at")) or seconds(inner.get("timestamp"))
    chat = ImportedChat("open-webui", text_in(entry, "id") or text_in(inner, "id"), title, created)
    chat.settings.pinned = entry.get("pinned") is True
    chat.settings.system = text_in(inner, "system") or text_in(object_in(inner, "params"), "system")
    if messages:
        for key in messages:
            message = object_in(messages, key)
            placed = _open_webui_message(key, message)
            placed.parent = text_in(message, "parentId") or None
            chat.add(placed)
        chat.current = text_in(history, "currentId") or None
    else:
        for place, message in enumerate(objects_in(inner, "messages")):
            chat.append(_open_webui_message(text_in(message, "id") or str(place), message))
    return chat


def _open_webui_message(key: str, message: Json) -> ForeignMessage:
    placed = ForeignMessage(key, created=seconds(message.get("timestamp")))
    placed.role = role_of(text_in(message, "role"))
    content = text_in(message, "content")
    thoughts = [_unquoted(match[1]) for match in _THOUGHTS.finditer(content)]
    placed.text = _THOUGHTS.sub("", content).strip() if thoughts else content
    placed.reasoning = "\n\n".join(thoughts)
    placed.model = text_in(message, "model", "modelName")
    for file in objects_in(message, "files"):
        described = object_in(file, "file") or file
        text = text_in(object_in(described, "data"), "content")
        name = text_in(described, "filename") or text_in(file, "name")
        if text:
            placed.attachments.append(Attachment(name or "file", text))
        elif name:
            placed.text = paragraphs(placed.text, *_file_marks([name])).strip()
    return placed


def _file_marks(names: list[str]) -> list[str]:
    """Return placeholders for files whose text the export does not have."""
    return [f"[file: {name}]" for name in names if name]


def _unquoted(thoughts: str) -> str:
    """Return reasoning without the quotation marks it is stored with."""
    lines = html.unescape(thoughts).strip().splitlines()
    return "\n".join(line.removeprefix(">").removeprefix(" ") for line in lines)
