"""The bodies that OpenAI's Responses API takes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ingle.backends.base.requests import Priority

from ..ingle_options import IngleOptions
from ..openai.metadata import Metadata
from ..sampling_options import SamplingOptions, TokenCount

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Summary = Literal["auto", "concise", "detailed"]
Truncation = Literal["auto", "disabled"]
ToolMode = Literal["none", "auto", "required"]
TopLogprobs = Annotated[int, Meta(ge=0, le=20)]

LOGPROBS = "message.output_text.logprobs"
ENCRYPTED_REASONING = "reasoning.encrypted_content"


class ReasoningOptions(msgspec.Struct, omit_defaults=True):
    """How much the model thinks, and whether the thoughts come as summaries."""

    effort: Effort | None = None
    summary: Summary | None = None
    generate_summary: Summary | None = None


class TextOptions(msgspec.Struct):
    """The form of the text; `format` is a `TextFormat`, kept as it came to be told again."""

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
    """One tool, or one of several; a hosted one, which nobody here can run, demands nothing."""

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
    reasoning: ReasoningOptions | None = None
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
        """What is to be told beside the answer."""
        return frozenset(self.include or ())

    @property
    def priority(self) -> Priority:
        """What `ingle.priority` says, else `service_tier`."""
        if self.ingle is not None and self.ingle.priority is not None:
            return self.ingle.priority
        return Priority.BATCH if self.service_tier == "flex" else Priority.INTERACTIVE
