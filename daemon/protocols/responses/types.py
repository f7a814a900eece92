"""The requests and the objects of the Responses API."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ingle.backends.base.events import Finished

from ...http.field_policy import FieldPolicy
from ..answer_values import PromptProgress
from ..field_policies import RESPONSE_FIELDS
from ..ingle_options import IngleOptions
from ..openai.list_pages import Metadata
from ..request_options import Effort, SamplingOptions, TokenCount
from .items import OutputItem

Summary = Literal["auto", "concise", "detailed"]
Truncation = Literal["auto", "disabled"]
ToolMode = Literal["none", "auto", "required"]
TopLogprobs = Annotated[int, Meta(ge=0, le=20)]

LOGPROBS = "message.output_text.logprobs"
ENCRYPTED_REASONING = "reasoning.encrypted_content"


class ReasoningRequest(msgspec.Struct, omit_defaults=True):
    """The effort of reasoning, and whether the answer has it as a summary."""

    effort: Effort | None = None
    summary: Summary | None = None
    generate_summary: Summary | None = None


class TextOptions(msgspec.Struct):
    """The form of the text; `format` is a `TextFormat`, which the response repeats unchanged."""

    format: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    verbosity: Literal["low", "medium", "high"] | None = None


class TextFormat(msgspec.Struct):
    """The format of the text; if `strict` is false, a `schema` is enforced as far as possible."""

    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    schema: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    strict: bool | None = None
    description: str | None = None


class AllowedTool(msgspec.Struct, omit_defaults=True):
    """A tool of `allowed_tools`."""

    type: str
    name: str | None = None
    namespace: str | None = None
    server_label: str | None = None


class ToolChoiceObject(AllowedTool, omit_defaults=True):
    """One tool, or one of several; demanding a hosted one, which cannot run here, is an error."""

    mode: Literal["auto", "required"] | None = None
    tools: list[AllowedTool] | None = None


class ConversationReference(msgspec.Struct, frozen=True):
    """The conversation that a response belongs to."""

    id: str


class ResponsesRequest(SamplingOptions, kw_only=True):
    """The body of `POST /v1/responses`; unknown fields are ignored.

    `input` is text, or items, each of which is read by its own type. `service_tier` flex is the
    priority batch.
    """

    field_policy: ClassVar[FieldPolicy] = RESPONSE_FIELDS

    model: Annotated[str, Meta(min_length=1)] | None = None
    input: str | list[msgspec.Raw] | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: str | ConversationReference | None = None
    prompt: Any = None
    tools: list[msgspec.Raw] | None = None
    tool_choice: ToolMode | ToolChoiceObject | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: TokenCount | None = None
    max_tool_calls: int | None = None
    reasoning: ReasoningRequest | None = None
    text: TextOptions | None = None
    top_logprobs: TopLogprobs | None = None
    include: Annotated[list[str], Meta(max_length=64)] | None = None
    truncation: Truncation | None = None
    metadata: Metadata | None = None
    store: bool | None = None
    background: bool | None = None
    stream: bool | None = None
    service_tier: str | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    ingle: IngleOptions | None = None

    @property
    def conversation_id(self) -> str | None:
        """The id of the conversation that is continued."""
        given = self.conversation
        return given.id if isinstance(given, ConversationReference) else given

    @property
    def includes(self) -> frozenset[str]:
        """The optional parts of the response that the request asks for."""
        return frozenset(self.include or ())


Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]


class InputTokensDetails(msgspec.Struct, frozen=True, kw_only=True):
    """`cached_tokens` of the input were found in the KV cache."""

    cached_tokens: int
    cache_write_tokens: int = 0


class OutputTokensDetails(msgspec.Struct, frozen=True):
    """Tokens of reasoning."""

    reasoning_tokens: int


class ResponseUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens processed."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int

    @classmethod
    def of(cls, prompt: int, cached: int, end: Finished) -> ResponseUsage:
        """The usage of a prompt, so many tokens of which were cached, and its answer."""
        return cls(
            input_tokens=prompt,
            input_tokens_details=InputTokensDetails(cached_tokens=cached),
            output_tokens=end.completion_tokens,
            output_tokens_details=OutputTokensDetails(end.reasoning_tokens),
            total_tokens=prompt + end.completion_tokens,
        )


class ResponseError(msgspec.Struct, frozen=True):
    """The reason why a response failed after it began."""

    code: str
    message: str


class IncompleteDetails(msgspec.Struct, frozen=True):
    """The reason why an answer is incomplete."""

    reason: Literal["max_output_tokens"]


class TextConfig(msgspec.Struct, frozen=True):
    """The requested format and verbosity of the text."""

    format: msgspec.Raw
    verbosity: Literal["low", "medium", "high"]


class ReasoningConfig(msgspec.Struct, frozen=True):
    """The requested reasoning."""

    effort: str | None
    summary: str | None

    @classmethod
    def of(cls, options: ReasoningRequest | None) -> ReasoningConfig:
        """The configuration that a request asks for."""
        asked = options or ReasoningRequest()
        return cls(asked.effort, asked.summary or asked.generate_summary)


class IngleDetails(msgspec.Struct, frozen=True):
    """ingle's addition: the number of messages left out so that the others fit.

    While the prompt is read, it says how far.
    """

    dropped_messages: int | UnsetType = UNSET
    prompt_progress: PromptProgress | UnsetType = UNSET


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """One answer; the sampling is what was really used."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    status: Status
    background: bool
    completed_at: int | None = None
    conversation: ConversationReference | None = None
    error: ResponseError | None = None
    frequency_penalty: float
    incomplete_details: IncompleteDetails | None = None
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    model: str
    output: list[OutputItem] = []
    parallel_tool_calls: bool
    presence_penalty: float
    previous_response_id: str | None
    prompt_cache_key: str | None
    reasoning: ReasoningConfig
    safety_identifier: str | None
    service_tier: Literal["default", "flex"]
    store: bool
    temperature: float
    text: TextConfig
    tool_choice: ToolMode | ToolChoiceObject
    tools: list[msgspec.Raw]
    top_logprobs: int
    top_p: float
    truncation: Truncation
    usage: ResponseUsage | None = None
    user: str | None
    metadata: dict[str, str]
    ingle: IngleDetails | UnsetType = UNSET


class InputTokens(msgspec.Struct, frozen=True, kw_only=True):
    """The length of a prompt in tokens."""

    object: Literal["response.input_tokens"] = "response.input_tokens"
    input_tokens: int


class DeletedResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A deleted response."""

    id: str
    object: Literal["response"] = "response"
    deleted: Literal[True] = True
