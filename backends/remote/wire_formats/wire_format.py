"""The interface of a provider's protocol: encode a request, decode the answer."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from ...base.conversation import Tool
from ...base.events import (
    Delta,
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    ToolCallDelta,
    ToolCallStarted,
)
from ...base.requests import GenerateRequest
from ...base.sampling_params import Grammar, GrammarKind, SamplingParams
from ..errors import CannotExpress, ProviderMisbehaved
from ..providers import Provider
from ..receipt import TokenUsage

MOST_CALLS = 256
"""Most tool calls in one answer."""

LARGEST_ANSWER = 64 * 2**20
"""Most bytes of one answer's body."""

_ONE_CALL_MODELS = re.compile(r"(?:[\w.-]+/)?o\d")
"""OpenAI's o-series: it calls one tool at a time, and refuses requests that say so."""

JsonObject = dict[str, Any]
T = TypeVar("T")


class AnswerReader(ABC):
    """Converts the provider's events of one sequence into ours.

    Subclasses set `reason`, and `stop` if a stop string was hit, once the provider has said why the
    answer ended.
    """

    def __init__(self, request: GenerateRequest, index: int) -> None:
        self.id = request.id
        self.index = index
        self.usage: TokenUsage | None = None
        """The tokens counted so far."""
        self.ended = False
        """Whether `Finished` was among the events; nothing follows it."""
        self.reason: FinishReason | None = None
        self.stop: str | None = None
        self.chunks = 0
        self.calls: dict[int, int] = {}
        """Maps the provider's number of each tool call to ours, which counts from 0."""
        self._most_calls = MOST_CALLS if request.several_calls else 1

    @abstractmethod
    def feed(self, data: bytes) -> list[Event]:
        """Return the events in the data of one server-sent event; not called once `ended`.

        Raises `ProviderMisbehaved` and `ProviderRefused`.
        """

    def close(self) -> list[Event]:
        """Return `Finished` at the end of the answer, unless it was returned before.

        Without a token count, chunks of the answer stand in for tokens. Raises `ProviderMisbehaved`
        if the answer is incomplete.
        """
        if self.ended:
            return []
        if self.reason is None:
            raise ProviderMisbehaved("The provider's answer ended early.")
        self.ended = True
        usage = self.usage or TokenUsage(completion=self.chunks)
        finished = Finished(
            self.id,
            self.index,
            self.reason,
            usage.completion,
            reasoning_tokens=usage.reasoning,
            stop=self.stop,
            prompt_tokens=usage.prompt,
            cached_tokens=usage.cached,
        )
        return [finished]

    def text(self, text: str) -> Event:
        """Return text of the answer as an event."""
        return Delta(self.id, self.index, text, [])

    def reasoning(self, text: str) -> Event:
        """Return reasoning as an event."""
        return ReasoningDelta(self.id, self.index, text, [])

    def begin_call(self, number: int, call_id: str | None, name: str | None) -> list[Event]:
        """Return the start of a tool call, nothing for one too many if the request allows only one;
        raises `ProviderMisbehaved`.
        """
        if not name or number in self.calls or len(self.calls) >= MOST_CALLS:
            raise _nameless_call()
        self.calls[number] = call = len(self.calls)
        if call >= self._most_calls:
            return []
        call_id = call_id or f"call_{self.index}_{call}"
        return [ToolCallStarted(self.id, self.index, call, call_id, name, [])]

    def arguments(self, number: int, text: str) -> list[Event]:
        """Return arguments of a call that has begun, nothing if the call was left out; raises
        `ProviderMisbehaved`.
        """
        if number not in self.calls:
            raise _nameless_call()
        call = self.calls[number]
        if call >= self._most_calls:
            return []
        return [ToolCallDelta(self.id, self.index, call, text, [])]


class Wire(ABC):
    """A provider's protocol."""

    path: str
    """The path appended to the provider's address."""
    reader: type[AnswerReader]
    """Reads the answer."""

    def headers(self, key: str | None) -> list[tuple[str, str]]:
        """Return the authentication headers: a bearer token, if there is a key."""
        return [("authorization", f"Bearer {key}")] if key else []

    def body(self, provider: Provider, model: str, request: GenerateRequest, index: int) -> bytes:
        """Return the JSON body that requests sequence `index`; raises `CannotExpress`."""
        _check_expressible(provider, request)
        try:
            return msgspec.json.encode(self.fields(provider, model, request, index))
        except (UnicodeEncodeError, msgspec.MsgspecError, TypeError):
            raise CannotExpress("The request has text that is not valid Unicode.") from None

    @abstractmethod
    def fields(
        self, provider: Provider, model: str, request: GenerateRequest, index: int
    ) -> JsonObject:
        """Return the fields of the body; raises `CannotExpress`."""


