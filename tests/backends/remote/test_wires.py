"""Requests validate against the providers' own SDK types, and their responses are parsed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec import structs

from ingle.backends.base.conversation import ChatMessage, Reasoning, Tool, ToolCall, ToolChoice
from ingle.backends.base.events import FinishReason
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import Grammar, GrammarKind, SamplingParams
from ingle.backends.remote.errors import CannotExpress, ProviderMisbehaved, ProviderRefused
from ingle.backends.remote.receipt import TokenUsage
from ingle.backends.remote.wire_formats.openai_wire import OpenAIWire
from ingle.backends.remote.wire_formats.responses_wire import ResponsesWire
from ingle.backends.remote.wire_formats.wire_format import Wire

pytestmark = pytest.mark.quick

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from .conftest import ProviderClient, Sink

SCHEMA = '{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}'
FULL = GenerateRequest(
    id="r-1",
    messages=[
        ChatMessage("system", "Be brief."),
        ChatMessage("user", "Weather in Paris and Rome?"),
        ChatMessage(
            "assistant",
            "I look.",
            reasoning="Two cities.",
            tool_calls=[
                ToolCall("c1", "weather", '{"city":"Paris"}'),
                ToolCall("c2", "weather", '{"city":"Rome"}'),
            ],
        ),
        ChatMessage("tool", "sunny", tool_call_id="c1", name="weather"),
        ChatMessage("tool", "rain", tool_call_id="c2", name="weather"),
        ChatMessage("user", "And tomorrow?"),
    ],
    tools=[Tool("weather", "Tells the weather.", SCHEMA, strict=True), Tool("other")],
    tool_choice=ToolChoice("required", ["weather"]),
    parallel_tool_calls=False,
    reasoning=Reasoning(enabled=True, effort="low", budget=2000),
    sampling=SamplingParams(temperature=0.3, top_p=0.5, top_k=7, min_p=0.2, seed=4),
    max_tokens=5000,
    client="somebody",
    conversation="tax 2026",
)
PATHS = {"openai": "chat/completions", "responses": "responses", "anthropic": "messages"}

DONE: dict[str, list[dict[str, Any]]] = {
    "openai": [{"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}],
    "responses": [{"type": "response.completed", "response": {}}],
    "anthropic": [
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ],
}


@pytest.fixture(scope="module")
def adapters() -> dict[str, TypeAdapter[Any]]:
    """Validators of the SDKs' request types, imported here because that takes seconds."""
    from anthropic.types import MessageCreateParams
    from openai.types.chat import CompletionCreateParams
    from openai.types.responses import ResponseCreateParams
    from pydantic import TypeAdapter

    return {
        "openai": TypeAdapter(CompletionCreateParams),
        "responses": TypeAdapter(ResponseCreateParams),
        "anthropic": TypeAdapter(MessageCreateParams),
    }


def events(*values: object) -> bytes:
    return b"".join(b"data: " + msgspec.json.encode(value) + b"\n\n" for value in values)


async def sent_body(
    provider_client: ProviderClient, sink: Sink, request: GenerateRequest, kind: str, **fields: Any
) -> Any:
    """Send the request; returns the JSON body received by the sink."""
    sink.always(events(*DONE[kind]))
    await provider_client.send(request, kind, **fields)
    return sink.connections[-1].body


@pytest.mark.parametrize("kind", PATHS)
async def test_request_validates_against_the_sdk_types(
    provider_client: ProviderClient, sink: Sink, adapters: dict[str, TypeAdapter[Any]], kind: str
) -> None:
    request = FULL if kind == "responses" else structs.replace(FULL, stop=["END"])
    body = await sent_body(provider_client, sink, request, kind)
    checked = adapters[kind].validate_python(body)
    assert json.loads(adapters[kind].dump_json(checked, warnings="error")).keys() == body.keys()
    assert sink.connections[0].head[0] == f"POST /v1/{PATHS[kind]} HTTP/1.1"
    text = json.dumps(body)
    for inner in ("somebody", "tax 2026", "Two cities", "r-1", "other"):
        assert inner not in text
    for outer in ("Be brief.", "Paris", "sunny", "rain", "tomorrow", "Tells the weather."):
        assert outer in text


