"""The bodies that OpenAI's Responses API takes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ..ingle_options import IngleOptions
from ..openai.list_pages import Metadata
from ..sampling_options import Effort, SamplingOptions, TokenCount

Summary = Literal["auto", "concise", "detailed"]
Truncation = Literal["auto", "disabled"]
ToolMode = Literal["none", "auto", "required"]
TopLogprobs = Annotated[int, Meta(ge=0, le=20)]

LOGPROBS = "message.output_text.logprobs"
ENCRYPTED_REASONING = "reasoning.encrypted_content"


class ReasoningRequest(msgspec.Struct, omit_defaults=True):
    """How much the model reasons, and whether the reasoning comes as a summary."""

    effort: Effort | None = None
    summary: Summary | None = None
    generate_summary: Summary | None = None


class TextOptions(msgspec.Struct):
    """The form of the text; `format` is a `TextFormat`, which the response repeats unchanged."""

    format: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    verbosity: Literal["low", "medium", "high"] | None = None


class TextFormat(msgspec.Struct):
    """What the text must be; a `schema` is enforced, with `strict` false as far as it can be."""

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


class ToolChoiceObject(msgspec.Struct, omit_defaults=True):
    """One tool, or one of several; a hosted one, which cannot run here, demands nothing."""

    type: str
    name: str | None = None
    namespace: str | None = None
    server_label: str | None = None
    mode: Literal["auto", "required"] | None = None
    tools: list[AllowedTool] | None = None


class ResponsesRequest(SamplingOptions, kw_only=True):
    """The body of `POST /v1/responses`; unknown fields are ignored.

    `input` is text, or items, each of which is read by its own type. `service_tier` flex is the
    priority batch.
    """

    model: Annotated[str, Meta(min_length=1)] | None = None
    input: str | list[msgspec.Raw] | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: Any = None
    prompt: Any = None
    tools: list[msgspec.Raw] | None = None
    tool_choice: ToolMode | ToolChoiceObject | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: TokenCount | None = None
    max_tool_calls: int | None = None
    reasoning: ReasoningRequest | None = None
    text: TextOptions | None = None
    top_logprobs: TopLogprobs | None = None
    include: list[str] | None = None
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
    def includes(self) -> frozenset[str]:
        """What the response has in addition to the answer."""
        return frozenset(self.include or ())
