"""Wire format of Anthropic's Messages API, https://docs.anthropic.com/en/api/messages."""

from __future__ import annotations

import msgspec

from ...base.conversation import ChatMessage
from ...base.events import Event, FinishReason
from ...base.requests import GenerateRequest
from ..errors import CannotExpress, ProviderRefused
from ..providers import Provider
from ..receipt import TokenUsage
from .wire_format import (
    AnswerReader,
    Failure,
    JsonObject,
    Wire,
    allowed_tools,
    decode,
    parsed_schema,
    plausible,
)

VERSION = "2023-06-01"
_LEAST_THINKING = 1024
_EFFORTS = frozenset({"low", "medium", "high", "xhigh", "max"})


def _turns(messages: list[ChatMessage]) -> list[JsonObject]:
    """Return messages with alternating user and assistant roles; tool results belong to users."""
    turns: list[JsonObject] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _blocks(message)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    if not turns or turns[0]["role"] != "user":
        raise CannotExpress("Anthropic's protocol wants a user's message first.")
    return turns


def _blocks(message: ChatMessage) -> list[JsonObject]:
    if message.role == "tool":
        return [
            {
                "type": "tool_result",
                "tool_use_id": message.tool_call_id or "",
                "content": message.content,
            }
        ]
    blocks: list[JsonObject] = []
    if message.content.strip():  # an empty text block is refused
        blocks.append({"type": "text", "text": message.content})
    for call in message.tool_calls:
        arguments = parsed_schema(call.arguments or "{}")
        if not isinstance(arguments, dict):
            raise CannotExpress("A call's arguments in the request are not a JSON object.")
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": arguments})
    return blocks


def _tools(request: GenerateRequest) -> JsonObject:
    tools = allowed_tools(request)
    if not tools:
        return {}
    value: JsonObject = {
        "tools": [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": parsed_schema(tool.parameters),
            }
            for tool in tools
        ]
    }
    one_by_one = not request.several_calls
    if one_by_one or request.tool_choice.mode == "required":
        choice: JsonObject = {"type": "any" if request.tool_choice.mode == "required" else "auto"}
        if one_by_one:
            choice["disable_parallel_tool_use"] = True
        value["tool_choice"] = choice
    return value


class _Block(msgspec.Struct):
    type: str = ""
    id: str | None = None
    name: str | None = None
    text: str | None = None


class _Delta(msgspec.Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class _Message(msgspec.Struct):
    usage: _Usage | None = None


class _Event(msgspec.Struct):
    type: str
    index: int = 0
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: _Usage | None = None
    error: Failure | None = None


_REASONS = {
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "tool_use": FinishReason.TOOL_CALLS,
}


_DECODER = msgspec.json.Decoder(_Event)


class _AnthropicReader(AnswerReader):
    """Reads events from `message_start` to `message_stop`."""

    def feed(self, data: bytes) -> list[Event]:
        """See `AnswerReader.feed`."""
        event = decode(_DECODER, data)
        match event.type:
            case "message_start":
                self._count(event.message.usage if event.message is not None else None)
            case "content_block_start" if event.content_block is not None:
                return self._begin(event.index, event.content_block)
            case "content_block_delta" if event.delta is not None:
                return self._piece(event.index, event.delta)
            case "message_delta":
                self._count(event.usage)
                if event.delta is not None and event.delta.stop_reason is not None:
                    self.reason = _REASONS.get(event.delta.stop_reason, FinishReason.STOP)
                    self.stop = event.delta.stop_sequence
            case "message_stop":
                return self.close()
            case "error":
                raise ProviderRefused((event.error or Failure()).message, status=200)
            case _:
                pass  # pings, ends of blocks, and later additions
        return []

    def _begin(self, number: int, block: _Block) -> list[Event]:
        if block.type == "text" and block.text:
            return [self.text(block.text)]
        if block.type != "tool_use":
            return []
        return self.begin_call(number, block.id, block.name)

    def _piece(self, number: int, delta: _Delta) -> list[Event]:
        self.chunks += 1
        match delta.type:
            case "text_delta":
                return [self.text(delta.text or "")]
            case "thinking_delta":
                return [self.reasoning(delta.thinking or "")]
            case "input_json_delta":
                return self.arguments(number, delta.partial_json or "")
            case _:
                return []  # signatures, citations

    def _count(self, usage: _Usage | None) -> None:
        """Update the usage; counts at the end replace those at the start."""
        if usage is None:
            return
        before = self.usage or TokenUsage()
        cached = usage.cache_read_input_tokens
        prompt = before.prompt
        if usage.input_tokens is not None:
            prompt = usage.input_tokens + (cached or 0) + (usage.cache_creation_input_tokens or 0)
        self.usage = plausible(
            TokenUsage(
                prompt=prompt,
                completion=before.completion
                if usage.output_tokens is None
                else usage.output_tokens,
                cached=before.cached if cached is None else cached,
            )
        )


class AnthropicWire(Wire):
    """`POST /messages`, which no longer accepts temperature and similar sampling fields."""

    path = "/messages"
    reader = _AnthropicReader

    def headers(self, key: str | None) -> list[tuple[str, str]]:
        """Return the headers with the API key and the protocol version."""
        key_header = [("x-api-key", key)] if key else []
        return [*key_header, ("anthropic-version", VERSION)]

    def fields(
        self, provider: Provider, model: str, request: GenerateRequest, index: int
    ) -> JsonObject:
        """See `Wire.fields`."""
        messages = request.messages or []
        system = [message.content for message in messages if message.role == "system"]
        limit = request.max_tokens or provider.max_tokens
        body: JsonObject = {
            "model": model,
            "messages": _turns([message for message in messages if message.role != "system"]),
            "max_tokens": limit,
            "stream": True,
        }
        if system:
            body["system"] = "\n\n".join(system)
        if request.stop:
            body["stop_sequences"] = request.stop
        if request.reasoning.enabled and limit > _LEAST_THINKING:
            budget = max(_LEAST_THINKING, request.reasoning.budget or limit // 2)
            body["thinking"] = {"type": "enabled", "budget_tokens": min(budget, limit - 1)}
        body |= _tools(request)
        if request.grammar is not None:
            schema = {"type": "json_schema", "schema": parsed_schema(request.grammar.text)}
            body["output_config"] = {"format": schema}
        if request.reasoning.effort in _EFFORTS:
            body.setdefault("output_config", {})["effort"] = request.reasoning.effort
        return body