async def test_openai_request_fields(provider_client: ProviderClient, sink: Sink) -> None:
    body = await sent_body(provider_client, sink, FULL, "openai", extra_sampling=True)
    assert [message["role"] for message in body["messages"]] == [
        *("system", "user", "assistant", "tool", "tool", "user")
    ]
    assert body["max_tokens"] == 5000
    assert (body["temperature"], body["top_p"], body["top_k"], body["min_p"], body["seed"]) == (
        *(0.3, 0.5, 7, 0.2, 4),
    )
    assert body["tool_choice"] == "required"
    assert [tool["function"]["name"] for tool in body["tools"]] == ["weather"]
    assert body["stream_options"] == {"include_usage": True}
    body = await sent_body(
        provider_client, sink, FULL, "openai", max_tokens_field="max_completion_tokens"
    )
    assert body["max_completion_tokens"] == 5000
    assert "max_tokens" not in body
    assert "top_k" not in body


async def test_responses_request_fields(provider_client: ProviderClient, sink: Sink) -> None:
    body = await sent_body(provider_client, sink, FULL, "responses")
    assert body["store"] is False
    assert [item["type"] for item in body["input"]] == [
        *("message", "message", "message", "function_call", "function_call"),
        *("function_call_output", "function_call_output", "message"),
    ]


async def test_anthropic_request_fields(provider_client: ProviderClient, sink: Sink) -> None:
    body = await sent_body(provider_client, sink, FULL, "anthropic")
    assert body["system"] == "Be brief."
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert [block["type"] for block in body["messages"][2]["content"]] == [
        *("tool_result", "tool_result", "text")
    ]
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    headers = [line.lower() for line in sink.connections[0].head]
    assert "x-api-key: sk-test-8f2b1c" in headers
    assert "anthropic-version: 2023-06-01" in headers


@pytest.mark.parametrize("kind", PATHS)
async def test_json_schema_is_sent(
    provider_client: ProviderClient, sink: Sink, adapters: dict[str, TypeAdapter[Any]], kind: str
) -> None:
    request = GenerateRequest(
        id="r",
        messages=[ChatMessage("user", "Where?")],
        grammar=Grammar(GrammarKind.JSON_SCHEMA, SCHEMA),
    )
    body = await sent_body(provider_client, sink, request, kind)
    adapters[kind].validate_python(body)
    assert '"city"' in json.dumps(body)
    with pytest.raises(CannotExpress):
        await sent_body(provider_client, sink, request, kind, json_schema=False)


UNSUPPORTED: dict[str, dict[str, Any]] = {
    "a raw prompt": {"messages": None, "prompt": "x"},
    "tokens": {"messages": None, "prompt": [1, 2]},
    "a continued answer": {"continues": True},
    "log-probabilities": {"logprobs": 0},
    "biases": {"sampling": SamplingParams(logit_bias={1: 1.0})},
    "stop tokens": {"stop_token_ids": [1]},
    "a regex": {"grammar": Grammar(GrammarKind.REGEX, "a*")},
    "nothing to write": {"max_tokens": 0},
    "a lone surrogate": {"messages": [ChatMessage("user", "\ud800")]},
    "a schema that is no JSON": {"tools": [Tool("f", "", "{")]},
    "variables of a template": {"template_variables": {"a": 1}},
}


@pytest.mark.parametrize("kind", PATHS)
@pytest.mark.parametrize("feature", UNSUPPORTED)
async def test_unsupported_request_is_not_sent(
    provider_client: ProviderClient, sink: Sink, kind: str, feature: str
) -> None:
    request = structs.replace(
        GenerateRequest(id="r", messages=[ChatMessage("user", "x")]), **UNSUPPORTED[feature]
    )
    with pytest.raises(CannotExpress):
        await sent_body(provider_client, sink, request, kind)
    assert sink.connections == []


async def test_unsupported_stop_strings_are_rejected(
    provider_client: ProviderClient, sink: Sink
) -> None:
    request = GenerateRequest(id="r", messages=[ChatMessage("user", "x")], stop=list("abcde"))
    with pytest.raises(CannotExpress):
        await sent_body(provider_client, sink, request, "openai", own=False)
    with pytest.raises(CannotExpress):
        await sent_body(provider_client, sink, request, "responses")
    assert len((await sent_body(provider_client, sink, request, "openai"))["stop"]) == 5


