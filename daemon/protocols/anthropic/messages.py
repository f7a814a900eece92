"""Conversations as Anthropic's clients write them, and as chat templates see them."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ingle.backends.base.conversation import ChatMessage, ToolCall

from ...errors import InvalidBody
from .blocks import (
    Compaction,
    Document,
    SearchResult,
    Text,
    Thinking,
    ToolReference,
    ToolResult,
    ToolUse,
    Unreadable,
    block_text,
    json_object,
    plain_text,
    read_block,
)

Content = str | list[msgspec.Raw]
LEFT_OUT = "[Something that is not text was left out here: this model reads text only.]"


# Claude Code attributes requests in the first line of a prompt: a name and several `key=value;`,
# in some a checksum of the request, which would make every prompt differ from its first token on.
_ATTRIBUTION = re.compile(r"x-anthropic-billing-header:(?:[ \t]*[A-Za-z0-9_]+=[^;\n]*;)+[ \t]*\n*")


class MessageParam(msgspec.Struct):
    """One message: text, or content blocks."""

    role: Literal["user", "assistant", "system"]
    content: Content


Messages = Annotated[list[MessageParam], Meta(min_length=1)]


def chat_messages(system: Content | None, messages: list[MessageParam]) -> list[ChatMessage]:
    """The conversation for a template; raises `InvalidBody` and `UnsupportedField`."""
    said: list[ChatMessage] = []
    if system is not None and (text := _system_text(system)):
        said.append(ChatMessage("system", text))
    names: dict[str, str] = {}
    for number, message in enumerate(messages):
        place = f"messages[{number}]"
        match message.role:
            case "assistant":
                said.append(_assistant(message.content, f"{place}.content", names))
            case "user":
                said += _user(message.content, f"{place}.content", names)
            case "system":
                said.append(ChatMessage("system", plain_text(message.content, f"{place}.content")))
    return said


def _system_text(system: Content) -> str:
    if isinstance(system, str):
        return without_attribution(system)
    blocks = (plain_text([raw], f"system[{i}]") for i, raw in enumerate(system))
    return "\n\n".join(text for block in blocks if (text := without_attribution(block)))


def without_attribution(text: str) -> str:
    """The text after an attribution at its beginning."""
    header = _ATTRIBUTION.match(text)
    return text if header is None else text[header.end() :]


def _assistant(content: Content, place: str, names: dict[str, str]) -> ChatMessage:
    """One answer; its texts are put together as they were written, with nothing between them."""
    if isinstance(content, str):
        return ChatMessage("assistant", content)
    texts: list[str] = []
    reasoning: list[str] = []
    calls: list[ToolCall] = []
    for number, raw in enumerate(content):
        at = f"{place}[{number}]"
        match read_block(raw, at):
            case Thinking(thinking):
                reasoning.append(thinking)
            case ToolUse() as use:
                names[use.id] = use.name
                calls.append(ToolCall(use.id, use.name, json_object(use.input, f"{at}.input")))
            case Text() | Document() | SearchResult() | Compaction() as block:
                texts.append(block_text(block, at))
            case ToolResult():
                raise InvalidBody(f"'{at}': results of tools belong to a user's message.", param=at)
            case ToolReference() | None:
                pass  # what only Anthropic's servers have a use for
    return ChatMessage(
        "assistant", "".join(texts), reasoning="\n".join(reasoning), tool_calls=calls
    )


def _user(content: Content, place: str, names: dict[str, str]) -> list[ChatMessage]:
    """A user's text and tool results, each result as a message of its own, in their order."""
    if isinstance(content, str):
        return [ChatMessage("user", content)]
    said: list[ChatMessage] = []
    texts: list[str] = []
    for number, raw in enumerate(content):
        at = f"{place}[{number}]"
        match read_block(raw, at):
            case ToolResult() as result:
                said += _as_user(texts)
                texts = []
                said.append(_tool(result, at, names))
            case Text() | Document() | SearchResult() | Compaction() as block:
                texts.append(block_text(block, at))
            case Thinking() | ToolUse():
                raise InvalidBody(
                    f"'{at}': reasoning and calls belong to an assistant's message.", param=at
                )
            case ToolReference() | None:
                pass  # what only Anthropic's servers have a use for
    said += _as_user(texts)
    # An empty message is still a turn, which templates count.
    return said or [ChatMessage("user", "")]


def _as_user(texts: list[str]) -> list[ChatMessage]:
    return [ChatMessage("user", "\n".join(texts))] if texts else []


def _tool(result: ToolResult, place: str, names: dict[str, str]) -> ChatMessage:
    text = _result_text(result.content or "", f"{place}.content")
    # Templates have no word for a failure; many tools say it themselves.
    if result.is_error and not text.lstrip().casefold().startswith(("error", "<tool_use_error")):
        text = f"Error: {text}"
    return ChatMessage(
        "tool", text, name=names.get(result.tool_use_id), tool_call_id=result.tool_use_id
    )


def _result_text(content: Content, place: str) -> str:
    """The text of a result, with a note for each part that is not text.

    Refusing such a part would end the conversation, in which it is part of every later request.
    """
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for number, raw in enumerate(content):
        at = f"{place}[{number}]"
        try:
            match read_block(raw, at):
                case Text() | Document() | SearchResult() | Compaction() as block:
                    texts.append(block_text(block, at))
                case ToolReference(name):
                    texts.append(f"There is the tool {name}.")
                case Thinking() | ToolUse() | ToolResult():
                    raise InvalidBody(f"'{at}' cannot be part of a result.", param=at)
                case None:
                    texts.append(LEFT_OUT)
        except Unreadable:
            texts.append(LEFT_OUT)
    return "\n".join(texts)
