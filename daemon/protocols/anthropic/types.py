"""Anthropic's wire types, as far as they are served; each stream event is named by its type."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ...http.field_policy import FieldPolicy
from ..answer_values import PromptProgress
from ..field_policies import COUNTED_FIELDS, MESSAGE_FIELDS
from ..ingle_options import IngleOptions
from ..request_options import SamplingOptions
from .messages import Content, Messages

ToolName = Annotated[str, Meta(min_length=1, max_length=256)]
Effort = Literal["low", "medium", "high", "xhigh", "max"]
StopReason = Literal[
    "end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"
]


class InputTool(msgspec.Struct):
    """A tool of the client's, or one with a `type` whose schema Anthropic has published.

    The display belongs to the type `computer`.
    """

    type: str | None = None
    name: ToolName | None = None
    description: str | None = None
    input_schema: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    strict: bool | None = None
    display_width_px: int | None = None
    display_height_px: int | None = None
    enable_zoom: bool | None = None


class ToolChoiceField(msgspec.Struct):
    """Whether tools are called; `name` goes with the type `tool`."""

    type: Literal["auto", "any", "tool", "none"]
    name: ToolName | None = None
    disable_parallel_tool_use: bool | None = None


class ThinkingField(msgspec.Struct):
    """Whether the model thinks before it answers; `display` omitted leaves its reasoning out."""

    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    display: str | None = None


class OutputFormat(msgspec.Struct):
    """A JSON Schema that the answer matches."""

    type: Literal["json_schema"]
    schema: msgspec.Raw


class OutputConfig(msgspec.Struct):
    """The reasoning effort and the format of an answer."""

    effort: Effort | None = None
    format: OutputFormat | None = None


class RequestMetadata(msgspec.Struct):
    """`user_id` distinguishes clients."""

    user_id: str | None = None


class PromptRequest(SamplingOptions, kw_only=True):
    """The body of `POST /v1/messages/count_tokens`; unknown fields are ignored."""

    field_policy: ClassVar[FieldPolicy] = COUNTED_FIELDS

    model: Annotated[str, Meta(min_length=1)] | None = None
    messages: Messages
    system: Content | None = None
    tools: list[InputTool] | None = None
    tool_choice: ToolChoiceField | None = None
    thinking: ThinkingField | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None
    metadata: RequestMetadata | None = None
    ingle: IngleOptions | None = None


class MessagesRequest(PromptRequest, kw_only=True):
    """The body of `POST /v1/messages`; with 0 `max_tokens` the prompt is computed and kept."""

    field_policy: ClassVar[FieldPolicy] = MESSAGE_FIELDS

    max_tokens: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    stop_sequences: list[str] | None = None
    stream: bool | None = None


class TextBlock(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """Text of the model."""

    text: str


class ThinkingBlock(msgspec.Struct, frozen=True, tag_field="type", tag="thinking"):
    """The model's reasoning before its answer."""

    thinking: str
    signature: str


class ToolUseBlock(msgspec.Struct, frozen=True, tag_field="type", tag="tool_use"):
    """A call of a tool; `input` is an object."""

    id: str
    name: str
    input: msgspec.Raw


OutputBlock = TextBlock | ThinkingBlock | ToolUseBlock


class ThinkingTokensDetails(msgspec.Struct, frozen=True):
    """The number of reasoning tokens."""

    thinking_tokens: int


class MessageUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens processed; those found in the KV cache are counted separately."""

    input_tokens: int
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: ThinkingTokensDetails
    service_tier: Literal["standard"] | UnsetType = UNSET


class MessageObject(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `POST /v1/messages`."""

    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[OutputBlock]
    stop_reason: StopReason | None
    stop_sequence: str | None
    usage: MessageUsage


class TokenCount(msgspec.Struct, frozen=True):
    """The answer of `POST /v1/messages/count_tokens`."""

    input_tokens: int


class MessageStart(msgspec.Struct, frozen=True, tag_field="type", tag="message_start"):
    """The first event: a message without content."""

    message: MessageObject


class ContentBlockStart(msgspec.Struct, frozen=True, tag_field="type", tag="content_block_start"):
    """The block number `index` begins, empty."""

    index: int
    content_block: OutputBlock


class TextDelta(msgspec.Struct, frozen=True, tag_field="type", tag="text_delta"):
    """More text."""

    text: str


class ThinkingDelta(msgspec.Struct, frozen=True, tag_field="type", tag="thinking_delta"):
    """More reasoning."""

    thinking: str


class SignatureDelta(msgspec.Struct, frozen=True, tag_field="type", tag="signature_delta"):
    """The end of the reasoning."""

    signature: str


class InputJSONDelta(msgspec.Struct, frozen=True, tag_field="type", tag="input_json_delta"):
    """More of the text of a call's input."""

    partial_json: str


class ContentBlockDelta(msgspec.Struct, frozen=True, tag_field="type", tag="content_block_delta"):
    """An addition to the block number `index`."""

    index: int
    delta: TextDelta | ThinkingDelta | SignatureDelta | InputJSONDelta


class ContentBlockStop(msgspec.Struct, frozen=True, tag_field="type", tag="content_block_stop"):
    """The block number `index` is complete."""

    index: int


class StopDelta(msgspec.Struct, frozen=True):
    """The reason why the message ended."""

    stop_reason: StopReason
    stop_sequence: str | None


class MessageDelta(msgspec.Struct, frozen=True, tag_field="type", tag="message_delta"):
    """The message is complete, with its usage."""

    delta: StopDelta
    usage: MessageUsage


class MessageStop(msgspec.Struct, frozen=True, tag_field="type", tag="message_stop"):
    """The last event."""


class PingEvent(msgspec.Struct, frozen=True):
    """Keeps the connection alive, also while the model is loading.

    While the prompt is read it says how far, which is ingle's addition.
    """

    type: Literal["ping"] = "ping"
    prompt_progress: PromptProgress | UnsetType = UNSET
