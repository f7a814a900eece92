"""The interface of a provider's protocol: encode a request, decode the answer."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import msgspec

from ...base.events import Event, Finished, FinishReason
from ...base.requests import GenerateRequest
from ...base.sampling_params import GrammarKind, SamplingParams
from ..errors import CannotExpress, ProviderMisbehaved
from ..providers import Provider
from ..receipt import TokenUsage

MOST_CALLS = 256
"""Most tool calls in one answer."""

LARGEST_ANSWER = 64 * 2**20
"""Most bytes of one answer's body."""

JsonObject = dict[str, Any]
T = TypeVar("T")


class AnswerReader(Protocol):
    """Converts the provider's events of one sequence into ours."""

    @property
    def usage(self) -> TokenUsage | None:
        """Return the tokens counted so far."""
        ...

    @property
    def ended(self) -> bool:
        """Return whether `Finished` was among the events; nothing follows it."""
        ...

    def feed(self, name: str, data: bytes) -> list[Event]:
        """Return the events in one server-sent event.

        Raises `ProviderMisbehaved` and `ProviderRefused`.
        """
        ...

    def close(self) -> list[Event]:
        """Return the events at the end of the body.

        Raises `ProviderMisbehaved` if it came too early.
        """
        ...


class Wire(Protocol):
    """A provider's protocol."""

    path: str
    """The path appended to the provider's address."""

    def headers(self, key: str | None) -> list[tuple[str, str]]:
        """Return the authentication headers."""
        ...

    def body(self, provider: Provider, model: str, request: GenerateRequest, index: int) -> bytes:
        """Return the JSON body that requests sequence `index`; raises `CannotExpress`."""
        ...

    def reader(self, request: GenerateRequest, index: int) -> AnswerReader:
        """Return a reader of the answer."""
        ...


class AnswerEnding:
    """What all readers share: the state of their sequence's end."""

    def __init__(self, request: GenerateRequest, index: int) -> None:
        self.id = request.id
        self.index = index
        self.usage: TokenUsage | None = None
        self.ended = False
        self.chunks = 0

    def finished(self, reason: FinishReason, stop: str | None = None) -> Finished:
        """Return the last event; without a token count, chunks of the answer stand in for
        tokens.
        """
        self.ended = True
        usage = self.usage
        return Finished(
            self.id,
            self.index,
            reason,
            usage.completion if usage is not None else self.chunks,
            reasoning_tokens=usage.reasoning if usage is not None else 0,
            stop=stop,
            prompt_tokens=usage.prompt if usage is not None else 0,
            cached_tokens=usage.cached if usage is not None else 0,
        )


def decode(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """Decode the event's data; raises `ProviderMisbehaved`."""
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProviderMisbehaved(f"The provider's answer cannot be read: {error}.") from None


def check_expressible(provider: Provider, request: GenerateRequest) -> None:
    """Raise `CannotExpress` for options that no provider's protocol has."""
    # Options whose omission would change the answer; others that clouds lack only shade it.
    lacking = {
        "raw prompts": request.messages is None,
        "continued answers": request.continues,
        "raw answers": request.raw,
        "log-probabilities": request.logprobs is not None,
        "logit_bias": bool(request.sampling.logit_bias),
        "ignore_eos": request.ignore_eos,
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


def answer_limit(provider: Provider, request: GenerateRequest) -> int:
    """Return the most tokens of one sequence."""
    return request.max_tokens or provider.max_tokens


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


def encoded(body: JsonObject) -> bytes:
    """Return the body as JSON; raises `CannotExpress` for text that is not valid Unicode."""
    try:
        return msgspec.json.encode(body)
    except (UnicodeEncodeError, msgspec.MsgspecError, TypeError):
        raise CannotExpress("The request has text that is not valid Unicode.") from None
