"""Wire types of the requests for chat completions and plain completions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ...ingle_options import IngleOptions
from ...sampling_options import Effort, RepeatPenalty, SamplingOptions
from ...structured_output import Choices, ResponseFormat, StructuredOutputs
from .messages import Conversation
from .tools import FunctionChoiceField, FunctionSpec, ToolChoiceField, ToolSpec
from .types import ServiceTier

ChoiceCount = Annotated[int, Meta(ge=1, le=16)]
LogprobCount = Annotated[int, Meta(ge=0, le=20)]
AnswerLength = Annotated[
    int, Meta(ge=-1, description="-1 is as many as fit, and more than fit are as many")
]
Budget = Annotated[int, Meta(ge=-1, le=2**31 - 1, description="tokens; -1 is no bound")]


class StreamOptions(msgspec.Struct):
    """`include_usage` asks for one more chunk at the end, which counts the tokens.

    With vLLM's `continuous_usage_stats` every chunk counts.
    """

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class CommonRequest(SamplingOptions, kw_only=True):
    """What chat and plain completions have in common; unknown fields are ignored.

    `service_tier` flex is the priority batch. `user`, `safety_identifier` and `prompt_cache_key`
    distinguish clients. `grammar`, `json_schema` and `n_predict` are llama-server's,
    `structured_outputs`, `guided_…`, `ignore_eos` and `repetition_penalty` vLLM's.
    """

    model: Annotated[str, Meta(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    stop: str | list[str] | None = None
    max_tokens: AnswerLength | None = None
    n: ChoiceCount | None = None
    service_tier: str | None = None
    user: Any = None
    safety_identifier: Any = None
    prompt_cache_key: Any = None
    ingle: IngleOptions | None = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    grammar: str | None = None
    json_schema: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    guided_json: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    guided_regex: str | None = None
    guided_choice: Choices | None = None
    guided_grammar: str | None = None
    ignore_eos: bool | None = None
    n_predict: AnswerLength | None = None
    repetition_penalty: RepeatPenalty | None = None

    def __post_init__(self) -> None:
        """Take what other servers call by another name."""
        if self.repeat_penalty is None:
            self.repeat_penalty = self.repetition_penalty

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with a count of its tokens."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    @property
    def counts_in_chunks(self) -> bool:
        """Whether every chunk of a stream counts the tokens so far."""
        options = self.stream_options
        return self.include_usage and bool(options and options.continuous_usage_stats)


class ReasoningField(msgspec.Struct, kw_only=True):
    """OpenRouter's `reasoning`; with `exclude` the answer does not show the reasoning."""

    effort: Effort | None = None
    max_tokens: Budget | None = None
    enabled: bool | None = None
    exclude: bool | None = None


class ThinkingSwitch(msgspec.Struct, kw_only=True):
    """`thinking` as DeepSeek, GLM and Kimi have it."""

    type: Literal["enabled", "disabled", "auto", "adaptive"] | None = None
    budget_tokens: Budget | None = None


class ChatCompletionRequest(CommonRequest, kw_only=True):
    """The body of `POST /v1/chat/completions`; the fields without a type are refused if used.

    `functions` and `function_call` are what came before `tools`, and answered in their own form.
    Several fields say how much to reason; of two that differ the first counts:
    `thinking_budget_tokens` and `reasoning_budget_tokens` are llama-server's,
    `thinking_token_budget` vLLM's, `enable_thinking` and `thinking_budget` DashScope's.
    """

    messages: Conversation
    max_completion_tokens: AnswerLength | None = None
    reasoning_effort: Effort | None = None
    reasoning: ReasoningField | None = None
    thinking: ThinkingSwitch | None = None
    enable_thinking: bool | None = None
    thinking_budget_tokens: Budget | None = None
    reasoning_budget_tokens: Budget | None = None
    reasoning_budget: Budget | None = None
    thinking_token_budget: Budget | None = None
    thinking_budget: Budget | None = None
    include_reasoning: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    tools: list[ToolSpec] | None = None
    tool_choice: ToolChoiceField | None = None
    parallel_tool_calls: bool | None = None
    functions: list[FunctionSpec] | None = None
    function_call: FunctionChoiceField | None = None
    logprobs: bool | None = None
    top_logprobs: LogprobCount | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    modalities: Any = None
    audio: Any = None
    web_search_options: Any = None

    @property
    def legacy(self) -> bool:
        """Whether the answer has calls in the form that came before `tools`."""
        return bool(self.functions) and not self.tools

    @property
    def shows_reasoning(self) -> bool:
        """Whether the reasoning is part of the answer."""
        excluded = self.reasoning is not None and self.reasoning.exclude
        return self.include_reasoning is not False and not excluded

    @property
    def answered_tier(self) -> ServiceTier | UnsetType:
        """The `service_tier` of the answer, if the request has one."""
        if self.service_tier is None:
            return UNSET
        return "flex" if self.service_tier == "flex" else "default"


class PlainCompletionRequest(CommonRequest, kw_only=True):
    """The body of `POST /v1/completions`; with a `suffix` the answer stands before it."""

    prompt: str | list[str | int | list[int]]
    echo: bool | None = None
    suffix: str | None = None
    logprobs: LogprobCount | bool | None = None
    best_of: ChoiceCount | None = None