async def test_openai_tool_calls_and_reasoning(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest
) -> None:
    def call(index: int, **fields: Any) -> object:
        return sink.chunk(tool_calls=[{"index": index, **fields}])

    sink.always(
        sink.sse(
            sink.chunk(reasoning_content="Hm. "),
            sink.chunk(reasoning="So."),
            call(0, id="c1", function={"name": "weather", "arguments": ""}),
            call(0, function={"arguments": '{"city":'}),
            call(0, function={"arguments": '"Rome"}'}),
            call(1, id="c2", function={"name": "other", "arguments": "{}"}),
            sink.chunk(finish="tool_calls"),
            {
                "choices": [],
                "usage": {
                    "prompt_tokens": 9,
                    "completion_tokens": 8,
                    "prompt_tokens_details": {"cached_tokens": 4},
                    "completion_tokens_details": {"reasoning_tokens": 3},
                },
            },
        )
    )
    exchange = await provider_client.send(chat_request)
    assert exchange.reasoning == "Hm. So."
    assert exchange.calls == [("c1", "weather", '{"city":"Rome"}'), ("c2", "other", "{}")]
    assert exchange.ends[0].reason is FinishReason.TOOL_CALLS
    assert exchange.receipt.usage == TokenUsage(prompt=9, completion=8, cached=4, reasoning=3)


def two_calls(kind: str) -> list[dict[str, Any]]:
    """The events of an answer with two calls, as a provider sends them that allows several."""
    calls = [("c1", "weather"), ("c2", "other")]
    found: list[dict[str, Any]] = []
    for number, (name, tool) in enumerate(calls):
        if kind == "openai":
            function = {"name": tool, "arguments": "{}"}
            delta = {"tool_calls": [{"index": number, "id": name, "function": function}]}
            found.append({"choices": [{"delta": delta}]})
        elif kind == "responses":
            item = {"type": "function_call", "call_id": name, "name": tool}
            place = {"output_index": number}
            found += [
                {"type": "response.output_item.added", "item": item, **place},
                {"type": "response.function_call_arguments.delta", "delta": "{}", **place},
            ]
        else:
            block = {"type": "tool_use", "id": name, "name": tool}
            delta = {"type": "input_json_delta", "partial_json": "{}"}
            found += [
                {"type": "content_block_start", "index": number, "content_block": block},
                {"type": "content_block_delta", "index": number, "delta": delta},
            ]
    return found + DONE[kind]


@pytest.mark.parametrize("kind", PATHS)
async def test_one_call_is_asked_for_and_returned(
    provider_client: ProviderClient, sink: Sink, kind: str
) -> None:
    request = structs.replace(
        FULL, tools=[Tool("weather"), Tool("other")], tool_choice=ToolChoice()
    )
    named = structs.replace(
        request, parallel_tool_calls=True, tool_choice=ToolChoice("required", ["weather"])
    )
    sink.always(events(*two_calls(kind)))
    for one in (request, named):
        exchange = await provider_client.send(one, kind)
        assert exchange.calls == [("c1", "weather", "{}")]
        body: Any = sink.connections[-1].body
        if kind == "anthropic":
            assert body["tool_choice"]["disable_parallel_tool_use"] is True
            assert "parallel_tool_calls" not in body
        else:
            assert body["parallel_tool_calls"] is False
    several = structs.replace(request, parallel_tool_calls=True)
    exchange = await provider_client.send(several, kind)
    assert len(exchange.calls) == 2
    assert not {"parallel_tool_calls", "tool_choice"} & sink.connections[-1].body.keys()


@pytest.mark.parametrize("wire", [OpenAIWire(), ResponsesWire()])
@pytest.mark.parametrize(
    ("model", "says"), [("o4-mini", False), ("openai/o3", False), ("olmo", True)]
)
def test_models_that_refuse_the_field_do_not_get_it(
    provider_client: ProviderClient, wire: Wire, model: str, says: bool
) -> None:
    fields = wire.fields(provider_client.provider("openai"), model, FULL, 0)
    assert ("parallel_tool_calls" in fields) is says


async def test_openai_length_finish_without_usage(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest
) -> None:
    sink.always(sink.sse(sink.chunk("a"), sink.chunk("b", "length"), done=False))
    exchange = await provider_client.send(chat_request)
    assert (exchange.ends[0].reason, exchange.ends[0].completion_tokens) == (FinishReason.LENGTH, 2)
    assert exchange.receipt.usage is None


