"""Wire format of OpenAI's Responses API, https://platform.openai.com/docs/api-reference/responses."""

from __future__ import annotations

import msgspec

from ...base.conversation import ChatMessage
from ...base.events import (
    Delta,
    Event,
    FinishReason,
    ReasoningDelta,
    ToolCallDelta,
    ToolCallStarted,
)
from ...base.requests import GenerateRequest
from ..errors import CannotExpress, ProviderMisbehaved, ProviderRefused
from ..providers import Provider
from ..receipt import TokenUsage
from .openai_wire import allowed_tools, plausible
from .wire_format import (
    MOST_CALLS,
    AnswerEnding,
    JsonObject,
    answer_limit,
    check_expressible,
    decode,
    encoded,
    non_default_sampling,
    parsed_schema,
)


class ResponsesWire:
    """`POST /responses`, with storage at the provider turned off."""

    path = "/responses"

    def headers(self, key: str | None) -> list[tuple[str, str]]:
        """Return a bearer token, if there is a key."""
        return [("authorization", f"Bearer {key}")] if key else []

    def body(self, provider: Provider, model: str, request: GenerateRequest, index: int) -> bytes:
        """See `Wire.body`."""
        check_expressible(provider, request)
        if request.stop:
            raise CannotExpress(f"The provider '{provider.name}' takes no stop strings.")
        body: JsonObject = {
            "model": model,
            "input": [item for message in request.messages or [] for item in _items(message)],
            "stream": True,
            "store": False,
            "max_output_tokens": answer_limit(provider, request),
            **non_default_sampling(request.sampling, "temperature", "top_p"),
        }
        if request.reasoning.effort is not None:
            body["reasoning"] = {"effort": request.reasoning.effort, "summary": "auto"}
        body |= _tools(request)
        if request.grammar is not None:
            body["text"] = {
                "format": {
                    "type": "json_schema",
                    "name": "answer",
                    "schema": parsed_schema(request.grammar.text),
                    "strict": not request.grammar.lenient,
                }
            }
        return encoded(body)

    def reader(self, request: GenerateRequest, index: int) -> ResponsesReader:
        """See `Wire.reader`."""
        return ResponsesReader(request, index)


def _items(message: ChatMessage) -> list[JsonObject]:
    """Return one message as items; earlier reasoning is left out."""
    if message.role == "tool":
        return [
            {
                "type": "function_call_output",
                "call_id": message.tool_call_id or "",
                "output": message.content,
            }
        ]
    items: list[JsonObject] = []
    if message.content or not message.tool_calls:
        items.append({"type": "message", "role": message.role, "content": message.content})
    items += [
        {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }
        for call in message.tool_calls
    ]
    return items


def _tools(request: GenerateRequest) -> JsonObject:
    tools = allowed_tools(request)
    if not tools:
        return {}
    value: JsonObject = {
        "tools": [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": parsed_schema(tool.parameters),
                "strict": tool.strict,
            }
            for tool in tools
        ]
    }
    if request.tool_choice.mode == "required":
        value["tool_choice"] = "required"
    if not request.parallel_tool_calls:
        value["parallel_tool_calls"] = False
    return value


class _Item(msgspec.Struct):
    type: str = ""
    call_id: str | None = None
    name: str | None = None


class _CachedDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _ReasoningDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_details: _CachedDetails | None = None
    output_tokens_details: _ReasoningDetails | None = None


class _Failure(msgspec.Struct):
    message: str | None = None
    reason: str | None = None


class _Response(msgspec.Struct):
    usage: _Usage | None = None
    error: _Failure | None = None
    incomplete_details: _Failure | None = None


class _Event(msgspec.Struct):
    type: str
    delta: str | None = None
    output_index: int = 0
    item: _Item | None = None
    response: _Response | None = None
    message: str | None = None
    error: _Failure | None = None


class ResponsesReader(AnswerEnding):
    """Reads `response.*` events until the one that ends the response."""

    def __init__(self, request: GenerateRequest, index: int) -> None:
        super().__init__(request, index)
        self._decoder = msgspec.json.Decoder(_Event)
        self._calls: dict[int, int] = {}

    def feed(self, name: str, data: bytes) -> list[Event]:
        """See `AnswerReader.feed`."""
        if self.ended or data.strip() == b"[DONE]":
            return []
        event = decode(self._decoder, data)
        match event.type:
            case "response.output_text.delta" | "response.refusal.delta":
                return self._piece(Delta(self.id, self.index, event.delta or "", []))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._piece(ReasoningDelta(self.id, self.index, event.delta or "", []))
            case "response.output_item.added" if event.item is not None:
                return self._begin(event.output_index, event.item)
            case "response.function_call_arguments.delta":
                call = self._calls.get(event.output_index)
                if call is None:
                    raise ProviderMisbehaved("The provider's answer calls a tool without a name.")
                return self._piece(ToolCallDelta(self.id, self.index, call, event.delta or "", []))
            case "response.completed" | "response.incomplete":
                return self._over(event)
            case "response.failed" | "error":
                raise ProviderRefused(_reason(event), status=200)
            case _:
                return []  # a repetition of the whole, or later additions

    def close(self) -> list[Event]:
        """See `AnswerReader.close`."""
        if not self.ended:
            raise ProviderMisbehaved("The provider's answer ended early.")
        return []

    def _piece(self, event: Delta | ReasoningDelta | ToolCallDelta) -> list[Event]:
        self.chunks += 1
        return [event]

    def _begin(self, number: int, item: _Item) -> list[Event]:
        if item.type != "function_call":
            return []
        if not item.name or number in self._calls or len(self._calls) >= MOST_CALLS:
            raise ProviderMisbehaved("The provider's answer calls a tool without a name.")
        self._calls[number] = call = len(self._calls)
        call_id = item.call_id or f"call_{self.index}_{call}"
        return [ToolCallStarted(self.id, self.index, call, call_id, item.name, [])]

    def _over(self, event: _Event) -> list[Event]:
        response = event.response or _Response()
        if response.usage is not None:
            self.usage = _counted(response.usage)
        if self._calls:
            return [self.finished(FinishReason.TOOL_CALLS)]
        cut = response.incomplete_details is not None and (
            response.incomplete_details.reason == "max_output_tokens"
        )
        return [self.finished(FinishReason.LENGTH if cut else FinishReason.STOP)]


def _reason(event: _Event) -> str:
    failure = event.error or (event.response.error if event.response is not None else None)
    return (failure.message if failure is not None else None) or event.message or ""


def _counted(usage: _Usage) -> TokenUsage:
    read, written = usage.input_tokens_details, usage.output_tokens_details
    return plausible(
        TokenUsage(
            prompt=usage.input_tokens,
            completion=usage.output_tokens,
            cached=(read.cached_tokens or 0) if read else 0,
            reasoning=(written.reasoning_tokens or 0) if written else 0,
        )
    )
