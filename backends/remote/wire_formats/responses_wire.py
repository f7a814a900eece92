"""Wire format of OpenAI's Responses API, https://platform.openai.com/docs/api-reference/responses."""

from __future__ import annotations

import msgspec

from ...base.conversation import ChatMessage, Tool
from ...base.events import Event, FinishReason
from ...base.requests import GenerateRequest
from ..errors import CannotExpress, ProviderRefused
from ..providers import Provider
from .wire_format import (
    AnswerReader,
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


def _tool(tool: Tool) -> JsonObject:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": parsed_schema(tool.parameters),
        "strict": tool.strict,
    }


class _Item(msgspec.Struct):
    type: str = ""
    call_id: str | None = None
    name: str | None = None


class _Usage(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_details: UsageDetails | None = None
    output_tokens_details: UsageDetails | None = None


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


_DECODER = msgspec.json.Decoder(_Event)


class _ResponsesReader(AnswerReader):
    """Reads `response.*` events until the one that ends the response."""

    def feed(self, data: bytes) -> list[Event]:
        """See `AnswerReader.feed`."""
        if data.strip() == b"[DONE]":
            return []
        event = decode(_DECODER, data)
        text = event.delta or ""
        match event.type:
            case "response.output_text.delta" | "response.refusal.delta":
                return self._piece(self.text(text))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._piece(self.reasoning(text))
            case "response.output_item.added" if event.item is not None:
                item = event.item
                if item.type != "function_call":
                    return []
                return self.begin_call(event.output_index, item.call_id, item.name)
            case "response.function_call_arguments.delta":
                return self._piece(*self.arguments(event.output_index, text))
            case "response.completed" | "response.incomplete":
                self._end(event.response or _Response())
                return self.close()
            case "response.failed" | "error":
                raise ProviderRefused(_reason(event), status=200)
            case _:
                return []  # a repetition of the whole, or later additions

    def _piece(self, *events: Event) -> list[Event]:
        self.chunks += 1
        return [*events]

    def _end(self, response: _Response) -> None:
        """Note the token counts and why the answer ended."""
        if response.usage is not None:
            usage = response.usage
            details = usage.input_tokens_details, usage.output_tokens_details
            self.usage = counted(usage.input_tokens, usage.output_tokens, *details)
        incomplete = response.incomplete_details
        if self.calls:
            self.reason = FinishReason.TOOL_CALLS
        elif incomplete is not None and incomplete.reason == "max_output_tokens":
            self.reason = FinishReason.LENGTH
        else:
            self.reason = FinishReason.STOP


def _reason(event: _Event) -> str:
    failure = event.error or (event.response.error if event.response is not None else None)
    return (failure.message if failure is not None else None) or event.message or ""


class ResponsesWire(Wire):
    """`POST /responses`, with storage at the provider turned off."""

    path = "/responses"
    reader = _ResponsesReader

    def fields(
        self, provider: Provider, model: str, request: GenerateRequest, index: int
    ) -> JsonObject:
        """See `Wire.fields`."""
        if request.stop:
            raise CannotExpress(f"The provider '{provider.name}' takes no stop strings.")
        body: JsonObject = {
            "model": model,
            "input": [item for message in request.messages or [] for item in _items(message)],
            "stream": True,
            "store": False,
            "max_output_tokens": request.max_tokens or provider.max_tokens,
            **non_default_sampling(request.sampling, "temperature", "top_p"),
        }
        if request.reasoning.effort is not None:
            body["reasoning"] = {"effort": request.reasoning.effort, "summary": "auto"}
        body |= tool_fields(request, model, _tool)
        if request.grammar is not None:
            schema = named_schema(request.grammar)
            body["text"] = {"format": {"type": "json_schema", **schema}}
        return body
