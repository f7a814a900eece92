"""Tool calls and reasoning through OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from pydantic import BaseModel

from ingle.backends.base.conversation import NO_PARAMETERS, Reasoning, Tool, ToolCall, ToolChoice
from ingle.backends.base.events import (
    Delta,
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    Started,
    ToolCallDelta,
    ToolCallStarted,
)
from ingle.daemon.protocols.ingle_options import RequestOrigin
from ingle.daemon.protocols.openai.completions.request_types import ChatCompletionRequest
from ingle.daemon.protocols.openai.completions.requests import chat_job

if TYPE_CHECKING:
    from ....conftest import RunningDaemon
    from ...conftest import EventBackend

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

CHAT = "/v1/chat/completions"
HI: list[Any] = [{"role": "user", "content": "How is the weather in Rome?"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "get_weather", "description": "Tells it.", "parameters": SCHEMA}
TOOLS: list[Any] = [{"type": "function", "function": WEATHER}]
ARGUMENTS = '{"city": "Rome"}'
CALLING: tuple[Event, ...] = (
    Started("", 30, 10),
    ReasoningDelta("", 0, "The user ", [1, 2]),
    ReasoningDelta("", 0, "wants weather.", [3]),
    ToolCallStarted("", 0, 0, "call_a", "get_weather", [4]),
    ToolCallDelta("", 0, 0, '{"city": ', [5]),
    ToolCallDelta("", 0, 0, '"Rome"}', [6]),
    ToolCallStarted("", 0, 1, "call_b", "get_weather", [7]),
    ToolCallDelta("", 0, 1, '{"city": "Bari"}', [8]),
    Finished("", 0, FinishReason.TOOL_CALLS, 8, 0.0, 0.5, 2.0, reasoning_tokens=3),
)


def request_of(**fields: Any) -> Any:
    """The generation request that the fields of a chat become."""
    body = {"model": "echo:1", "messages": HI, **fields}
    content = msgspec.json.encode(body)
    return chat_job(
        msgspec.json.decode(content, type=ChatCompletionRequest), RequestOrigin()
    ).request


async def test_whole_answer_with_tool_calls(
    run_daemon: DaemonFactory, event_backend: Callable[..., type[EventBackend]]
) -> None:
    backend = event_backend(*CALLING)
    async with run_daemon(create_backend=backend) as daemon:
        body = {"model": "echo:1", "messages": HI, "tools": TOOLS, "service_tier": "auto"}
        response = await daemon.tcp.post(CHAT, json=body)
    answer = response.json()
    (choice,) = answer["choices"]
    call = {"name": "get_weather", "arguments": ARGUMENTS}
    other = {"name": "get_weather", "arguments": '{"city": "Bari"}'}
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"] == {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "annotations": [],
        "reasoning_content": "The user wants weather.",
        "tool_calls": [
            {"id": "call_a", "type": "function", "function": call},
            {"id": "call_b", "type": "function", "function": other},
        ],
    }
    assert answer["usage"]["completion_tokens_details"]["reasoning_tokens"] == 3
    assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": 10}
    assert answer["service_tier"] == "default"
    timings = answer["timings"]
    assert (timings["cache_n"], timings["prompt_n"], timings["predicted_n"]) == (10, 20, 8)
    assert (timings["prompt_ms"], timings["predicted_per_second"]) == (500, 3.5)
    assert response.headers["x-request-id"].startswith("req_")
    assert int(response.headers["openai-processing-ms"]) >= 0
    (request,) = backend.requests
    assert request.tools == [Tool("get_weather", "Tells it.", msgspec.json.encode(SCHEMA).decode())]


async def test_streamed_tool_calls_and_legacy_functions(
    run_daemon: DaemonFactory, event_backend: Callable[..., type[EventBackend]]
) -> None:
    async with run_daemon(create_backend=event_backend(*CALLING)) as daemon:
        body = {"model": "echo:1", "messages": HI, "stream": True}
        new = await daemon.events("POST", CHAT, json=body | {"tools": TOOLS})
        forced = await daemon.events(
            "POST", CHAT, json=body | {"tools": TOOLS, "tool_choice": "required"}
        )
        old = await daemon.events("POST", CHAT, json=body | {"functions": [WEATHER]})
        whole = await daemon.tcp.post(CHAT, json=body | {"functions": [WEATHER], "stream": False})
    deltas = [chunk["choices"][0]["delta"] for _, chunk in new[:-1]]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert forced[0][1]["choices"][0]["delta"] == {"role": "assistant", "content": None}
    assert deltas[1] == {"reasoning_content": "The user "}
    function = {"name": "get_weather", "arguments": ""}
    assert deltas[3]["tool_calls"] == [
        {"index": 0, "id": "call_a", "type": "function", "function": function}
    ]
    assert deltas[4]["tool_calls"] == [{"index": 0, "function": {"arguments": '{"city": '}}]
    assert deltas[-1] == {}
    assert new[-2][1]["choices"][0]["finish_reason"] == "tool_calls"
    assert new[-2][1]["timings"]["predicted_n"] == 8
    calls = [chunk["choices"][0]["delta"].get("function_call") for _, chunk in old[:-1]]
    streamed_calls = [call for call in calls if call is not None]
    assert streamed_calls[0] == function
    assert "".join(call["arguments"] for call in streamed_calls) == ARGUMENTS
    assert old[-2][1]["choices"][0]["finish_reason"] == "function_call"
    (choice,) = whole.json()["choices"]
    assert choice["finish_reason"] == "function_call"
    assert choice["message"]["function_call"] == {"name": "get_weather", "arguments": ARGUMENTS}
    assert "tool_calls" not in choice["message"]


async def test_reasoning_can_be_excluded(
    run_daemon: DaemonFactory, event_backend: Callable[..., type[EventBackend]]
) -> None:
    async with run_daemon(create_backend=event_backend(*CALLING)) as daemon:
        for fields in ({"include_reasoning": False}, {"reasoning": {"exclude": True}}):
            body = {"model": "echo:1", "messages": HI, "tools": TOOLS, **fields}
            whole = await daemon.tcp.post(CHAT, json=body)
            stream = await daemon.events("POST", CHAT, json=body | {"stream": True})
            assert "The user" not in whole.text
            assert "The user" not in str(stream)


async def test_continuous_usage_stats(
    run_daemon: DaemonFactory, event_backend: Callable[..., type[EventBackend]]
) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True, "include_obfuscation": True}
    async with run_daemon(create_backend=event_backend(*CALLING)) as daemon:
        body = {"model": "echo:1", "messages": HI, "stream": True, "stream_options": options}
        events = await daemon.events("POST", CHAT, json=body)
    counts = [chunk["usage"]["completion_tokens"] for _, chunk in events[:-1]]
    assert counts == [0, 2, 3, 4, 5, 6, 7, 8, 8, 8]


class City(BaseModel):
    city: str


async def test_sdk_reads_tool_calls(
    run_daemon: DaemonFactory, event_backend: Callable[..., type[EventBackend]]
) -> None:
    from openai import AsyncOpenAI

    strict = TOOLS[0] | {"function": WEATHER | {"strict": True}}
    async with (
        run_daemon(create_backend=event_backend(*CALLING)) as daemon,
        AsyncOpenAI(base_url=f"{daemon.base_url}/v1", api_key="none") as client,
        client.chat.completions.stream(model="echo:1", messages=HI, tools=[strict]) as stream,
    ):
        done = [
            event.arguments
            async for event in stream
            if event.type == "tool_calls.function.arguments.done"
        ]
        final = await stream.get_final_completion()
    assert done == [ARGUMENTS, '{"city": "Bari"}']
    calls = final.choices[0].message.tool_calls or []
    assert [call.id for call in calls] == ["call_a", "call_b"]
    assert calls[0].function.parsed_arguments == {"city": "Rome"}


async def test_sdk_parses_structured_output(
    run_daemon: DaemonFactory, event_backend: Callable[..., type[EventBackend]]
) -> None:
    from openai import AsyncOpenAI

    scripted_events = (
        Started("", 3),
        Delta("", 0, ARGUMENTS, [1]),
        Finished("", 0, FinishReason.STOP, 1),
    )
    async with (
        run_daemon(create_backend=event_backend(*scripted_events)) as daemon,
        AsyncOpenAI(base_url=f"{daemon.base_url}/v1", api_key="none") as client,
    ):
        parsed = await client.chat.completions.parse(
            model="echo:1", messages=HI, response_format=City
        )
        async with client.chat.completions.stream(
            model="echo:1", messages=HI, response_format=City
        ) as stream:
            streamed = await stream.get_final_completion()
    assert parsed.choices[0].message.parsed == City(city="Rome")
    assert streamed.choices[0].message.parsed == City(city="Rome")


def test_messages_with_tool_calls_and_results() -> None:
    request = request_of(
        messages=[
            *HI,
            {
                "role": "assistant",
                "content": None,
                "reasoning": "Hm.",
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                    {"id": "b", "function": {"name": "g", "arguments": {"x": 1}}},
                    {"id": "c", "type": "custom", "custom": {"name": "h", "input": "1+1"}},
                    {"function": {"name": "i", "arguments": ""}},
                ],
            },
            {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "sunny"}]},
            {"role": "tool", "tool_call_id": "b", "content": None},
            {"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{"}},
            {"role": "function", "name": "f", "content": "4"},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
            {"role": "assistant", "refusal": "Never."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Go on"},
                    {"type": "image_url", "image_url": {"url": ""}},
                ],
            },
        ]
    )
    _, calling, sunny, empty, older, four, refused, never, user = request.messages
    assert (calling.content, calling.reasoning) == ("", "Hm.")
    assert calling.tool_calls == [
        ToolCall("a", "f", "{}"),
        ToolCall("b", "g", '{"x":1}'),
        ToolCall("c", "h", '{"input":"1+1"}'),
        ToolCall("", "i", "{}"),
    ]
    assert (sunny.role, sunny.content, sunny.tool_call_id) == ("tool", "sunny", "a")
    assert empty.content == ""
    assert older.tool_calls == [ToolCall("", "f", "{")]
    assert (four.role, four.name, four.content) == ("tool", "f", "4")
    assert (refused.content, never.content, user.content) == ("No.", "Never.", "Go on")


@pytest.mark.parametrize(
    ("fields", "choice"),
    [
        ({}, ToolChoice()),
        ({"tool_choice": "auto"}, ToolChoice()),
        ({"tool_choice": None}, ToolChoice()),
        ({"tool_choice": "none"}, ToolChoice("none")),
        ({"tool_choice": "required"}, ToolChoice("required")),
        ({"tool_choice": "any"}, ToolChoice("required")),
        (
            {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}},
            ToolChoice("required", ["get_weather"]),
        ),
        (
            {"tool_choice": {"type": "function", "name": "get_weather"}},
            ToolChoice("required", ["get_weather"]),
        ),
        (
            {
                "tool_choice": {
                    "type": "allowed_tools",
                    "allowed_tools": {
                        "mode": "required",
                        "tools": [{"type": "function", "function": {"name": "get_weather"}}],
                    },
                }
            },
            ToolChoice("required", ["get_weather"]),
        ),
    ],
)
def test_tool_choice(fields: dict[str, Any], choice: ToolChoice) -> None:
    request = request_of(tools=[*TOOLS, {"type": "web_search_preview"}], **fields)
    assert request.tool_choice == choice
    assert [tool.name for tool in request.tools] == ["get_weather"]
    assert request.parallel_tool_calls


def test_all_forms_of_tool_definitions() -> None:
    nothing = Tool("f", "", NO_PARAMETERS)
    functions: list[dict[str, Any]] = [
        {"name": "f"},
        {"name": "f", "parameters": None, "description": None, "strict": None},
        {"name": "f", "parameters": {}},
        {"name": "f", "parameters": {"type": None}},
    ]
    for function in functions:
        assert request_of(tools=[{"type": "function", "function": function}]).tools == [nothing]
        assert request_of(tools=[{"type": "function", **function}]).tools == [nothing]
        assert request_of(functions=[function]).tools == [nothing]
    free = request_of(
        tools=[{"type": "function", "function": {"name": "mcp.files/read", "strict": True}}]
    )
    assert free.tools == [Tool("mcp.files/read", strict=True)]
    older = request_of(functions=[WEATHER], function_call={"name": "get_weather"})
    assert older.tool_choice == ToolChoice("required", ["get_weather"])
    assert not older.parallel_tool_calls
    some = {"type": "allowed_tools", "allowed_tools": {"tools": [{"name": "get_weather"}]}}
    chosen = request_of(tools=[*TOOLS, {"type": "function", "name": "g"}], tool_choice=some)
    assert [tool.name for tool in chosen.tools] == ["get_weather", "g"]
    assert chosen.tool_choice == ToolChoice("auto", ["get_weather"])


@pytest.mark.parametrize(
    ("fields", "reasoning"),
    [
        ({}, Reasoning()),
        ({"reasoning_effort": None, "reasoning": None}, Reasoning()),
        ({"reasoning_effort": "none"}, Reasoning(False)),
        ({"reasoning_effort": "minimal"}, Reasoning(True, "low")),
        ({"reasoning_effort": "medium"}, Reasoning(True, "medium")),
        ({"reasoning_effort": "xhigh"}, Reasoning(True, "high")),
        ({"reasoning": {"effort": "high", "max_tokens": 99}}, Reasoning(True, "high", 99)),
        ({"reasoning": {"enabled": False}}, Reasoning(False)),
        ({"reasoning": {"max_tokens": 0}}, Reasoning(False, None, 0)),
        ({"thinking_budget_tokens": 7}, Reasoning(True, None, 7)),
        ({"reasoning_budget": -1}, Reasoning()),
        ({"thinking_token_budget": 5, "enable_thinking": True}, Reasoning(True, None, 5)),
        ({"thinking": {"type": "disabled"}}, Reasoning(False)),
        ({"thinking": {"type": "enabled", "budget_tokens": 9}}, Reasoning(True, None, 9)),
        ({"chat_template_kwargs": {"enable_thinking": False}}, Reasoning(False)),
    ],
)
def test_reasoning_fields(fields: dict[str, Any], reasoning: Reasoning) -> None:
    request = request_of(**fields)
    assert request.reasoning == reasoning
    assert request.template_variables == fields.get("chat_template_kwargs", {})


def test_continue_final_message() -> None:
    begun = [*HI, {"role": "assistant", "content": "It is"}]
    assert request_of(messages=begun, continue_final_message=True).continues
    assert request_of(messages=begun, add_generation_prompt=False).continues
    assert not request_of(messages=begun).continues
    assert not request_of(add_generation_prompt=False).continues
