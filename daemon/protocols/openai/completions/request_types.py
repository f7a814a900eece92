"""Wire types of the requests for chats and plain completions, and the tools that they offer."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ingle.backends.base.conversation import NO_PARAMETERS, Tool, ToolChoice

from ....errors import InvalidBody
from ....http.field_policy import FieldPolicy
from ...field_policies import CHAT_FIELDS, PLAIN_FIELDS
from ...ingle_options import IngleOptions
from ...request_options import (
    Choices,
    Effort,
    RepeatPenalty,
    ResponseFormat,
    SamplingOptions,
    StructuredOutputs,
)
from ..list_pages import Metadata
from .messages import Conversation
from .types import ServiceTier

# OpenAI takes 64 letters, digits, `_` and `-`. Names that say where a tool is from have more.
_NAME = re.compile(r"[\w./:@~+$#-]{1,256}")


class FunctionSpec(msgspec.Struct):
    """A function the model may call; `parameters` is a JSON Schema of an object."""

    name: str
    description: str | None = None
    parameters: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    strict: bool | None = None


class ToolSpec(msgspec.Struct):
    """One of `tools`; types other than `function` are ignored.

    Some clients write the function's fields beside `type`, as the Responses API has them.
    """

    type: str | None = None
    function: FunctionSpec | None = None
    name: str | None = None
    description: str | None = None
    parameters: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    strict: bool | None = None


class NamedFunction(msgspec.Struct):
    """Names a function."""

    name: str


class NamedTool(msgspec.Struct):
    """Names a tool."""

    type: str | None = None
    function: NamedFunction | None = None
    name: str | None = None


class AllowedTools(msgspec.Struct):
    """The tools that may be called, of all that the model is shown."""

    tools: list[NamedTool]
    mode: Literal["auto", "required"] = "auto"


class ChosenTool(NamedTool):
    """`tool_choice` as an object: one function, or the allowed ones."""

    allowed_tools: AllowedTools | None = None


ToolChoiceField = Literal["none", "auto", "required", "any"] | ChosenTool
FunctionChoiceField = Literal["none", "auto"] | NamedFunction


def called_tools(
    tools: list[ToolSpec] | None, choice: ToolChoiceField | None
) -> tuple[list[Tool], ToolChoice]:
    """The tools that the model may call, and the choice among them; raises `InvalidBody`."""
    specs = tools or []
    known = [_tool(spec, f"tools[{i}]") for i, spec in enumerate(specs) if _is_function(spec)]
    if choice is None or choice in ("auto", "none"):
        return known, ToolChoice("none" if choice == "none" else "auto")
    if not known:
        raise InvalidBody(
            "'tool_choice' demands a call, and 'tools' holds no function.",
            hint="Send the functions, or leave 'tool_choice' out.",
            param="tool_choice",
        )
    if isinstance(choice, str):
        return known, ToolChoice("required")
    if choice.allowed_tools is not None:
        return _allowed(known, choice.allowed_tools)
    return known, ToolChoice("required", [_known_name(_chosen_name(choice), _names(known))])


def called_functions(
    functions: list[FunctionSpec] | None, choice: FunctionChoiceField | None
) -> tuple[list[Tool], ToolChoice]:
    """The same for OpenAI's older fields `functions` and `function_call`."""
    known = [_function(spec, f"functions[{i}]") for i, spec in enumerate(functions or [])]
    if choice is None or isinstance(choice, str):
        return known, ToolChoice("none" if choice == "none" else "auto")
    name = _known_name(choice.name, _names(known), "function_call")
    return known, ToolChoice("required", [name])


def object_schema(raw: msgspec.Raw, place: str) -> str:
    """A JSON Schema of an object as text; absent, null and empty ones take no arguments.

    Raises `InvalidBody` for a schema of something else, which `place` names.
    """
    text = bytes(raw).strip()
    if text in (b"", b"null"):
        return NO_PARAMETERS
    try:
        schema = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError as error:
        raise InvalidBody(f"'{place}' is no JSON Schema: {error}.", param=place) from error
    kind = bytes(schema.get("type", msgspec.Raw(b"null")))
    if kind == b"null":
        schema["type"] = msgspec.Raw(b'"object"')
    elif b'"object"' not in kind:
        raise InvalidBody(
            f"'{place}' is not the schema of an object, but of {kind.decode()[:40]}.",
            hint='Give an object such as {"type": "object", "properties": {}}.',
            param=place,
        )
    properties = bytes(schema.get("properties", msgspec.Raw(b"null")))
    if properties == b"null":
        schema["properties"] = msgspec.Raw(b"{}")
    elif not properties.startswith(b"{"):
        raise InvalidBody(f"'{place}.properties' is not an object.", param=f"{place}.properties")
    return msgspec.json.encode(schema).decode()


