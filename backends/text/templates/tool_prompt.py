"""Describes tools in words, for models whose templates have no tools.

A call is then one JSON object `{"name": …, "arguments": {…}}`; several stand on a line each.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ...base.conversation import ChatMessage, Tool, ToolCall
from .tool_messages import call_arguments, tool_fields

BETWEEN = "\n\n"

_BEFORE = (
    "You can call functions. They are listed here, one JSON object a line; "
    '"parameters" is the JSON Schema of the arguments.'
)
_BEHIND = (
    "To call a function, answer with nothing but a JSON object of this form:\n"
    '{"name": "the function\'s name", "arguments": {"argument": "value"}}\n'
    "To call several, write one such object a line. The results will be given to you next. "
    "Where no function is of use, answer in plain text."
)


def tool_instructions(tools: Sequence[Tool]) -> str:
    """Return the instructions that describe the tools to the model."""
    lines = [json.dumps(tool_fields(tool)["function"], ensure_ascii=False) for tool in tools]
    return BETWEEN.join([_BEFORE, "\n".join(lines), _BEHIND])


def with_instructions(messages: Sequence[ChatMessage], tools: Sequence[Tool]) -> list[ChatMessage]:
    """Return the conversation with the tools at the end of its first system message."""
    if not tools:
        return list(messages)
    said = tool_instructions(tools)
    if messages and messages[0].role == "system":
        system = messages[0]
        content = BETWEEN.join([system.content, said]) if system.content else said
        return [ChatMessage("system", content, system.name), *messages[1:]]
    return [ChatMessage("system", said), *messages]


def calls_in_words(
    messages: Sequence[ChatMessage], before: str = "", behind: str = ""
) -> list[ChatMessage]:
    """Return the conversation with calls as the assistant's text, and results as the user's.

    `before` and `behind` are what the model writes around a call.
    """
    said: list[ChatMessage] = []
    for message in messages:
        if message.role == "tool":
            said.append(ChatMessage("user", _result(message)))
        elif message.tool_calls:
            calls = [before + _call(call) + behind for call in message.tool_calls]
            content = "\n".join([*([message.content] if message.content else []), *calls])
            said.append(ChatMessage(message.role, content, message.name, message.reasoning))
        else:
            said.append(message)
    return said


def _call(call: ToolCall) -> str:
    return json.dumps({"name": call.name, "arguments": call_arguments(call)}, ensure_ascii=False)


def _result(message: ChatMessage) -> str:
    of = f" of {message.name}" if message.name else ""
    return f"Result{of}:\n{message.content}"
