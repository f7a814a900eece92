"""Imports chats from Open WebUI's export."""

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
    seconds,
    text_in,
)

_THOUGHTS = re.compile(
    r'<details\s+type="reasoning"[^>]*>\s*(?:<summary>.*?</summary>)?(.*?)</details>\s*', re.DOTALL
)


def read_open_webui(entry: Json) -> ImportedChat:
    """Read the tree in `chat.history`, or the list of an old export; raises `MalformedChat`."""
    inner = object_in(entry, "chat")
    history = object_in(inner, "history")
    messages = object_in(history, "messages")
    listed = objects_in(inner, "messages")
    if not messages and not isinstance(inner.get("messages"), list):
        raise MalformedChat("`chat.history.messages` is not an object")
    title = text_in(entry, "title") or text_in(inner, "title")
    created = seconds(entry.get("created_at")) or seconds(inner.get("timestamp"))
    name = text_in(entry, "id") or text_in(inner, "id") or f"{title}/{created}"
    chat = ImportedChat(f"open-webui:{name}", title, created)
    chat.settings.pinned = entry.get("pinned") is True
    chat.settings.system = text_in(inner, "system") or text_in(object_in(inner, "params"), "system")
    if messages:
        for key in messages:
            message = object_in(messages, key)
            chat.add(_message(key, text_in(message, "parentId") or None, message))
        chat.current = text_in(history, "currentId") or None
    else:
        before: str | None = None
        for place, message in enumerate(listed):
            key = text_in(message, "id") or str(place)
            chat.add(_message(key, before, message))
            before = key
    return chat


def _message(key: str, parent: str | None, message: Json) -> ForeignMessage:
    role = text_in(message, "role")
    placed = ForeignMessage(key, parent, created=seconds(message.get("timestamp")))
    if role == "user" or role == "assistant":
        placed.role = role
    content = text_in(message, "content")
    thoughts = [_plain(match[1]) for match in _THOUGHTS.finditer(content)]
    placed.text = _THOUGHTS.sub("", content).strip() if thoughts else content
    placed.reasoning = "\n\n".join(thoughts)
    placed.model = text_in(message, "model") or text_in(message, "modelName")
    for file in objects_in(message, "files"):
        described = object_in(file, "file") or file
        text = text_in(object_in(described, "data"), "content")
        name = text_in(described, "filename") or text_in(file, "name")
        if text:
            placed.attachments.append(Attachment(name or "file", text))
        elif name:
            placed.text = f"{placed.text}\n\n[file: {name}]".strip()
    return placed


def _plain(thoughts: str) -> str:
    """Return reasoning without the quotation marks it is stored with."""
    lines = html.unescape(thoughts).strip().splitlines()
    return "\n".join(line.removeprefix(">").removeprefix(" ") for line in lines)