def tool_name(name: str, place: str) -> str:
    """Return the name if it is valid; raises `InvalidBody`."""
    if _NAME.fullmatch(name):
        return name
    raise InvalidBody(
        f"'{place}' is {name[:40]!r}, which is no name for a tool.",
        hint="Give 1 to 256 letters, digits, or characters of _-./:@~+$#.",
        param=place,
    )


def _is_function(spec: ToolSpec) -> bool:
    named = spec.function is not None or spec.name is not None
    return spec.type == "function" or (spec.type is None and named)


def _tool(spec: ToolSpec, place: str) -> Tool:
    if spec.function is not None:
        return _function(spec.function, f"{place}.function")
    if spec.name is None:
        raise InvalidBody(f"'{place}.function' is missing.", param=f"{place}.function")
    flat = FunctionSpec(spec.name, spec.description, spec.parameters, spec.strict)
    return _function(flat, place)


def _function(spec: FunctionSpec, place: str) -> Tool:
    return Tool(
        tool_name(spec.name, f"{place}.name"),
        spec.description or "",
        object_schema(spec.parameters, f"{place}.parameters"),
        bool(spec.strict),
    )


def _allowed(known: list[Tool], allowed: AllowedTools) -> tuple[list[Tool], ToolChoice]:
    all_names = _names(known)
    names = [_known_name(_chosen_name(tool), all_names) for tool in allowed.tools]
    if not names:
        return known, ToolChoice("none")
    return known, ToolChoice(allowed.mode, names)


def _chosen_name(choice: NamedTool) -> str:
    name = choice.function.name if choice.function is not None else choice.name
    if name is None:
        raise InvalidBody(
            "'tool_choice' names no function.",
            hint='Send "none", "auto", "required" or {"type": "function", "function": {"name"}}.',
            param="tool_choice",
        )
    return name


def _names(known: list[Tool]) -> set[str]:
    return {tool.name for tool in known}


def _known_name(name: str, known: set[str], param: str = "tool_choice") -> str:
    if name not in known:
        raise InvalidBody(
            f"'{param}' names {name[:80]!r}, which is not among the functions.",
            hint="Name one of them.",
            param=param,
        )
    return name


ChoiceCount = Annotated[int, Meta(ge=1, le=16)]
LogprobCount = Annotated[int, Meta(ge=0, le=20)]
AnswerLength = Annotated[
    int, Meta(ge=-1, description="-1 is as many as fit, and more than fit are as many")
]
SlotNumber = Annotated[int, Meta(ge=-1, lt=2**31)]
StopTokens = Annotated[list[int], Meta(max_length=1024)]
Budget = Annotated[int, Meta(ge=-1, le=2**31 - 1, description="tokens; -1 is no bound")]


class StreamOptions(msgspec.Struct):
    """`include_usage` asks for one more chunk at the end, which counts the tokens.

    With vLLM's `continuous_usage_stats` every chunk counts.
    """

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class CommonRequest(SamplingOptions, kw_only=True):
    """The common fields of chat and plain completions; unknown fields are ignored.

    `service_tier` flex is the priority batch. `user`, `safety_identifier` and `prompt_cache_key`
    distinguish clients. `grammar`, `json_schema`, `n_predict`, `return_progress` and `id_slot` are
    llama-server's,
    `structured_outputs`, `guided_…`, `ignore_eos`, `stop_token_ids`, `prompt_logprobs` and
    `repetition_penalty` vLLM's.
    """

    model: Annotated[str, Meta(min_length=1)] | None = None
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
    stop_token_ids: StopTokens | None = None
    prompt_logprobs: LogprobCount | None = None
    n_predict: AnswerLength | None = None
    return_progress: bool | None = None
    id_slot: SlotNumber | None = None
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
    """The body of `POST /v1/chat/completions`.

    `functions` and `function_call` are what came before `tools`, and answered in their own form.
    Several fields say how much to reason; of two that differ the first counts:
    `thinking_budget_tokens` and `reasoning_budget_tokens` are llama-server's,
    `thinking_token_budget` vLLM's, `enable_thinking` and `thinking_budget` DashScope's.
    """

    field_policy: ClassVar[FieldPolicy] = CHAT_FIELDS

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
    store: bool | None = None
    metadata: Metadata | None = None

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

    field_policy: ClassVar[FieldPolicy] = PLAIN_FIELDS

    prompt: str | list[str | int | list[int]]
    echo: bool | None = None
    suffix: str | None = None
    logprobs: LogprobCount | bool | None = None
    best_of: ChoiceCount | None = None
