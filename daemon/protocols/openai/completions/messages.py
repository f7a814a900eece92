"""Conversations as clients write them, and as chat templates see them."""

from __future__ import annotations

from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta

from ingle.backends.base.conversation import ChatMessage, ToolCall

from ....errors import InvalidBody, UnsupportedField
from ...picture_parts import MessageContent, document_bytes, read_image_url, read_picture

ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
# Earlier reasoning as parts: templates that use it get it from its own field.
IGNORED_PARTS = frozenset({"thinking", "reasoning", "redacted_thinking"})


class ContentPart(msgspec.Struct):
    """A piece of a message: text, a file, or an assistant's `refusal`, which is text, too."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: Any = None
    input_audio: Any = None
    file: Any = None


class CalledFunction(msgspec.Struct):
    """Which function was called; some clients send the arguments as an object."""

    name: str
    arguments: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class CalledCustom(msgspec.Struct):
    """A call of a tool that takes free text."""

    name: str
    input: str = ""


class InputToolCall(msgspec.Struct):
    """A call in an earlier answer."""

    id: str | None = None
    function: CalledFunction | None = None
    custom: CalledCustom | None = None


class InputMessage(msgspec.Struct):
    """One message; `content` is text, or a list of parts, which are joined by line breaks.

    `images` are pictures before the content, as data URIs; only ingle has this field.
    """

    role: str
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_calls: list[InputToolCall] | None = None
    tool_call_id: str | None = None
    function_call: CalledFunction | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: Any = None
    images: list[str] | None = None


Conversation = Annotated[list[InputMessage], Meta(min_length=1)]


def chat_messages(messages: list[InputMessage]) -> list[ChatMessage]:
    """The conversation for a template; raises `InvalidBody` and `UnsupportedField`."""
    return [_chat_message(message, f"messages[{i}]") for i, message in enumerate(messages)]


def _chat_message(message: InputMessage, place: str) -> ChatMessage:
    role = ROLES.get(message.role)
    if role is None:
        raise InvalidBody(
            f"'{place}.role' is {message.role[:40]!r}.",
            hint="It must be system, developer, user, assistant or tool.",
            param=f"{place}.role",
        )
    content = _content(message, place, role)
    if role != "assistant":
        return ChatMessage(
            role,
            content.text,
            message.name,
            tool_call_id=message.tool_call_id or None,
            pictures=content.pictures,
            documents=content.documents,
        )
    return ChatMessage(
        role,
        content.text or message.refusal or "",
        message.name,
        reasoning=_reasoning(message),
        tool_calls=_calls(message, place),
    )


def _reasoning(message: InputMessage) -> str:
    if message.reasoning_content:
        return message.reasoning_content
    return message.reasoning if isinstance(message.reasoning, str) else ""


def _calls(message: InputMessage, place: str) -> list[ToolCall]:
    calls = [
        _call(call, f"{place}.tool_calls[{i}]") for i, call in enumerate(message.tool_calls or [])
    ]
    if not calls and message.function_call is not None:
        function = message.function_call
        calls.append(ToolCall("", _name(function.name, place), _arguments(function.arguments)))
    return calls


def _call(call: InputToolCall, place: str) -> ToolCall:
    if call.function is not None:
        name, arguments = call.function.name, _arguments(call.function.arguments)
    elif call.custom is not None:
        name = call.custom.name
        arguments = msgspec.json.encode({"input": call.custom.input}).decode()
    else:
        raise InvalidBody(f"'{place}.function' is missing.", param=f"{place}.function")
    return ToolCall(call.id or "", _name(name, place), arguments)


def _name(name: str, place: str) -> str:
    if not name:
        raise InvalidBody(f"'{place}' calls a function without a name.", param=place)
    return name


def _arguments(raw: msgspec.Raw) -> str:
    """The text that the model wrote; what other servers pass on as an object becomes text again."""
    text = bytes(raw).decode().strip()
    if text.startswith('"'):
        text = msgspec.json.decode(text, type=str).strip()
    return "{}" if text in ("", "null") else text


def _content(message: InputMessage, place: str, role: str) -> MessageContent:
    found, content = MessageContent(), message.content
    asks = role not in ("assistant", "tool")  # a page that a tool read must not choose addresses
    for number, uri in enumerate(message.images or ()):
        found.add_picture(read_picture(uri, f"{place}.images[{number}]", may_fetch=asks))
    if isinstance(content, str):
        found.add_text(content)
        return found
    if content is None:
        if role in ("assistant", "tool"):
            return found
        raise InvalidBody(f"'{place}.content' is missing.", param=f"{place}.content")
    for number, part in enumerate(content):
        at = f"{place}.content[{number}]"
        if part.type == "image_url" and role != "assistant" and not _is_empty(part):
            found.add_picture(read_image_url(part.image_url, f"{at}.image_url", may_fetch=asks))
        elif part.type == "file" and role != "assistant" and not _is_empty(part):
            is_object = isinstance(part.file, dict)
            file = cast("dict[str, Any]", part.file) if is_object else {}
            data = document_bytes(file.get("file_data"), f"{at}.file.file_data")
            found.add_document(str(file.get("filename") or "document.pdf"), data)
        elif (text := _part_text(part, at)) is not None:
            found.add_text(text)
    return found


def _part_text(part: ContentPart, place: str) -> str | None:
    """The part's text; None for one that says nothing."""
    if part.type in TEXT_PARTS:
        if part.text is None:
            raise InvalidBody(f"'{place}.text' is missing.", param=f"{place}.text")
        return part.text
    if part.type == "refusal":
        return part.refusal
    if part.type in IGNORED_PARTS or _is_empty(part):
        return None
    raise UnsupportedField(
        f"'{place}' is of type {part.type[:40]!r}, and models here read text and pictures only.",
        hint="Send text, pictures as `image_url`, and PDF files as `file`; sound is not supported "
        "yet.",
        param=place,
    )


def _is_empty(part: ContentPart) -> bool:
    """Whether it is an empty image, sound or file: some clients always send one."""
    if part.type not in ("image_url", "input_audio", "file"):
        return False
    content: object = getattr(part, part.type)
    if isinstance(content, dict):
        return not any(cast("dict[str, Any]", content).values())
    return content == ""
