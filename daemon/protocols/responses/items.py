"""The items of a conversation, as the Responses API tells and stores them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ..openai.completions.types import TokenLogprob

ItemStatus = Literal["in_progress", "completed", "incomplete"]


class InputText(msgspec.Struct, frozen=True, tag_field="type", tag="input_text"):
    """Text of whoever asks."""

    text: str


class OutputText(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="output_text"):
    """Text of the model; annotations cite what hosted tools found, so there are none."""

    annotations: list[Any] = []
    logprobs: list[TokenLogprob] = []
    text: str


class Refusal(msgspec.Struct, frozen=True, tag_field="type", tag="refusal"):
    """What a model said instead of an answer; ours never say so in a field of its own."""

    refusal: str


class ReasoningText(msgspec.Struct, frozen=True, tag_field="type", tag="reasoning_text"):
    """Thoughts as they came."""

    text: str


class SummaryText(msgspec.Struct, frozen=True, tag_field="type", tag="summary_text"):
    """Thoughts for those who asked for a summary: they are told whole."""

    text: str


class InputMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="message"):
    """A message to the model."""

    id: str
    status: ItemStatus = "completed"
    role: Literal["user", "system", "developer"]
    content: list[InputText]


class OutputMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="message"):
    """A message of the model."""

    id: str
    status: ItemStatus
    role: Literal["assistant"] = "assistant"
    content: list[OutputText | Refusal]


class ReasoningItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="reasoning"):
    """Thoughts: `content` as they came, or `summary` where one was asked for.

    `encrypted_content` holds them for clients that keep the conversation themselves.
    """

    id: str
    status: ItemStatus | UnsetType = UNSET
    summary: list[SummaryText] = []
    content: list[ReasoningText] | UnsetType = UNSET
    encrypted_content: str | UnsetType | None = UNSET


class FunctionCall(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="function_call"
):
    """A call of a function; `arguments` is the text of a JSON object."""

    id: str
    status: ItemStatus
    call_id: str
    name: str
    arguments: str
    namespace: str | UnsetType = UNSET


class CustomToolCall(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="custom_tool_call"
):
    """A call of a tool that takes text as it is."""

    id: str
    status: ItemStatus
    call_id: str
    name: str
    input: str
    namespace: str | UnsetType = UNSET


class FunctionCallOutput(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="function_call_output"
):
    """What a function returned; without `call_id` it answers the oldest open call."""

    id: str
    status: ItemStatus = "completed"
    call_id: str | UnsetType = UNSET
    output: str | list[InputText]


class CustomToolCallOutput(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="custom_tool_call_output"
):
    """What a custom tool returned."""

    id: str
    status: ItemStatus = "completed"
    call_id: str
    output: str | list[InputText]


class CompactionItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="compaction"):
    """A summary of what was said before, sealed as thoughts are."""

    id: str
    encrypted_content: str


class HostedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of another server's tool that has a result of its own kind, kept as it came."""

    raw: msgspec.Raw
    call_id: str
    name: str
    arguments: str


class HostedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The result of such a call, kept as it came."""

    raw: msgspec.Raw
    call_id: str
    output: str


OutputItem = OutputMessage | ReasoningItem | FunctionCall | CustomToolCall
Item = (
    InputMessage
    | OutputItem
    | FunctionCallOutput
    | CustomToolCallOutput
    | CompactionItem
    | HostedCall
    | HostedOutput
)


class ItemIds:
    """Ids for the items of one response, which tell whose they are."""

    LENGTH = 48
    """Hexadecimal digits of a response's id."""

    def __init__(self, response_id: str) -> None:
        self.token = response_id.removeprefix("resp_")
        self._next = 0

    def new(self, prefix: str) -> str:
        """The next one."""
        self._next += 1
        return f"{prefix}_{self.token}{self._next:04x}"

    @classmethod
    def response_of(cls, item_id: str) -> str | None:
        """The id of the response that gave the item its id; None where another server did."""
        token = item_id.partition("_")[2]
        return f"resp_{token[: cls.LENGTH]}" if len(token) > cls.LENGTH else None
