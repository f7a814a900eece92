"""Other ways to put the same conversation, for templates that were written for fewer roles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, takewhile
from typing import NamedTuple

import msgspec

from ...base.conversation import ChatMessage, Tool
from .template_traits import Message, TemplateHabits
from .tool_messages import answered, call_fields, has_calls, in_style, paired, tool_variables
from .tool_prompt import BETWEEN, calls_in_words, with_instructions


class MessageVariant(NamedTuple):
    """A conversation as a template reads it, and the variables that show it the tools.

    All that is said in it has so many `characters`.
    """

    messages: list[Message]
    variables: dict[str, object]
    characters: int


def message_forms(
    messages: Sequence[ChatMessage], tools: Sequence[Tool], habits: TemplateHabits
) -> Iterator[MessageVariant]:
    """The conversation as the template reads it, then milder changes before greater ones."""
    messages = paired(messages)
    size = _characters(messages, tools)
    plain = not tools and not has_calls(messages)
    if plain or not tools or habits.tools is not None:
        variables = tool_variables(tools, habits.tools) if tools or habits.needs_tools else {}
        for said in _variants(_native(messages, tools, habits), habits):
            yield MessageVariant([_fields(message, habits) for message in said], variables, size)
    if not plain:
        variables = tool_variables([], habits.tools) if habits.needs_tools else {}
        told = calls_in_words(with_instructions(messages, tools))
        for said in _variants(told, habits):
            yield MessageVariant([_fields(message, habits) for message in said], variables, size)


def _characters(messages: Sequence[ChatMessage], tools: Sequence[Tool]) -> int:
    said = sum(len(message.content) + len(message.reasoning) for message in messages)
    calls = [call for message in messages for call in message.tool_calls]
    called = sum(len(call.name) + len(call.arguments) for call in calls)
    told = sum(len(tool.name) + len(tool.description) + len(tool.parameters) for tool in tools)
    return said + called + told


def _native(
    messages: list[ChatMessage], tools: Sequence[Tool], habits: TemplateHabits
) -> list[ChatMessage]:
    """The template's own way to put calls, or words in its place."""
    style = habits.calls
    if style is None:
        return calls_in_words(messages, *habits.call_marks)
    said = in_style(messages, style)
    return fold_system(said) if style.folds_system and (tools or has_calls(said)) else said


def _variants(
    messages: list[ChatMessage], habits: TemplateHabits
) -> Iterator[Sequence[ChatMessage]]:
    """Each way to put it once."""
    folded = fold_system(messages)
    single = one_system(messages)
    original = folded if habits.drops_system else single if habits.one_system else messages
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
            yield said


def merge_same_roles(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Consecutive messages of one speaker as one, for templates that want roles to alternate.

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
    """Those system messages that come first as one, and later ones as `fold_system` does it."""
    first = list(takewhile(lambda message: message.role == "system", messages))
    said = BETWEEN.join(message.content for message in first)
    head = [ChatMessage("system", said, first[0].name)] if first else []
    return [*head, *fold_system(messages[len(first) :])]


def fold_system(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """System messages at the head of the next user message, for templates without that role."""
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


def _fields(message: ChatMessage, habits: TemplateHabits) -> Message:
    content = message.content
    parts = [{"type": "text", "text": content}]
    fields: Message = {
        "role": message.role,
        "content": parts if habits.wants_parts else content,
    }
    if message.name is not None:
        fields["name"] = message.name
    if message.reasoning:
        fields |= dict.fromkeys(habits.reasoning_fields, message.reasoning)
    if message.tool_calls:
        text = habits.calls is not None and habits.calls.text_arguments
        fields["tool_calls"] = [
            call_fields(call, text_arguments=text) for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        fields["tool_call_id"] = message.tool_call_id
    return fields
