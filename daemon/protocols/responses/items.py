"""The items of a conversation, as the Responses API returns and stores them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ingle.models.struct_preparation import prepared

from ..answer_values import TokenLogprob

ItemStatus = Literal["in_progress", "completed", "incomplete"]


class InputText(msgspec.Struct, frozen=True, tag_field="type", tag="input_text"):
    """Text of a message to the model, or of a tool's output."""

    text: str


class InputImage(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="input_image"):
    """A picture of a message to the model, or of a tool's output, as a data URI."""

    detail: str = "auto"
    image_url: str


class InputFile(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="input_file"):
    """A PDF file of a message to the model, or of a tool's output, in base64."""

    filename: str = "document.pdf"
    file_data: str


InputPart = InputText | InputImage | InputFile


class OutputText(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="output_text"):
    """Text of the model; annotations cite what hosted tools found, so there are none."""

    annotations: list[Any] = []
    logprobs: list[TokenLogprob] = []
    text: str


class Refusal(msgspec.Struct, frozen=True, tag_field="type", tag="refusal"):
    """A refusal that another server returned; here it is text like any other."""

    refusal: str


class ReasoningText(msgspec.Struct, frozen=True, tag_field="type", tag="reasoning_text"):
    """Reasoning as it was generated."""

    text: str


class SummaryText(msgspec.Struct, frozen=True, tag_field="type", tag="summary_text"):
    """Reasoning for clients that asked for a summary, which is the whole reasoning."""

    text: str


class MessageItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="message"):
    """A message to the model."""

    id: str
    status: ItemStatus = "completed"
    role: Literal["user", "system", "developer"]
    content: list[InputPart]


class OutputMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="message"):
    """A message of the model."""

    id: str
    status: ItemStatus
    role: Literal["assistant"] = "assistant"
    content: list[OutputText | Refusal]


class ReasoningItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="reasoning"):
    """Reasoning: as `content`, or as `summary` if one was requested.

    `encrypted_content` holds it for clients that store the conversation themselves.
    """

    id: str
    status: ItemStatus | UnsetType = UNSET
    summary: list[SummaryText] = []
    content: list[ReasoningText] | UnsetType = UNSET
    encrypted_content: str | UnsetType | None = UNSET


class FunctionCallItem(
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
    """A call of a tool that takes free text."""

    id: str
    status: ItemStatus
    call_id: str
    name: str
    input: str
    namespace: str | UnsetType = UNSET


class FunctionCallOutput(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="function_call_output"
):
    """The output of a function; without `call_id` it answers the oldest open call."""

    id: str
    status: ItemStatus = "completed"
    call_id: str | UnsetType = UNSET
    output: str | list[InputPart]


class CustomToolCallOutput(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="custom_tool_call_output"
):
    """The output of a custom tool."""

    id: str
    status: ItemStatus = "completed"
    call_id: str
    output: str | list[InputPart]


class CompactionItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="compaction"):
    """A summary of the conversation before, encoded as reasoning is."""

    id: str
    encrypted_content: str


class HostedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a hosted tool of another server, stored unchanged."""

    raw: msgspec.Raw
    call_id: str
    name: str
    arguments: str


class HostedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The result of such a call, stored unchanged."""

    raw: msgspec.Raw
    call_id: str
    output: str


OutputItem = OutputMessage | ReasoningItem | FunctionCallItem | CustomToolCall
Item = (
    MessageItem
    | OutputItem
    | FunctionCallOutput
    | CustomToolCallOutput
    | CompactionItem
    | HostedCall
    | HostedOutput
)


def stored_item(item: Item) -> msgspec.Raw:
    """The JSON of an item, as it is stored and returned."""
    if isinstance(item, HostedCall | HostedOutput):
        return item.raw
    return msgspec.Raw(msgspec.json.encode(item))


class _Identified(msgspec.Struct):
    id: str = ""


def id_of(item: msgspec.Raw) -> str:
    """The id of a stored item."""
    return msgspec.json.decode(bytes(item), type=prepared(_Identified)).id


class ItemIds:
    """Ids for the items of one response or conversation, whose id they contain.

    `used` is the number of ids that it has made.
    """

    LENGTH = 48
    """Hexadecimal digits of the owner's id."""

    def __init__(self, owner_id: str, used: int = 0) -> None:
        self.token = owner_id.partition("_")[2]
        self.used = used

    def new(self, prefix: str) -> str:
        """Return the next id."""
        self.used += 1
        return f"{prefix}_{self.token}{self.used:04x}"

    @classmethod
    def owner_of(cls, item_id: str) -> str | None:
        """What follows the prefix in the id of the response or conversation that an item belongs
        to; None if another server made the item's id.
        """
        token = item_id.partition("_")[2]
        return token[: cls.LENGTH] if len(token) > cls.LENGTH else None
