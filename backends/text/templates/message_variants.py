"""Variants of a conversation by the traits of a template, and for templates with fewer roles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import NamedTuple

import msgspec

from ...base.conversation import ChatMessage, Tool
from .tool_messages import (
    BETWEEN,
    CallStyle,
    answered,
    call_fields,
    calls_in_words,
    has_calls,
    in_style,
    paired,
    tool_variables,
    with_instructions,
)

Message = dict[str, object]
"""One message as a template sees it: `role`, `content`, and other fields."""


@dataclass(frozen=True, slots=True)
class TemplateTraits:
    """The formats that one template expects; the defaults are those of a simple one.

    `tools` is the variable in which it looks for tools; None if it supports none. Without `calls`
    it cannot express calls, and `call_marks` are what its model writes around a call.
    """

    drops_system: bool = False
    one_system: bool = False
    """It accepts a single system message and drops others."""

    expects_parts: bool = False
    tools: str | None = None
    needs_tools: bool = False
    """It fails unless a list of tools is given, even an empty one."""

    calls: CallStyle | None = None
    call_marks: tuple[str, str] = ("", "")
    reasoning_fields: tuple[str, ...] = ()
    """The fields in which it looks for the reasoning of earlier answers."""


class MessageVariant(NamedTuple):
    """A conversation as a template reads it, and the variables with its tools.

    `characters` is the length of all its text.
    """

    messages: list[Message]
    variables: dict[str, object]
    characters: int


def message_variants(
    messages: Sequence[ChatMessage], tools: Sequence[Tool], traits: TemplateTraits
) -> Iterator[MessageVariant]:
    """Yield the conversation as the template expects it, then variants from mild to severe."""
    messages = paired(messages)
    size = _characters(messages, tools)
    plain = not tools and not has_calls(messages)
    if plain or not tools or traits.tools is not None:
        variables = tool_variables(tools, traits.tools) if tools or traits.needs_tools else {}
        for said in _variants(_native(messages, tools, traits), traits):
            yield MessageVariant(said, variables, size)
    if not plain:
        variables = tool_variables([], traits.tools) if traits.needs_tools else {}
        described = calls_in_words(with_instructions(messages, tools))
        for said in _variants(described, traits):
            yield MessageVariant(said, variables, size)


def _characters(messages: Sequence[ChatMessage], tools: Sequence[Tool]) -> int:
    calls = [call for message in messages for call in message.tool_calls]
    return (
        sum(len(message.content) + len(message.reasoning) for message in messages)
        + sum(len(call.name) + len(call.arguments) for call in calls)
        + sum(len(tool.name) + len(tool.description) + len(tool.parameters) for tool in tools)
    )


def _native(
    messages: list[ChatMessage], tools: Sequence[Tool], traits: TemplateTraits
) -> list[ChatMessage]:
    """Return calls in the template's own style, or described in words."""
    style = traits.calls
    if style is None:
        return calls_in_words(messages, *traits.call_marks)
    said = in_style(messages, style)
    return fold_system(said) if style.folds_system and (tools or has_calls(said)) else said


def _variants(messages: list[ChatMessage], traits: TemplateTraits) -> Iterator[list[Message]]:
    """Yield each distinct variant, as a template reads it."""
    folded = fold_system(messages)
    single = one_system(messages)
    original = folded if traits.drops_system else single if traits.one_system else messages
    silent = [_without_reasoning(message) for message in original]
    merged = merge_same_roles(original)
    seen: list[Sequence[ChatMessage]] = []
    for said in (
        original,
        silent,
        answered(original),
        merged,
        answered(merged),
        single,
        answered(merge_same_roles(single)),
        folded,
        merge_same_roles(folded),
        answered(merge_same_roles(folded)),
    ):
        if said not in seen:
            seen.append(said)
            yield [_fields(message, traits) for message in said]


def merge_same_roles(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Merge consecutive messages of one speaker, for templates that require alternating roles.

    Calls and results stay as they are.
    """
    merged: list[ChatMessage] = []
    for (alone, role, name), group in groupby(messages, key=_speaker):
        if alone:
            merged += group
            continue
        said = list(group)
        content = BETWEEN.join(message.content for message in said)
        merged.append(ChatMessage(role, content, name, said[-1].reasoning))
    return merged


def _speaker(message: ChatMessage) -> tuple[bool, str, str | None]:
    return bool(message.tool_calls) or message.role == "tool", message.role, message.name


def one_system(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Merge leading system messages, and move later ones as `fold_system` does."""
    first = list(takewhile(lambda message: message.role == "system", messages))
    said = BETWEEN.join(message.content for message in first)
    head = [ChatMessage("system", said, first[0].name)] if first else []
    return [*head, *fold_system(messages[len(first) :])]


def fold_system(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Move system messages into the next user message, for templates without that role."""
    folded: list[ChatMessage] = []
    system: list[str] = []
    for message in messages:
        if message.role == "system":
            system.append(message.content)
            continue
        if message.role == "user":
            content = BETWEEN.join([*system, message.content])
            folded.append(ChatMessage("user", content, message.name))
        else:
            folded += _as_user(system)
            folded.append(message)
        system = []
    return folded + _as_user(system)


def _as_user(system: Sequence[str]) -> list[ChatMessage]:
    return [ChatMessage("user", BETWEEN.join(system))] if system else []


def _without_reasoning(message: ChatMessage) -> ChatMessage:
    return msgspec.structs.replace(message, reasoning="") if message.reasoning else message


def _fields(message: ChatMessage, traits: TemplateTraits) -> Message:
    content = message.content
    parts = [{"type": "text", "text": content}]
    fields: Message = {
        "role": message.role,
        "content": parts if traits.expects_parts else content,
    }
    if message.name is not None:
        fields["name"] = message.name
    if message.reasoning:
        fields |= dict.fromkeys(traits.reasoning_fields, message.reasoning)
    if message.tool_calls:
        text = traits.calls is not None and traits.calls.text_arguments
        fields["tool_calls"] = [
            call_fields(call, text_arguments=text) for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        fields["tool_call_id"] = message.tool_call_id
    return fields
