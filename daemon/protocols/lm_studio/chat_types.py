"""Wire types of LM Studio's `POST /api/v1/chat`; source: its REST API's documentation."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ...http.field_policy import FieldPolicy
from ..field_policies import LM_STUDIO_CHAT_FIELDS
from ..ingle_options import IngleOptions
from ..request_options import SamplingOptions, TokenCount
from .types import ModelKey


class ChatInput(msgspec.Struct):
    """A part of the message: text as `content`, or a picture as `data_url`."""

    type: Literal["message", "text", "image"]
    content: str = ""
    data_url: str = ""


class StatefulChatRequest(SamplingOptions, kw_only=True):
    """The body of `POST /api/v1/chat`: one message, which continues a stored conversation.

    `system_prompt` becomes part of the conversation.
    """

    field_policy: ClassVar[FieldPolicy] = LM_STUDIO_CHAT_FIELDS

    model: ModelKey
    input: str | list[ChatInput]
    system_prompt: str | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    stream: bool | None = None
    max_output_tokens: TokenCount | None = None
    context_length: TokenCount | None = None
    reasoning: Literal["off", "low", "medium", "high", "on"] | None = None
    ingle: IngleOptions | None = None


class ChatOutput(msgspec.Struct, frozen=True):
    """Reasoning, or the text of the answer."""

    type: Literal["reasoning", "message"]
    content: str


class ChatStats(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens and times; the load time is there if the request has loaded the model."""

    input_tokens: int
    total_output_tokens: int
    reasoning_output_tokens: int
    tokens_per_second: float
    time_to_first_token_seconds: float
    model_load_time_seconds: float | UnsetType = UNSET


class StatefulChat(msgspec.Struct, frozen=True, kw_only=True):
    """The answer; `response_id` continues it, if it is stored."""

    model_instance_id: str
    output: list[ChatOutput]
    stats: ChatStats
    response_id: str | UnsetType = UNSET


class ChatStart(msgspec.Struct, frozen=True, tag_field="type", tag="chat.start"):
    """The stream begins."""

    model_instance_id: str


class ModelLoadStart(msgspec.Struct, frozen=True, tag_field="type", tag="model_load.start"):
    """The model is being loaded."""

    model_instance_id: str


class ModelLoadProgress(msgspec.Struct, frozen=True, tag_field="type", tag="model_load.progress"):
    """The fraction that is loaded, 0 to 1."""

    model_instance_id: str
    progress: float


class ModelLoadEnd(msgspec.Struct, frozen=True, tag_field="type", tag="model_load.end"):
    """The model is loaded."""

    model_instance_id: str
    load_time_seconds: float


class PrefillStart(msgspec.Struct, frozen=True, tag_field="type", tag="prompt_processing.start"):
    """The prefill begins."""


class PrefillProgress(
    msgspec.Struct, frozen=True, tag_field="type", tag="prompt_processing.progress"
):
    """The fraction of the prompt that is computed, 0 to 1."""

    progress: float


class PrefillEnd(msgspec.Struct, frozen=True, tag_field="type", tag="prompt_processing.end"):
    """The prefill is complete."""


class ReasoningStart(msgspec.Struct, frozen=True, tag_field="type", tag="reasoning.start"):
    """Reasoning begins."""


class ReasoningPiece(msgspec.Struct, frozen=True, tag_field="type", tag="reasoning.delta"):
    """More reasoning."""

    content: str


class ReasoningEnd(msgspec.Struct, frozen=True, tag_field="type", tag="reasoning.end"):
    """The reasoning is complete."""


class TextStart(msgspec.Struct, frozen=True, tag_field="type", tag="message.start"):
    """The answer's text begins."""


class TextPiece(msgspec.Struct, frozen=True, tag_field="type", tag="message.delta"):
    """More text."""

    content: str


class TextEnd(msgspec.Struct, frozen=True, tag_field="type", tag="message.end"):
    """The text is complete."""


class ChatErrorDetail(msgspec.Struct, frozen=True, kw_only=True):
    """What failed."""

    type: Literal["invalid_request", "model_not_found", "internal_error"]
    message: str
    code: str
    param: str | UnsetType = UNSET


class ChatFailed(msgspec.Struct, frozen=True, tag_field="type", tag="error"):
    """The chat failed; what was generated follows."""

    error: ChatErrorDetail


class ChatEnd(msgspec.Struct, frozen=True, tag_field="type", tag="chat.end"):
    """The whole answer."""

    result: StatefulChat


CHAT_EVENTS = (
    *(ChatStart, ModelLoadStart, ModelLoadProgress, ModelLoadEnd),
    *(PrefillStart, PrefillProgress, PrefillEnd, ReasoningStart, ReasoningPiece, ReasoningEnd),
    *(TextStart, TextPiece, TextEnd, ChatFailed, ChatEnd),
)
