"""The Responses API: whole and streamed answers, validated by OpenAI's SDK types."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from ingle.backends.base.errors import ContextExceeded, WorkerDied
from ingle.backends.base.events import Delta, FinishReason, TokenLogprobs
from ingle.backends.base.requests import Priority

if TYPE_CHECKING:
    from openai.types.responses import Response

    from .conftest import ScriptedDaemon

WEATHER = {
    "type": "function",
    "name": "weather",
    "description": "Says it.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}
PATCH = {"type": "custom", "name": "apply_patch", "description": "Edits files."}
AGENTS = {
    "type": "namespace",
    "name": "agents",
    "description": "Others.",
    "tools": [{"type": "function", "name": "spawn", "parameters": None, "strict": None}, PATCH],
}


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


async def test_plain_answer(scripted: ScriptedDaemon) -> None:
    response = await scripted.post({"instructions": "Be brief.", "metadata": {"a": "b"}})
    assert response["status"] == "completed"
    assert response["model"] == "echo:1"
    (message,) = response["output"]
    assert message["content"][0]["text"] == "Hello from the scripted model."
    assert response["usage"]["output_tokens"] > 0
    assert response["metadata"] == {"a": "b"}
    assert response["text"] == {"format": {"type": "text"}, "verbosity": "medium"}
    assert [m.role for m in scripted.model.last_request.messages or []] == ["system", "user"]
    assert response["id"] not in str(scripted.model.last_request.messages)


async def test_stream_equals_the_whole_response(scripted: ScriptedDaemon) -> None:
    scripted.model.reply_with(
        *(("think", "Hm. "), ("think", "Well."), "I will ", "look."),
        ("call", "weather", '{"city":', '"Rome"}'),
        ("call", "weather", "{}"),
    )
    body = {"tools": [WEATHER]}
    events = await scripted.stream(body)
    assert types(events) == [
        *("created", "in_progress"),
        *("output_item.added", "content_part.added"),
        *("reasoning_text.delta", "reasoning_text.delta", "reasoning_text.done"),
        *("content_part.done", "output_item.done"),
        *("output_item.added", "content_part.added", "output_text.delta", "output_text.delta"),
        *("output_text.done", "content_part.done", "output_item.done"),
        *("output_item.added", "function_call_arguments.delta", "function_call_arguments.delta"),
        *("function_call_arguments.done", "output_item.done"),
        *("output_item.added", "function_call_arguments.delta"),
        *("function_call_arguments.done", "output_item.done"),
        "completed",
    ]
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    final = events[-1]["response"]
    assert final["output"] == done
    assert [event["output_index"] for event in events if "output_index" in event] == [
        *[0] * 7,
        *[1] * 7,
        *[2] * 5,
        *[3] * 4,
    ]
    whole = await scripted.post(body)
    for item, other in zip(final["output"], whole["output"], strict=True):
        assert item | {"id": ""} == other | {"id": ""}
    assert [item["type"] for item in done] == ["reasoning", "message", *["function_call"] * 2]
    assert done[2]["arguments"] == '{"city":"Rome"}'
    assert len({item["id"] for item in done}) == 4
    assert final["usage"] == {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 19,
    }


async def test_reasoning_summary_on_request(scripted: ScriptedDaemon) -> None:
    scripted.model.reply_with(("think", "Hm."), "Yes.")
    body = {"reasoning": {"summary": "auto"}, "include": ["reasoning.encrypted_content"]}
    events = await scripted.stream({**body, "store": False})
    assert types(events)[2:8] == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
    ]
    reasoning_item, message = events[-1]["response"]["output"]
    assert reasoning_item["summary"] == [{"type": "summary_text", "text": "Hm."}]
    assert "content" not in reasoning_item
    # A client that keeps the conversation itself sends them back, and the model gets them.
    sealed: dict[str, Any] = {
        "type": "reasoning",
        "summary": [],
        "encrypted_content": reasoning_item["encrypted_content"],
    }
    await scripted.post({"input": [sealed, message, {"role": "user", "content": "Sure?"}]})
    answer = (scripted.model.last_request.messages or [])[0]
    assert (answer.reasoning, answer.content) == ("Hm.", "Yes.")


async def test_answer_cut_by_max_output_tokens_is_incomplete(scripted: ScriptedDaemon) -> None:
    scripted.model.reply_with("Hel", reason=FinishReason.LENGTH)
    events = await scripted.stream({"max_output_tokens": 1})
    assert types(events)[-1] == "incomplete"
    final = events[-1]["response"]
    assert final["incomplete_details"] == {"reason": "max_output_tokens"}
    assert (final["status"], final["output"][0]["status"]) == ("incomplete", "incomplete")


async def test_custom_tools_and_tool_namespaces(scripted: ScriptedDaemon) -> None:
    patch = '*** Begin\n+"é\\n"'
    arguments = json.dumps({"input": patch})
    scripted.model.reply_with(
        ("call", "apply_patch", arguments[:9], *arguments[9:]),
        ("call", "agents__spawn", "{}"),
        ("call", "agents__apply_patch", '{"input": "x"}'),
        ("call", "spawn", "{}"),
    )
    events = await scripted.stream({"tools": [PATCH, AGENTS, {"type": "web_search"}]})
    assert [tool.name for tool in scripted.model.last_request.tools] == [
        *("apply_patch", "agents__spawn", "agents__apply_patch")
    ]
    items = events[-1]["response"]["output"]
    assert [(item["type"], item["name"], item.get("namespace")) for item in items] == [
        ("custom_tool_call", "apply_patch", None),
        ("function_call", "spawn", "agents"),
        ("custom_tool_call", "apply_patch", "agents"),
        ("function_call", "spawn", "agents"),
    ]
    assert items[0]["input"] == patch
    deltas = [
        event["delta"]
        for event in events
        if event["type"] == "response.custom_tool_call_input.delta" and event["output_index"] == 0
    ]
    assert len(deltas) > 10
    assert "".join(deltas) == patch


async def test_tool_calls_and_results_reach_the_model(scripted: ScriptedDaemon) -> None:
    scripted.model.reply_with("Done.")
    await scripted.post(
        {
            "tools": [PATCH, AGENTS],
            "input": [
                {"role": "developer", "content": "Rules."},
                {"role": "user", "content": [{"type": "input_text", "text": "Go"}]},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
                {"type": "message", "role": "assistant", "content": "I go."},
                {
                    "type": "function_call",
                    "call_id": "a",
                    "name": "spawn",
                    "namespace": "agents",
                    "arguments": "{}",
                },
                {"type": "custom_tool_call", "call_id": "b", "name": "apply_patch", "input": "+x"},
                {"type": "function_call_output", "call_id": "a", "output": "done"},
                {
                    "type": "custom_tool_call_output",
                    "call_id": "b",
                    "output": [
                        {"type": "input_text", "text": "ok"},
                        {"type": "input_image", "image_url": "data:"},
                    ],
                },
                {"type": "web_search_call", "id": "ws_1", "status": "completed"},
                {"type": "local_shell_call", "call_id": "c", "action": {"command": ["ls"]}},
                {"type": "local_shell_call_output", "id": "c", "output": "a.txt"},
                {"type": "function_call_output", "output": "who knows"},
            ],
        }
    )
    messages = scripted.model.last_request.messages or []
    assert [m.role for m in messages] == [
        *("system", "user", "assistant", "tool", "tool", "assistant", "tool", "tool")
    ]
    calling = messages[2]
    assert (calling.content, calling.reasoning) == ("I go.", "Hm.")
    assert [(call.id, call.name, call.arguments) for call in calling.tool_calls] == [
        ("a", "agents__spawn", "{}"),
        ("b", "apply_patch", '{"input":"+x"}'),
    ]
    assert messages[4].content.startswith("ok\n")
    assert messages[5].tool_calls[0].arguments == '{"command":["ls"]}'
    assert [(m.tool_call_id, m.content) for m in messages[6:]] == [
        *(("c", "a.txt"), (None, "who knows"))
    ]


async def test_tool_choice(scripted: ScriptedDaemon) -> None:
    tools = [WEATHER, PATCH, AGENTS]
    scripted.model.reply_with("Well.")

    async def chosen(choice: Any, tools: Any = tools) -> tuple[str, list[str]]:
        await scripted.post({"tools": tools, "tool_choice": choice, "parallel_tool_calls": False})
        request = scripted.model.last_request
        assert not request.parallel_tool_calls
        return request.tool_choice.mode, request.tool_choice.names

    assert await chosen(None) == ("auto", [])
    assert await chosen("none") == ("none", [])
    assert await chosen("auto", []) == ("none", [])
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [WEATHER, {"type": "web_search"}]}
    assert await chosen(allowed) == ("auto", ["weather"])
    assert await chosen("required") == ("required", [])
    assert await chosen({"type": "function", "name": "spawn"}) == ("required", ["agents__spawn"])
    both = ["apply_patch", "agents__apply_patch"]
    assert await chosen({"type": "custom", "name": "apply_patch"}) == ("required", both)
    hosted = {"type": "web_search_preview"}
    for wrong in (
        {"type": "function", "name": "no"},
        {"type": "custom", "name": "weather"},
        hosted,
        {"type": "mcp", "server_label": "x"},
        {"type": "allowed_tools", "mode": "required", "tools": [hosted]},
    ):
        response = await scripted.post({"tools": tools, "tool_choice": wrong}, 400)
        assert response["error"]["param"] == "tool_choice"
    for body in ({}, {"tools": [hosted]}):
        response = await scripted.post({**body, "tool_choice": "required"}, 400)
        assert response["error"]["param"] == "tool_choice"


async def test_logprobs_on_request(scripted: ScriptedDaemon) -> None:
    scores = [TokenLogprobs(5, -0.5, [(5, -0.5), (6, -1.0)])]
    scripted.model.reply_with(Delta("", 0, "Hi", [5], scores, {5: b"Hi", 6: b"Ho"}))
    body = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    events = await scripted.stream(body)
    assert scripted.model.last_request.logprobs == 2
    (found,) = events[-1]["response"]["output"][0]["content"][0]["logprobs"]
    assert (found["token"], found["bytes"], len(found["top_logprobs"])) == ("Hi", [72, 105], 2)
    await scripted.post({"top_logprobs": 2})
    assert scripted.model.last_request.logprobs is None


async def test_reasoning_effort_and_text_format(scripted: ScriptedDaemon) -> None:
    scripted.model.reply_with("{}")
    form = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    response = await scripted.post({"reasoning": {"effort": "low"}, "text": {"format": form}})
    request = scripted.model.last_request
    assert (request.reasoning.enabled, request.reasoning.effort) == (True, "low")
    assert request.grammar is not None
    assert request.grammar.text == '{"type":"object"}'
    assert response["text"]["format"] == form
    await scripted.post({"reasoning": {"effort": "none"}})
    assert scripted.model.last_request.reasoning.enabled is False


async def test_error_before_the_stream_is_an_http_status(scripted: ScriptedDaemon) -> None:
    scripted.model.error = ContextExceeded(600, 512)
    for stream in (False, True):
        response = await scripted.post({"stream": stream}, 400)
        assert response["error"]["code"] == "context_length_exceeded"
        assert response["error"]["param"] == "input"


async def test_error_during_the_stream_is_an_event(scripted: ScriptedDaemon) -> None:
    scripted.model.reply_with("Hel", "lo")

    async def die() -> None:
        if len(scripted.model.requests) == 1 and not count.append(1) and len(count) == 2:
            raise WorkerDied("The model's process died of signal 9.")

    count: list[int] = []
    scripted.model.gate = die
    events = await scripted.stream({})
    assert types(events)[-1] == "failed"
    failed = events[-1]["response"]
    assert failed["error"]["code"] == "server_error"
    assert failed["output"][0]["content"][0]["text"] == "Hel"
    assert (await scripted.get(failed["id"]))["status"] == "failed"


async def test_invalid_requests_have_openais_error_shape(scripted: ScriptedDaemon) -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": [{"role": "user", "content": [image]}]}, "input[0].content[0].image_url"),
        ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role"),
        ({"input": [{"type": "function_call", "call_id": "a"}]}, "input[0].name"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input"),
        ({"background": True, "store": False}, "background"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [WEATHER | {"parameters": 1}]}, "tools[0].parameters"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
        ({"metadata": {"a": 1}}, "metadata[...]"),
    ]
    for body, param in wrong:
        status = 404 if param == "input" and body["input"] else 400
        response = await scripted.post(body, status)
        assert response["error"]["param"] == param, response
        assert response["error"]["type"] == "invalid_request_error"
    assert not scripted.model.requests


@pytest.mark.slow
async def test_sdk_parses_streams_and_lists(scripted: ScriptedDaemon) -> None:
    import openai

    class Day(BaseModel):
        city: str

    scripted.model.reply_with(("think", "Hm."), '{"city":', ' "Rome"}')
    async with openai.AsyncOpenAI(
        api_key="none", max_retries=0, base_url=f"{scripted.daemon.base_url}/v1"
    ) as client:
        parsed = await client.responses.parse(model="echo:1", input="Where?", text_format=Day)
        assert parsed.output_parsed == Day(city="Rome")
        async with client.responses.stream(
            model="echo:1", input="Where?", text_format=Day, previous_response_id=parsed.id
        ) as stream:
            deltas = [e.delta async for e in stream if e.type == "response.output_text.delta"]
            final = await stream.get_final_response()
        assert "".join(deltas) == final.output_text == '{"city": "Rome"}'
        assert final.output_parsed == Day(city="Rome")
        again: Response = await client.responses.retrieve(final.id)
        assert again.output_text == final.output_text
        page = await client.responses.input_items.list(final.id)
        assert [item.type for item in page.data] == ["message"]
        counted = await client.responses.input_tokens.count(model="echo:1", input="Where?")
        assert counted.input_tokens > 6
        await client.responses.delete(final.id)
        with pytest.raises(openai.NotFoundError) as gone:
            await client.responses.retrieve(final.id)
        assert gone.value.code == "response_not_found"


async def test_batch_of_responses(scripted: ScriptedDaemon) -> None:
    import openai
    from openai.types.responses import Response

    line = {"custom_id": "a", "method": "POST", "url": "/v1/responses"}
    request = {**line, "body": {"model": "echo:1", "input": "Hi", "background": True}}
    async with openai.AsyncOpenAI(
        api_key="none", max_retries=0, base_url=f"{scripted.daemon.base_url}/v1"
    ) as client:
        content = json.dumps(request).encode()
        file = await client.files.create(file=("in.jsonl", content), purpose="batch")
        batch = await client.batches.create(
            input_file_id=file.id, endpoint="/v1/responses", completion_window="24h"
        )
        async with asyncio.timeout(5):
            while (batch := await client.batches.retrieve(batch.id)).status != "completed":
                await asyncio.sleep(0.02)
        assert batch.output_file_id is not None
        lines = (await client.files.content(batch.output_file_id)).text
    answer = Response.model_validate(json.loads(lines)["response"]["body"])
    assert (answer.status, answer.output_text) == ("completed", "Hello from the scripted model.")
    assert scripted.model.last_request.priority is Priority.BATCH


async def test_null_fields_equal_omitted_fields(scripted: ScriptedDaemon) -> None:
    names = [*("instructions", "previous_response_id", "conversation", "prompt", "tools")]
    names += ["tool_choice", "parallel_tool_calls", "max_output_tokens", "max_tool_calls", "text"]
    names += ["reasoning", "top_logprobs", "include", "truncation", "metadata", "store", "stream"]
    names += ["background", "service_tier", "user", "safety_identifier", "prompt_cache_key"]
    names += ["stream_options", "temperature", "top_p", "ingle", "client_metadata", "moderation"]
    scripted.model.reply_with("Yes.")
    plain = await scripted.post({})
    response = await scripted.post(dict.fromkeys(names))
    item = {"role": "user", "content": "Hi", "id": None, "status": None, "type": None}
    function = {"type": "function", "name": "f", "parameters": None, "strict": None}
    form = {"format": None, "verbosity": None}
    inner = {"effort": None, "summary": None, "generate_summary": None}
    again = await scripted.post({"input": [item], "text": form, "reasoning": inner})
    for answer in (response, again):
        for name in ("id", "created_at", "completed_at", "output"):
            answer[name] = plain[name]
        assert answer == plain
    await scripted.post({"tools": [function | {"description": None}], "ingle": {"private": None}})


@pytest.mark.slow
async def test_stream_starts_while_the_model_loads(run_daemon: Any) -> None:
    body = {"model": "echo:1", "input": "Hi", "stream": True}
    async with (
        run_daemon(script={"load_seconds": 1.0}) as daemon,
        daemon.unix.stream("POST", "/v1/responses", json=body) as answer,
    ):
        lines = [line async for line in answer.aiter_lines() if line]
    assert lines[0] == "event: response.created"
    loading = [number for number, line in enumerate(lines) if line.startswith(": loading")]
    assert loading[0] == 2
    assert loading[-1] < lines.index("event: response.in_progress")
    assert lines[-2] == "event: response.completed"


@pytest.mark.slow
async def test_load_error(run_daemon: Any) -> None:
    body = {"model": "echo:1", "input": "Hi", "stream": True}
    for seconds in (0.0, 1.0):
        script = {"load_seconds": seconds, "load_error": "The file is damaged."}
        async with run_daemon(script=script) as daemon:
            if not seconds:
                answer = await daemon.unix.post("/v1/responses", json=body)
                assert answer.status_code == 500
                assert answer.json()["error"]["type"] == "server_error"
                continue
            events = await daemon.events("POST", "/v1/responses", json=body)
        assert [name for name, _ in events] == ["response.created", "response.failed"]
        assert events[-1][1]["response"]["error"]["code"] == "server_error"
        assert events[-1][1]["response"]["model"] == "echo:1"
