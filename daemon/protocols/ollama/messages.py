"""Conversations and tools as Ollama's clients write them, and as chat templates see them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ingle.backends.base.conversation import ChatMessage, Picture, Tool, ToolCall

from ...errors import InvalidBody
from ..picture_parts import base64_bytes
from .types import InputCall, OfferedTool, OllamaMessage

ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}

_OPEN_CALLS = 256
"""Calls that still wait for their results; each result is compared with all of them."""


def offered_tools(tools: Iterable[OfferedTool] | None) -> list[Tool]:
    """The tools that have a name."""
    found: list[Tool] = []
    for offered in tools or ():
        function = offered.function
        if function is None or not function.name:
            continue
        schema = function.parameters
        text = msgspec.json.encode(schema).decode() if schema else None
        description = function.description or ""
        found.append(
            Tool(function.name, description)
            if text is None
            else Tool(function.name, description, text)
        )
    return found


def chat_messages(messages: Iterable[OllamaMessage]) -> list[ChatMessage]:
    """The conversation for a template; raises `InvalidBody` and `UnsupportedField`.

    A call without an id gets one, and a result without one answers the first open call of its tool.
    """
    converted: list[ChatMessage] = []
    open_calls: list[ToolCall] = []
    count = 0
    for number, message in enumerate(messages):
        place = f"messages[{number}]"
        role = _role(message, place)
        calls: list[ToolCall] = []
        for called in message.tool_calls or ():
            calls.append(_tool_call(called, f"call_{count}", place))
            count += 1
        if role == "tool":
            result = _result(message, open_calls)
            pictures = pictures_of(message.images, place)
            converted.append(msgspec.structs.replace(result, pictures=pictures))
            continue
        open_calls += calls
        del open_calls[:-_OPEN_CALLS]
        converted.append(
            ChatMessage(
                role,
                message.content or "",
                reasoning=message.thinking or "",
                tool_calls=calls,
                pictures=pictures_of(message.images, place),
            )
        )
    return converted


def pictures_of(images: list[Any] | None, place: str = "") -> list[Picture]:
    """The pictures of a message, which come before its text; raises `InvalidBody`."""
    where = f"{place}.images" if place else "images"
    return [
        Picture(data=base64_bytes(image, f"{where}[{number}]"))
        for number, image in enumerate(images or ())
    ]


def _role(message: OllamaMessage, place: str) -> str:
    role = ROLES.get(message.role.lower())
    if role is None:
        raise InvalidBody(
            f"'{place}.role' is {message.role[:40]!r}.",
            hint="It must be system, user, assistant or tool.",
            param=f"{place}.role",
        )
    return role


def _tool_call(called: InputCall, made_up: str, place: str) -> ToolCall:
    function = called.function
    if function is None or not function.name:
        raise InvalidBody(
            f"'{place}.tool_calls' has a call without the name of a function.",
            param=f"{place}.tool_calls",
        )
    arguments = function.arguments
    if isinstance(arguments, str):
        # Clients of OpenAI's API keep what they got there: the text of an object.
        try:
            arguments = msgspec.json.decode(arguments, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidBody(
                f"'{place}.tool_calls' has arguments that are no object.",
                param=f"{place}.tool_calls",
            ) from error
    text = msgspec.json.encode(arguments or {}).decode()
    return ToolCall(called.id or made_up, function.name, text)


def _result(message: OllamaMessage, open_calls: list[ToolCall]) -> ChatMessage:
    wanted_id, wanted_name = message.tool_call_id, message.tool_name
    answered = next(
        (
            call
            for call in open_calls
            if (wanted_id is None or call.id == wanted_id)
            and (wanted_name is None or call.name == wanted_name)
        ),
        None,
    )
    if answered is not None:
        open_calls.remove(answered)
    return ChatMessage(
        "tool",
        message.content or "",
        name=wanted_name or (answered.name if answered is not None else None),
        tool_call_id=wanted_id or (answered.id if answered is not None else None),
    )
