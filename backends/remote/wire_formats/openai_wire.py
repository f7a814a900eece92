"""Wire format of OpenAI's chat completions, which most clouds and local servers support.

https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import msgspec

from ...base.conversation import ChatMessage, Tool
from ...base.events import Event, FinishReason
from ...base.requests import GenerateRequest
from ..errors import CannotExpress, ProviderRefused
from ..providers import Provider
from .wire_format import (
    AnswerReader,
    Failure,
    JsonObject,
    UsageDetails,
    Wire,
    counted,
    decode,
    named_schema,
    non_default_sampling,
    parsed_schema,
    tool_fields,
)

_MOST_STOPS = 4


def _message(message: ChatMessage) -> JsonObject:
    """Return one message; earlier reasoning is left out, since the protocol has no field for it."""
    value: JsonObject = {"role": message.role, "content": message.content}
    if message.name and message.role != "tool":
        value["name"] = message.name
    if message.tool_calls:
        value["content"] = message.content or None
        value["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
    if message.role == "tool":
        value["tool_call_id"] = message.tool_call_id or ""
    return value


def _tool(tool: Tool) -> JsonObject:
    function: JsonObject = {"name": tool.name, "parameters": parsed_schema(tool.parameters)}
    if tool.description:
        function["description"] = tool.description
    if tool.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Message(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    delta: _Message | None = None
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: UsageDetails | None = None
    completion_tokens_details: UsageDetails | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Failure | str | None = None


_REASONS = {
    "length": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
}


_DECODER = msgspec.json.Decoder(_Chunk)


class _OpenAIReader(AnswerReader):
    """Reads `chat.completion.chunk` events until `[DONE]`."""

    def feed(self, data: bytes) -> list[Event]:
        """See `AnswerReader.feed`."""
        if data.strip() == b"[DONE]":
            return self.close()
        chunk = decode(_DECODER, data)
        if chunk.error is not None:
            error = chunk.error
            raise ProviderRefused(error if isinstance(error, str) else error.message, status=200)
        if chunk.usage is not None:
            usage = chunk.usage
            details = usage.prompt_tokens_details, usage.completion_tokens_details
            self.usage = counted(usage.prompt_tokens, usage.completion_tokens, *details)
        events: list[Event] = []
        for choice in (chunk.choices or [])[:1]:
            if choice.delta is not None and self.reason is None:
                events += self._take(choice.delta)
            if choice.finish_reason:
                other = FinishReason.TOOL_CALLS if self.calls else FinishReason.STOP
                self.reason = _REASONS.get(choice.finish_reason, other)
        return events

    def _take(self, message: _Message) -> list[Event]:
        events: list[Event] = []
        if thought := message.reasoning_content or message.reasoning:
            events.append(self.reasoning(thought))
        if text := message.content or message.refusal:
            events.append(self.text(text))
        for call in message.tool_calls or []:
            events += self._take_call(call)
        self.chunks += bool(events)
        return events

    def _take_call(self, call: _Call) -> list[Event]:
        events: list[Event] = []
        number = call.index if call.index is not None else max(self.calls, default=-1)
        if call.index is None and call.id:
            number += 1  # a server without indices sends each call whole
        function = call.function or _Function()
        if number not in self.calls:
            events += self.begin_call(number, call.id, function.name)
        if function.arguments:
            events += self.arguments(number, function.arguments)
        return events


class OpenAIWire(Wire):
    """`POST /chat/completions`."""

    path = "/chat/completions"
    reader = _OpenAIReader

    def fields(
        self, provider: Provider, model: str, request: GenerateRequest, index: int
    ) -> JsonObject:
        """See `Wire.fields`."""
        body: JsonObject = {
            "model": model,
            "messages": [_message(message) for message in request.messages or []],
            "stream": True,
            "stream_options": {"include_usage": True},
            provider.max_tokens_field: request.max_tokens or provider.max_tokens,
            **self._sampling(provider, request, index),
        }
        if request.stop:
            if len(request.stop) > _MOST_STOPS and not provider.own:
                raise CannotExpress(f"'{provider.name}' takes {_MOST_STOPS} stop strings at most.")
            body["stop"] = request.stop
        if request.reasoning.effort is not None:
            body["reasoning_effort"] = request.reasoning.effort
        body |= tool_fields(request, model, _tool)
        if request.grammar is not None:
            schema = named_schema(request.grammar)
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body

    def _sampling(self, provider: Provider, request: GenerateRequest, index: int) -> JsonObject:
        sampling = request.sampling
        names = ["temperature", "top_p", "frequency_penalty", "presence_penalty"]
        if provider.extra_sampling:
            names += ["top_k", "min_p"]
        fields = non_default_sampling(sampling, *names)
        if provider.extra_sampling and sampling.repeat_penalty != 1.0:
            fields["repetition_penalty"] = sampling.repeat_penalty
        if sampling.seed is not None:
            fields["seed"] = sampling.seed + index
        return fields