class Failure(msgspec.Struct):
    """An error that a provider reports within a streamed answer."""

    message: str = ""


class UsageDetails(msgspec.Struct):
    """The details of a token count in OpenAI's protocols."""

    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


def counted(
    prompt: int, completion: int, read: UsageDetails | None, written: UsageDetails | None
) -> TokenUsage:
    """Return the token counts of one of OpenAI's protocols; raises as `plausible`."""
    return plausible(
        TokenUsage(
            prompt=prompt,
            completion=completion,
            cached=(read.cached_tokens or 0) if read else 0,
            reasoning=(written.reasoning_tokens or 0) if written else 0,
        )
    )


def plausible(usage: TokenUsage) -> TokenUsage:
    """Return the usage if its counts are plausible, since budgets depend on them.

    Raises `ProviderMisbehaved` for impossible counts.
    """
    numbers = (usage.prompt, usage.completion, usage.cached, usage.reasoning)
    if not all(0 <= number < 2**40 for number in numbers):
        raise ProviderMisbehaved("The provider counted an impossible number of tokens.")
    return usage


def _nameless_call() -> ProviderMisbehaved:
    return ProviderMisbehaved("The provider's answer calls a tool without a name.")


def decode(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """Decode the event's data; raises `ProviderMisbehaved`."""
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProviderMisbehaved(f"The provider's answer cannot be read: {error}.") from None


def _check_expressible(provider: Provider, request: GenerateRequest) -> None:
    """Raise `CannotExpress` for options that no provider's protocol has."""
    # Options that would change the answer if they were left out; others have little effect.
    lacking = {
        "raw prompts": request.messages is None,
        "continued answers": request.continues,
        "raw answers": request.raw,
        "log-probabilities": request.logprobs is not None or request.prompt_logprobs is not None,
        "logit_bias": bool(request.sampling.logit_bias),
        "ignore_eos": request.ignore_eos,
        "stop_token_ids": bool(request.stop_token_ids),
        "template variables": bool(request.template_variables),
        "prompts without an answer": request.max_tokens == 0,
        "grammars other than a JSON schema": request.grammar is not None
        and request.grammar.kind is not GrammarKind.JSON_SCHEMA,
        "JSON schemas": request.grammar is not None and not provider.json_schema,
    }
    for what, found in lacking.items():
        if found:
            raise CannotExpress(
                f"The provider '{provider.name}' takes no {what}.",
                hint="A model on this machine does.",
            )


def non_default_sampling(sampling: SamplingParams, *names: str) -> JsonObject:
    """Return the fields that differ from ingle's defaults; the provider's defaults apply to the
    rest.
    """
    defaults = SamplingParams()
    return {
        name: value
        for name in names
        if (value := getattr(sampling, name)) != getattr(defaults, name) and value is not None
    }


def parsed_schema(text: str) -> Any:
    """Return a JSON Schema as a value; raises `CannotExpress`."""
    try:
        return msgspec.json.decode(text.encode())
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise CannotExpress("A schema in the request is not JSON.") from None


def allowed_tools(request: GenerateRequest) -> list[Tool]:
    """Return the tools that may be called: no protocol here lists allowed names in the tool
    choice.
    """
    if request.tool_choice.mode == "none":
        return []
    names = request.tool_choice.names
    return [tool for tool in request.tools if not names or tool.name in names]


def tool_fields(
    request: GenerateRequest, model: str, describe: Callable[[Tool], JsonObject]
) -> JsonObject:
    """Return the fields of OpenAI's protocols about tools, each as `describe` returns it."""
    tools = allowed_tools(request)
    if not tools:
        return {}
    value: JsonObject = {"tools": [describe(tool) for tool in tools]}
    if request.tool_choice.mode == "required":
        value["tool_choice"] = "required"
    if not request.several_calls and not _ONE_CALL_MODELS.match(model):
        value["parallel_tool_calls"] = False
    return value


def named_schema(grammar: Grammar) -> JsonObject:
    """Return a JSON Schema as OpenAI's protocols name it; raises `CannotExpress`."""
    schema = parsed_schema(grammar.text)
    return {"name": "answer", "schema": schema, "strict": not grammar.lenient}
