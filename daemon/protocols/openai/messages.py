"""Conversations as clients write them, and as chat templates see them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ingle.backends.base import ChatMessage

from ...errors import InvalidBody, UnsupportedField

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
TEXT_PARTS = frozenset({"text", "input_text", "output_text"})


class ContentPart(msgspec.Struct):
    """A piece of a message; only text is served."""

    type: str
    text: str | None = None


class InputMessage(msgspec.Struct):
    """One message; `content` is text, or a list of text parts, which are joined by line breaks."""

    role: str
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_calls: Any = None


Conversation = Annotated[list[InputMessage], Meta(min_length=1)]


def chat_messages(messages: list[InputMessage]) -> list[ChatMessage]:
    """The conversation for a template; raises `InvalidBody` and `UnsupportedField`."""
    return [_chat_message(message, f"messages[{i}]") for i, message in enumerate(messages)]


def _chat_message(message: InputMessage, place: str) -> ChatMessage:
    if message.role in ("tool", "function") or message.tool_calls:
        field = "tool_calls" if message.tool_calls else "role"
        raise UnsupportedField(
            f"'{place}.{field}': tools are not supported yet.",
            hint="Leave tool calls and their results out.",
            param=f"{place}.{field}",
        )
    role = ROLES.get(message.role)
    if role is None:
        raise InvalidBody(
            f"'{place}.role' is {message.role[:40]!r}.",
            hint="It must be system, developer, user or assistant.",
            param=f"{place}.role",
        )
    return ChatMessage(role, _text(message, place, role), message.name)


def _text(message: InputMessage, place: str, role: str) -> str:
    content = message.content
    if isinstance(content, str):
        return content
    if content is None:
        if role == "assistant":
            return ""
        raise InvalidBody(f"'{place}.content' is missing.", param=f"{place}.content")
    return "\n".join(_part_text(part, f"{place}.content[{j}]") for j, part in enumerate(content))


def _part_text(part: ContentPart, place: str) -> str:
    if part.type not in TEXT_PARTS:
        raise UnsupportedField(
            f"'{place}' is of type {part.type[:40]!r}, and the model reads text only.",
            hint="Send text parts; images, sound and files are not supported yet.",
            param=place,
        )
    if part.text is None:
        raise InvalidBody(f"'{place}.text' is missing.", param=f"{place}.text")
    return part.text
