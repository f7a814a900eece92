"""LM Studio's stateful chat over real sockets, with a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import pytest

from ingle.backends.base.backend import LoadProgress
from ingle.backends.base.errors import WorkerDied
from ingle.backends.base.events import (
    Delta,
    Event,
    EventSink,
    Finished,
    FinishReason,
    ReasoningDelta,
    Started,
)
from ingle.backends.base.model_info import ModelInfo
from ingle.backends.base.requests import GenerateRequest
from tests.harness.local_backend import LocalBackend

if TYPE_CHECKING:
    from ...conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

REPLY = "Hello from the scripted model."
CHAT = "/api/v1/chat"


def hi(**fields: Any) -> dict[str, Any]:
    return {"model": "echo:1", "input": "Hi", **fields}


async def test_an_answer_is_continued_by_its_id(daemon: RunningDaemon) -> None:
    first = (await daemon.tcp.post(CHAT, json=hi(system_prompt="Be brief."))).json()
    assert first["model_instance_id"] == "echo:1"
    assert first["output"] == [{"type": "message", "content": REPLY}]
    assert first["stats"]["total_output_tokens"] == len(REPLY) + 1
    assert first["response_id"].startswith("resp_")
    previous = {"previous_response_id": first["response_id"]}
    second = (await daemon.tcp.post(CHAT, json=hi(input="Again", **previous))).json()
    assert second["stats"]["input_tokens"] > first["stats"]["input_tokens"] + len(REPLY)
    # The same conversation through the Responses API.
    stored = (await daemon.tcp.get(f"/v1/responses/{second['response_id']}")).json()
    assert stored["previous_response_id"] == first["response_id"]
    assert stored["output"][0]["content"][0]["text"] == REPLY
    items = (await daemon.tcp.get(f"/v1/responses/{first['response_id']}/input_items")).json()
    assert [item["role"] for item in items["data"]] == ["user", "system"]
    missing = await daemon.tcp.post(CHAT, json=hi(previous_response_id="resp_0"))
    assert missing.status_code == 400
    assert missing.json()["error"]["code"] == "previous_response_not_found"


@pytest.mark.parametrize("fields", [{"store": False}, {"ingle": {"private": True}}])
async def test_an_answer_that_is_not_stored_has_no_id(
    daemon: RunningDaemon, fields: dict[str, Any]
) -> None:
    for stream in (False, True):
        body = hi(**fields, stream=stream)
        if stream:
            events = await daemon.events("POST", CHAT, json=body)
            answer = events[-1][1]["result"]
        else:
            answer = (await daemon.tcp.post(CHAT, json=body)).json()
        assert "response_id" not in answer
    assert list(daemon.services.config.paths.responses.glob("*")) == []


class ThinkingBackend(LocalBackend):
    """Answers with reasoning and text."""

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        sink([Started(request.id, 4, 1)])
        sink([ReasoningDelta(request.id, 0, text, [1]) for text in ("Who", "?")])
        sink([Delta(request.id, 0, text, [1]) for text in ("Hel", "lo.")])
        sink([Finished(request.id, 0, FinishReason.STOP, 5, reasoning_tokens=2)])


async def test_a_stream_has_all_events_in_order(run_daemon: DaemonFactory) -> None:
    async with run_daemon(create_backend=ThinkingBackend) as daemon:
        events = await daemon.events("POST", CHAT, json=hi(stream=True))
        assert all(name == data["type"] for name, data in events)
        names = [name for name, _ in events if not name.endswith("delta")]
        assert names == [
            *("chat.start", "prompt_processing.start"),
            *("prompt_processing.progress", "prompt_processing.progress"),
            *("prompt_processing.end", "reasoning.start", "reasoning.end"),
            *("message.start", "message.end", "chat.end"),
        ]
        text = "".join(data["content"] for name, data in events if name == "message.delta")
        result = events[-1][1]["result"]
        assert text == "Hello."
        assert result["output"] == [
            {"type": "reasoning", "content": "Who?"},
            {"type": "message", "content": "Hello."},
        ]
        assert result["stats"]["reasoning_output_tokens"] == 2
        stored = await daemon.tcp.get(f"/v1/responses/{result['response_id']}")
        assert stored.json()["status"] == "completed"


class SlowBackend(LocalBackend):
    """Loads slowly, with progress."""

    async def start(self, on_progress: LoadProgress | None = None) -> ModelInfo:
        for step in range(8):
            if on_progress is not None:
                on_progress(step / 8)
            await asyncio.sleep(0.1)
        return await super().start(on_progress)


@pytest.mark.slow
async def test_loading_is_reported(run_daemon: DaemonFactory) -> None:
    async with run_daemon(create_backend=SlowBackend) as daemon:
        events = await daemon.events("POST", CHAT, json=hi(stream=True))
        names = [name for name, _ in events]
        assert names[0] == "chat.start"
        assert names.count("chat.start") == names.count("model_load.start") == 1
        assert names.index("model_load.start") < names.index("model_load.progress")
        assert names.index("model_load.end") < names.index("prompt_processing.start")
        assert events[-1][1]["result"]["stats"]["model_load_time_seconds"] > 0
        again = await daemon.events("POST", CHAT, json=hi(stream=True))
        assert not [name for name, _ in again if name.startswith("model_load")]
    async with run_daemon(create_backend=SlowBackend) as daemon:
        answer = (await daemon.tcp.post(CHAT, json=hi())).json()
        assert answer["stats"]["model_load_time_seconds"] > 0


class DyingBackend(LocalBackend):
    """Fails after its first words."""

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        def cut(events: list[Event]) -> None:
            sink(events)
            if any(isinstance(event, Delta) for event in events):
                raise WorkerDied("The model's process died.")

        await super().run(request, cut)


async def test_failures_are_events_or_statuses(run_daemon: DaemonFactory) -> None:
    async with run_daemon(create_backend=DyingBackend) as daemon:
        missing = await daemon.tcp.post(CHAT, json=hi(model="no-such-model", stream=True))
        assert missing.status_code == 404
        events = await daemon.events("POST", CHAT, json=hi(stream=True))
        failed, end = events[-2:]
        assert failed[0] == "error"
        assert failed[1]["error"]["type"] == "internal_error"
        assert end[0] == "chat.end"
        assert "response_id" not in end[1]["result"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"integrations": ["mcp/playwright"]}, "integrations"),
        ({"input": [{"type": "image", "data_url": "data:"}]}, "input[0].content[1].image_url"),
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"temperature": 9}, "temperature"),
        ({"reasoning": "much"}, "reasoning"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
    ],
)
async def test_what_cannot_be_served_is_refused(
    daemon: RunningDaemon, fields: dict[str, Any], param: str
) -> None:
    answer = await daemon.tcp.post(CHAT, json=hi(**fields))
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


async def test_fields_have_their_effect(daemon: RunningDaemon) -> None:
    parts = [{"type": "text", "content": "Hi"}, {"type": "message", "content": "there"}]
    body = hi(input=parts, max_output_tokens=5, context_length=640, integrations=[], chat_id=1)
    answer = await daemon.tcp.post(CHAT, json=body)
    assert answer.headers["ingle-ignored"].startswith("chat_id")
    assert answer.json()["output"][0]["content"] == "Hello"
    (model,) = daemon.services.manager.loaded()
    assert model.context >= 640
    items = await daemon.tcp.get(f"/v1/responses/{answer.json()['response_id']}/input_items")
    assert items.json()["data"][0]["content"][0]["text"] == "Hi\nthere"
