"""Tools, calls and results as a template expects them, or in words.

In words a call is one JSON object `{"name": …, "arguments": {…}}`; several stand on a line each.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, cast

import msgspec

from ...base.conversation import NO_PARAMETERS, ChatMessage, Tool, ToolCall
from ...base.errors import RequestRejected

_SHORT_ID = 9
"""Length of the call ids that Mistral's templates require."""

_EMPTY: dict[str, object] = json.loads(NO_PARAMETERS)

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


@dataclass(frozen=True, slots=True)
class CallStyle:
    """The style of calls that a template expects; the defaults suit most.

    Arguments as JSON text instead of an object, one call per message, short call ids, no text in a
    message with calls, no system message in a conversation with calls.
    """

    text_arguments: bool = False
    one_by_one: bool = False
    short_ids: bool = False
    apart: bool = False
    folds_system: bool = False


def has_calls(messages: Sequence[ChatMessage]) -> bool:
    """Return whether any message is a tool call or its result."""
    return any(message.tool_calls or message.role == "tool" for message in messages)


def paired(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Return messages in which every call has an id, and every result the ids of its call and tool.

    Some protocols lack call ids: their results come in the order of the calls.
    """
    said: list[ChatMessage] = []
    open_calls: list[ToolCall] = []
    for number, message in enumerate(messages):
        if message.tool_calls:
            calls = [
                call if call.id else msgspec.structs.replace(call, id=f"call_{number}_{index}")
                for index, call in enumerate(message.tool_calls)
            ]
            open_calls = [*calls]
            message = msgspec.structs.replace(message, tool_calls=calls)
        elif message.role == "tool":
            message = _with_names(message, open_calls, number)
        said.append(message)
    return said


def _with_names(result: ChatMessage, open_calls: list[ToolCall], number: int) -> ChatMessage:
    """Return the result with the ids of its call, which is removed from `open_calls`."""
    call = _answered_call(result, open_calls)
    if call is not None:
        open_calls.remove(call)
    call_id = result.tool_call_id or (call.id if call else f"call_{number}")
    name = result.name or (call.name if call else None)
    return msgspec.structs.replace(result, tool_call_id=call_id, name=name)


def _answered_call(result: ChatMessage, open_calls: list[ToolCall]) -> ToolCall | None:
    if result.tool_call_id:
        return next((call for call in open_calls if call.id == result.tool_call_id), None)
    if result.name:
        return next((call for call in open_calls if call.name == result.name), None)
    return open_calls[0] if open_calls else None


def in_style(messages: Sequence[ChatMessage], style: CallStyle) -> list[ChatMessage]:
    """Return the messages in the template's style of calls; arguments and system messages stay."""
    said = list(messages)
    if style.apart:
        said = list(_apart(said))
    if style.one_by_one:
        said = list(_one_by_one(said))
    if style.short_ids:
        said = [_with_short_ids(message) for message in said]
    return said


def _apart(messages: Sequence[ChatMessage]) -> Iterator[ChatMessage]:
    """Move text beside calls into a message before them."""
    for message in messages:
        if message.tool_calls and message.content:
            yield ChatMessage("assistant", message.content, message.name)
            message = msgspec.structs.replace(message, content="")
        yield message


def _one_by_one(messages: Sequence[ChatMessage]) -> Iterator[ChatMessage]:
    """Put each call in a message of its own, followed by its result."""
    results: list[ChatMessage] = []
    calling: ChatMessage | None = None
    for message in messages:
        if calling is not None and message.role == "tool":
            results.append(message)
            continue
        yield from _split(calling, results)
        calling, results = (message, []) if len(message.tool_calls) > 1 else (None, [])
        if calling is None:
            yield message
    yield from _split(calling, results)


def _split(calling: ChatMessage | None, results: list[ChatMessage]) -> Iterator[ChatMessage]:
    if calling is None:
        return
    for index, call in enumerate(calling.tool_calls):
        first = {} if index == 0 else {"content": "", "reasoning": ""}
        yield msgspec.structs.replace(calling, tool_calls=[call], **first)
        yield from (result for result in results if result.tool_call_id == call.id)
    known = {call.id for call in calling.tool_calls}
    yield from (result for result in results if result.tool_call_id not in known)


def _with_short_ids(message: ChatMessage) -> ChatMessage:
    calls = [
        msgspec.structs.replace(call, id=_short_id(call.id) or "") for call in message.tool_calls
    ]
    call_id = _short_id(message.tool_call_id)
    return msgspec.structs.replace(message, tool_calls=calls, tool_call_id=call_id)


def _short_id(call_id: str | None) -> str | None:
    if call_id is None or (len(call_id) == _SHORT_ID and call_id.isascii() and call_id.isalnum()):
        return call_id
    # Equal ids stay equal across turns, so that prompts share a prefix.
    return hashlib.blake2b(call_id.encode("utf-8", "replace")).hexdigest()[:_SHORT_ID]


def answered(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Insert an empty user turn before a leading answer, and an assistant turn after a result.

    Some templates require alternating turns.
    """
    said: list[ChatMessage] = []
    for message in messages:
        if message.role == "assistant" and all(before.role == "system" for before in said):
            said.append(ChatMessage("user", " "))
        if message.role == "user" and said and said[-1].role == "tool":
            said.append(ChatMessage("assistant", " "))
        said.append(message)
    return said


def call_fields(call: ToolCall, *, text_arguments: bool) -> dict[str, object]:
    """Return a call as templates read it."""
    arguments = call.arguments if text_arguments else call_arguments(call)
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def call_arguments(call: ToolCall) -> dict[str, Any]:
    """Return the arguments as an object; text that is not an object becomes its only value."""
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = call.arguments
    return (
        cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {"input": arguments}
    )


def tool_fields(tool: Tool) -> dict[str, Any]:
    """Return a tool as templates read it, with the schema fields they rely on."""
    try:
        parameters = json.loads(tool.parameters or "{}")
    except (ValueError, RecursionError) as error:
        raise _bad_parameters(tool) from error
    if not isinstance(parameters, dict | None):
        raise _bad_parameters(tool)
    schema = cast("dict[str, Any]", parameters or {})
    schema = schema | {key: value for key, value in _EMPTY.items() if key not in schema}
    function = {"name": tool.name, "description": tool.description, "parameters": schema}
    return {"type": "function", "function": function}


def _bad_parameters(tool: Tool) -> RequestRejected:
    return RequestRejected(
        f"The parameters of the tool {tool.name!r} are not the JSON Schema of an object.",
        hint='Give an object such as {"type": "object", "properties": {}}.',
        param="tools",
    )


def tool_variables(tools: Sequence[Tool], variable: str | None) -> dict[str, object]:
    """Return the variables that show the tools to a template that looks for them in `variable`."""
    shown = [tool_fields(tool) for tool in tools]
    match variable:
        case None:
            return {}
        case "functions":  # Firefunction inserts both into its text unchanged
            return {"functions": json.dumps(shown), "datetime": date.today().isoformat()}
        case _:
            return {variable: shown}


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

    `before` and `behind` are the model's marks around a call.
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