RESPONSE: list[dict[str, Any]] = [
    {"type": "response.created", "response": {"id": "resp_1"}},
    {"type": "response.reasoning_summary_text.delta", "delta": "Hm."},
    {"type": "response.output_item.added", "output_index": 1, "item": {"type": "message"}},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "I look."},
    {
        "type": "response.output_item.added",
        "output_index": 2,
        "item": {"type": "function_call", "call_id": "c1", "name": "weather"},
    },
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"city":'},
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '"Rome"}'},
    {"type": "response.function_call_arguments.done", "output_index": 2, "arguments": "{}"},
    {
        "type": "response.completed",
        "response": {
            "usage": {
                "input_tokens": 9,
                "output_tokens": 8,
                "input_tokens_details": {"cached_tokens": 4},
                "output_tokens_details": {"reasoning_tokens": 3},
            }
        },
    },
]


async def test_responses_stream_is_parsed(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest
) -> None:
    sink.always(events(*RESPONSE))
    exchange = await provider_client.send(chat_request, "responses")
    assert (exchange.text(), exchange.reasoning) == ("I look.", "Hm.")
    assert exchange.calls == [("c1", "weather", '{"city":"Rome"}')]
    assert exchange.ends[0].reason is FinishReason.TOOL_CALLS
    assert exchange.receipt.usage == TokenUsage(prompt=9, completion=8, cached=4, reasoning=3)


MESSAGE: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}},
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "thinking_delta", "thinking": "Hm."},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "signature_delta", "signature": "x"},
    },
    {"type": "ping"},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "text_delta", "text": "I look."},
    },
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "c1", "name": "weather", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 2,
        "delta": {"type": "input_json_delta", "partial_json": '{"city":"Rome"}'},
    },
    {"type": "content_block_stop", "index": 2},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use"},
        "usage": {"output_tokens": 8, "cache_read_input_tokens": 4, "input_tokens": 5},
    },
    {"type": "message_stop"},
]


async def test_anthropic_stream_is_parsed(
    provider_client: ProviderClient, sink: Sink, chat_request: GenerateRequest
) -> None:
    sink.always(events(*MESSAGE))
    exchange = await provider_client.send(chat_request, "anthropic")
    assert (exchange.text(), exchange.reasoning) == ("I look.", "Hm.")
    assert exchange.calls == [("c1", "weather", '{"city":"Rome"}')]
    assert exchange.ends[0].reason is FinishReason.TOOL_CALLS
    assert exchange.receipt.usage == TokenUsage(prompt=9, completion=8, cached=4)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("responses", {"type": "response.failed", "response": {"error": {"message": "no luck"}}}),
        ("responses", {"type": "error", "message": "no luck"}),
        ("anthropic", {"type": "error", "error": {"type": "x", "message": "no luck"}}),
        ("openai", {"error": "no luck"}),
    ],
)
async def test_errors_of_each_protocol(
    provider_client: ProviderClient,
    sink: Sink,
    chat_request: GenerateRequest,
    kind: str,
    value: object,
) -> None:
    sink.always(events(value))
    with pytest.raises(ProviderRefused, match="no luck"):
        await provider_client.send(chat_request, kind)


@pytest.mark.parametrize(
    ("kind", "values"),
    [("responses", RESPONSE), ("anthropic", MESSAGE)],
)
async def test_truncated_stream_is_an_error(
    provider_client: ProviderClient,
    sink: Sink,
    chat_request: GenerateRequest,
    kind: str,
    values: list[Any],
) -> None:
    for end in range(len(values) - 2):
        sink.always(events(*values[:end]))
        with pytest.raises(ProviderMisbehaved):
            await provider_client.send(chat_request, kind)


HOSTILE: list[tuple[str, object]] = [
    ("responses", {"type": "response.function_call_arguments.delta", "output_index": 7}),
    ("responses", {"type": 5}),
    ("responses", {"type": "response.output_text.delta", "delta": ["x"]}),
    ("responses", {"type": "response.completed", "response": {"usage": {"input_tokens": -1}}}),
    ("anthropic", {"type": "content_block_delta", "delta": {"type": "input_json_delta"}}),
    ("anthropic", {"type": "content_block_start", "content_block": {"type": "tool_use"}}),
    ("anthropic", {"type": "message_start", "message": {"usage": {"input_tokens": 2**60}}}),
    ("anthropic", []),
]


@pytest.mark.parametrize(("kind", "value"), HOSTILE)
async def test_hostile_events_of_each_protocol(
    provider_client: ProviderClient,
    sink: Sink,
    chat_request: GenerateRequest,
    kind: str,
    value: object,
) -> None:
    sink.always(events(value))
    exchange = provider_client.new_exchange()
    with pytest.raises(ProviderMisbehaved):
        await provider_client.send(chat_request, kind, exchange)
    assert not exchange.ends
