"""From items to the messages of a chat template: one turn of the model is one message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from ingle.backends.base.conversation import ChatMessage, ToolCall

from .item_reader import unseal
from .items import (
    CompactionItem,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCallItem,
    FunctionCallOutput,
    HostedCall,
    HostedOutput,
    InputText,
    Item,
    MessageItem,
    OutputMessage,
    OutputText,
    ReasoningItem,
)
from .tools import custom_arguments, joined_name

SUMMARY = "A summary of the conversation up to here:"

ROLES = {"user": "user", "system": "system", "developer": "system"}


def chat_messages(instructions: str | None, items: Iterable[Item]) -> list[ChatMessage]:
    """The conversation for a template. Nothing in it changes from turn to turn, so that what was
    computed for the turn before serves the next one."""
    conversation = _Conversation()
    if instructions:
        conversation.messages.append(ChatMessage("system", instructions))
    for item in items:
        conversation.add(item)
    conversation.end_turn()
    return conversation.messages


@dataclass
class _Conversation:
    messages: list[ChatMessage] = field(default_factory=list[ChatMessage])
    _thoughts: str = ""
    _text: str | None = None
    _calls: list[ToolCall] = field(default_factory=list[ToolCall])

    def add(self, item: Item) -> None:
        match item:
            case ReasoningItem():
                self._begin_turn()
                self._thoughts = thoughts_of(item)
            case OutputMessage():
                self._begin_turn()
                self._text = _said(item)
            case FunctionCallItem():
                name = joined_name(item.namespace or None, item.name)
                self._calls.append(ToolCall(item.call_id, name, item.arguments))
            case CustomToolCall():
                name = joined_name(item.namespace or None, item.name)
                self._calls.append(ToolCall(item.call_id, name, custom_arguments(item.input)))
            case HostedCall():
                self._calls.append(ToolCall(item.call_id, item.name, item.arguments))
            case FunctionCallOutput() | CustomToolCallOutput() | HostedOutput():
                self.end_turn()
                text = item.output if isinstance(item.output, str) else _joined(item.output)
                self.messages.append(ChatMessage("tool", text, tool_call_id=item.call_id or None))
            case CompactionItem():
                self.end_turn()
                # What another server has sealed cannot be read, and is passed over.
                if (summary := unseal(item.encrypted_content)) is not None:
                    self.messages.append(ChatMessage("user", f"{SUMMARY}\n{summary}"))
            case MessageItem():
                self.end_turn()
                self.messages.append(ChatMessage(ROLES[item.role], _joined(item.content)))

    def _begin_turn(self) -> None:
        """Another message where the one at hand has its text or its calls already."""
        if self._text is not None or self._calls:
            self.end_turn()

    def end_turn(self) -> None:
        """Add the model's message, if there is one."""
        if self._text is not None or self._calls or self._thoughts:
            self.messages.append(
                ChatMessage(
                    "assistant",
                    self._text or "",
                    reasoning=self._thoughts,
                    tool_calls=self._calls,
                )
            )
        self._thoughts, self._text, self._calls = "", None, []


def thoughts_of(item: ReasoningItem) -> str:
    """What was thought: as it came, else as it was sealed, else as it was summed up."""
    if item.content is not msgspec.UNSET:
        return "\n".join(part.text for part in item.content)
    sealed = item.encrypted_content
    thoughts = unseal(sealed if isinstance(sealed, str) else None)
    return thoughts if thoughts is not None else "\n".join(part.text for part in item.summary)


def _said(item: OutputMessage) -> str:
    return "".join(
        part.text if isinstance(part, OutputText) else part.refusal for part in item.content
    )


def _joined(parts: Sequence[InputText]) -> str:
    return "\n".join(part.text for part in parts)
