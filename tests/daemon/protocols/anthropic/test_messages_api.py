"""Anthropic endpoints over real sockets, called by Anthropic's SDK."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

if TYPE_CHECKING:
    import anthropic
    from anthropic.types import Message

    from ...conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

REPLY = "Hello from the scripted model."
MESSAGES = "/v1/messages"
HI: list[Any] = [{"role": "user", "content": "Hi"}]
CALL = '{"name": "weather", "arguments": {"city": "Rome"}}'


def messages_body(**fields: Any) -> dict[str, Any]:
    return {"model": "echo:1", "max_tokens": 64, "messages": HI, **fields}


@asynccontextmanager
async def client_of(daemon: RunningDaemon) -> AsyncGenerator[anthropic.AsyncAnthropic]:
    import anthropic

    async with anthropic.AsyncAnthropic(
        base_url=daemon.base_url, api_key="none", max_retries=0
    ) as client:
        yield client


async def answer(client: anthropic.AsyncAnthropic, body: dict[str, Any], **more: Any) -> Message:
    return await client.messages.create(**body, **more, stream=False)


async def load_with_large_context(daemon: RunningDaemon) -> None:
    """Load with a larger context: a byte-level tokenizer makes tool definitions long."""
    loaded = await daemon.tcp.post("/ingle/v1/load", json={"model": "echo:1", "context": 4096})
    assert loaded.status_code == 200, loaded.text


async def test_whole_answer(daemon: RunningDaemon) -> None:
    async with client_of(daemon) as client:
        message = await answer(client, messages_body())
        old = await answer(
            client,
            messages_body(),
            extra_headers={"anthropic-version": "2023-06-01", "anthropic-beta": "a,b"},
        )
    (block,) = message.content
    assert (block.type == "text" and block.text) == REPLY
    assert message.id.startswith("msg_")
    assert (message.model, message.role, message.stop_reason) == ("echo:1", "assistant", "end_turn")
    assert message.usage.output_tokens >= len(REPLY)
    assert old.content == message.content


async def test_every_response_has_a_request_id(daemon: RunningDaemon) -> None:
    path = f"{MESSAGES}?beta=true"
    for body, status in (
        (messages_body(), 200),
        (messages_body(stream=True), 200),
        (messages_body(model=1), 400),
    ):
        answer = await daemon.tcp.post(path, json=body)
        assert answer.status_code == status
        assert answer.headers["request-id"].startswith("req_")
    refused = await daemon.tcp.post(MESSAGES, json=messages_body(model="nobody"))
    assert refused.status_code == 404
    assert refused.json()["request_id"] == refused.headers["request-id"]
    assert refused.json()["error"]["type"] == "not_found_error"


async def test_files_are_refused_in_anthropics_shape(daemon: RunningDaemon) -> None:
    import anthropic

    async with client_of(daemon) as client:
        with pytest.raises(anthropic.NotFoundError) as listing:
            await client.beta.files.list()
        with pytest.raises(anthropic.NotFoundError) as upload:
            await client.beta.files.upload(file=("a.txt", b"a"))
    for refused in (listing, upload):
        assert refused.value.body["error"]["type"] == "not_found_error"  # pyright: ignore[reportIndexIssue, reportUnknownVariableType, reportOptionalSubscript, reportCallIssue, reportArgumentType]


async def test_sdk_reads_streams(daemon: RunningDaemon) -> None:
    async with client_of(daemon) as client:
        async with client.messages.stream(**messages_body()) as stream:
            text = "".join([piece async for piece in stream.text_stream])
            final = await stream.get_final_message()
        raw: Any = await client.messages.create(**messages_body(), stream=True)
        kinds: list[str] = [event.type async for event in raw]
    assert text == REPLY
    assert final.stop_reason == "end_turn"
    assert final.usage.input_tokens > 0
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]


async def test_stop_reasons(daemon: RunningDaemon) -> None:
    async with client_of(daemon) as client:
        short = await answer(client, messages_body(max_tokens=3))
        stopped = await answer(client, messages_body(stop_sequences=["zzz", " from"]))
        warmed = await answer(client, messages_body(max_tokens=0))
    assert short.stop_reason == "max_tokens"
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", " from")
    assert [block.type == "text" and block.text for block in stopped.content] == ["Hello"]
    assert (warmed.content, warmed.stop_reason) == ([], "max_tokens")


async def test_count_tokens_equals_usage(daemon: RunningDaemon) -> None:
    tools: list[Any] = [{"name": "weather", "input_schema": {"type": "object"}}]
    await load_with_large_context(daemon)
    async with client_of(daemon) as client:
        for more in ({}, {"system": "Be brief."}, {"tools": tools}):
            body = messages_body(**more)
            usage = (await answer(client, body)).usage
            del body["max_tokens"]
            counted = await client.messages.count_tokens(**body)
            assert counted.input_tokens == usage.input_tokens + (usage.cache_read_input_tokens or 0)


async def test_changed_billing_header_does_not_break_prefix_caching(daemon: RunningDaemon) -> None:
    line = "x-anthropic-billing-header: cc_version=2.1.328.e51; cc_entrypoint=cli; cch={};"

    def turn(stamp: str, *more: Any) -> dict[str, Any]:
        system = [{"type": "text", "text": line.format(stamp)}, {"type": "text", "text": "Help."}]
        return messages_body(system=system, messages=[*HI, *more])

    async with client_of(daemon) as client:
        first = await answer(client, turn("a5145"))
        reply: dict[str, Any] = {"role": "assistant", "content": first.content}
        second = await answer(client, turn("0ff1c", reply, *HI))
    assert second.usage.cache_read_input_tokens is not None
    assert second.usage.cache_read_input_tokens >= first.usage.input_tokens - 1


async def test_sdk_tool_runner_round_trip(run_daemon: DaemonFactory) -> None:
    from anthropic import beta_async_tool

    script = {"replies": {"sunny": "It is sunny.", "Weather?": CALL}}

    @beta_async_tool
    async def weather(city: str) -> str:
        """Tell the weather of a city."""
        return f"In {city} it is sunny."

    ask_it: list[Any] = [{"role": "user", "content": "Weather?"}]
    async with run_daemon(script=script) as daemon, client_of(daemon) as client:
        await load_with_large_context(daemon)
        runner = client.beta.messages.tool_runner(
            model="echo:1", max_tokens=64, messages=ask_it, tools=[weather]
        )
        answers = [answer async for answer in runner]
    called, reply = answers
    assert called.stop_reason == "tool_use"
    (use,) = called.content
    assert use.type == "tool_use"
    assert use.id.startswith("toolu_")
    assert (use.name, use.input) == ("weather", {"city": "Rome"})
    assert [block.type == "text" and block.text for block in reply.content] == ["It is sunny."]


async def test_a_call_of_a_client_side_tool_comes_back_under_its_name(
    run_daemon: DaemonFactory,
) -> None:
    tools: list[Any] = [{"type": "bash_20250124", "name": "bash"}]
    script = {"reply": '{"name": "bash", "arguments": {"command": "ls"}}'}
    body = messages_body(tools=tools, tool_choice={"type": "tool", "name": "bash"})
    async with run_daemon(script=script) as daemon, client_of(daemon) as client:
        await load_with_large_context(daemon)
        message = await answer(client, body)
    (use,) = message.content
    assert use.type == "tool_use"
    assert (use.name, use.input) == ("bash", {"command": "ls"})


async def test_tool_calls_are_streamed(run_daemon: DaemonFactory) -> None:
    tools: list[Any] = [
        {
            "name": "weather",
            "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
        }
    ]
    body = messages_body(tools=tools, tool_choice={"type": "any"})
    async with run_daemon(script={"reply": CALL}) as daemon, client_of(daemon) as client:
        await load_with_large_context(daemon)
        async with client.messages.stream(**body) as stream:
            kinds = [event.type async for event in stream]
            final = await stream.get_final_message()
    assert "input_json" in kinds
    assert final.stop_reason == "tool_use"
    assert [block.type == "tool_use" and block.input for block in final.content] == [
        {"city": "Rome"}
    ]


class Town(BaseModel):
    """The schema of the requested answer."""

    name: str
    people: int


async def test_structured_output_is_parsed_by_the_sdk(run_daemon: DaemonFactory) -> None:
    script = {"reply": '{"name": "Rome", "people": 3}'}
    async with run_daemon(script=script) as daemon, client_of(daemon) as client:
        parsed = await client.messages.parse(**messages_body(), output_format=Town)
    assert parsed.parsed_output == Town(name="Rome", people=3)


async def test_assistant_prefill_is_continued(run_daemon: DaemonFactory) -> None:
    script = {"replies": {"assistant\nThe answer is (": "B)"}, "reply": "no"}
    begun = [*HI, {"role": "assistant", "content": "The answer is ("}]
    async with run_daemon(script=script) as daemon, client_of(daemon) as client:
        message = await answer(client, messages_body(messages=begun))
    assert [block.type == "text" and block.text for block in message.content] == ["B)"]


async def test_prompt_too_long_error_has_the_wording_clients_parse(daemon: RunningDaemon) -> None:
    import anthropic

    async with client_of(daemon) as client:
        with pytest.raises(anthropic.BadRequestError) as caught:
            await answer(client, messages_body(messages=[{"role": "user", "content": "x" * 600}]))
    assert caught.value.type == "invalid_request_error"
    assert "prompt is too long: 620 tokens > 512 maximum" in str(caught.value)


@pytest.mark.slow
async def test_pings_while_the_model_loads(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script={"load_seconds": 1.0}) as daemon:
        events = await daemon.events("POST", MESSAGES, json=messages_body(stream=True))
        async with client_of(daemon) as client:
            await daemon.tcp.post("/ingle/v1/unload")
            async with client.messages.stream(**messages_body()) as stream:
                assert await stream.get_final_text() == REPLY
    names = [name for name, _ in events]
    loading = events[: names.index("message_start")]
    assert loading
    assert all(event == ("ping", {"type": "ping"}) for event in loading)


async def test_error_after_stream_start_is_an_event(run_daemon: DaemonFactory) -> None:
    script = {"load_seconds": 0.6, "load_error": "It is broken."}
    async with run_daemon(script=script) as daemon:
        *pings, (name, error) = await daemon.events(
            "POST", MESSAGES, json=messages_body(stream=True)
        )
        assert {event for event, _ in pings} == {"ping"}
        assert (name, error["type"], error["error"]["type"]) == ("error", "error", "api_error")
        assert "It is broken." in error["error"]["message"]


async def test_not_found_has_anthropics_error_shape(daemon: RunningDaemon) -> None:
    answer = await daemon.tcp.get(f"{MESSAGES}/nothing")
    assert answer.status_code == 404
    assert json.loads(answer.text)["error"]["type"] == "not_found_error"


async def test_models_are_paginated(run_daemon: DaemonFactory) -> None:
    import anthropic
    from anthropic.types import ModelInfo

    aliases = (("claude-a", "echo:1"), ("claude-b", "echo:1"))
    async with run_daemon(aliases=aliases) as daemon, client_of(daemon) as client:
        listed = [model async for model in client.models.list(limit=2)]
        page = await client.models.list(limit=2)
        before = await client.models.list(before_id="claude-b", limit=1)
        one = await client.models.retrieve("claude-b")
        with pytest.raises(anthropic.BadRequestError, match="limit"):
            await client.models.list(limit=0)
        with pytest.raises(anthropic.NotFoundError) as caught:
            await client.models.retrieve("nobody")
    assert [model.id for model in listed] == ["echo:1", "claude-a", "claude-b"]
    assert (page.has_more, page.first_id, page.last_id) == (True, "echo:1", "claude-a")
    assert [model.id for model in before.data] == ["claude-a"]
    for model in (*listed, one):
        ModelInfo.model_validate_json(model.to_json(), strict=True)
        assert model.max_input_tokens == 512
    assert caught.value.type == "not_found_error"
    assert caught.value.request_id is not None
