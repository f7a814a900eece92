"""Ollama's generate and chat endpoints over real sockets, with a scripted model."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from ingle.backends.base.events import (
    Delta,
    Event,
    EventSink,
    Finished,
    FinishReason,
    ReasoningDelta,
    Started,
    ToolCallDelta,
    ToolCallStarted,
)
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.worker.supervisor.worker_process import WorkerProcess
from tests.harness.local_backend import LocalBackend

if TYPE_CHECKING:
    from ...conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

REPLY = "Hello from the scripted model."
HI = [{"role": "user", "content": "Hi"}]
METRICS = {
    *("total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration"),
    *("eval_count", "eval_duration"),
}


class ScriptedEvents(LocalBackend):
    """A backend that answers with the given events."""

    def __init__(
        self, spec: LoadSpec, received: list[GenerateRequest], events: list[Event]
    ) -> None:
        super().__init__(spec)
        self._asked = received
        self._events = events

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        self._asked.append(request)
        sink([msgspec.structs.replace(event, id=request.id) for event in self._events])


async def lines(
    daemon: RunningDaemon, path: str, body: dict[str, Any]
) -> AsyncGenerator[dict[str, Any]]:
    async with daemon.unix.stream("POST", path, json=body) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"] == "application/x-ndjson"
        async for line in response.aiter_lines():
            yield json.loads(line)


async def chat(daemon: RunningDaemon, **fields: Any) -> Any:
    body = {"model": "echo:1", "messages": HI, "stream": False, **fields}
    answer = await daemon.tcp.post("/api/chat", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def refusal(daemon: RunningDaemon, path: str, **fields: Any) -> str:
    answer = await daemon.tcp.post(path, json={"model": "echo:1", **fields})
    assert answer.status_code == (404 if "llama9" in answer.text else 400), answer.text
    assert set(answer.json()) == {"error"}
    return answer.json()["error"]


async def test_chat_streams_ndjson_by_default(daemon: RunningDaemon) -> None:
    body = {"model": "echo:1", "messages": HI}
    *pieces, last = [line async for line in lines(daemon, "/api/chat", body)]
    assert "".join(line["message"]["content"] for line in pieces) == REPLY
    assert all(not line["done"] and line["message"]["role"] == "assistant" for line in pieces)
    assert all(METRICS.isdisjoint(line) for line in pieces)
    assert (last["done"], last["done_reason"]) == (True, "stop")
    assert set(last) > METRICS
    assert last["eval_count"] >= len(REPLY)
    assert last["created_at"].endswith("Z")
    whole = await chat(daemon)
    assert whole["message"] == {"role": "assistant", "content": REPLY}
    assert (whole["model"], whole["done"], whole["done_reason"]) == ("echo:1", True, "stop")


@pytest.mark.slow
async def test_num_predict_and_stop_options(daemon: RunningDaemon) -> None:
    short = await chat(daemon, options={"num_predict": 5, "temperature": 9.5, "top_p": 0})
    assert (short["message"]["content"], short["done_reason"]) == ("Hello", "length")
    stopped = await chat(daemon, options={"stop": ["the"], "num_gpu": 1, "unheard_of": {}})
    assert (stopped["message"]["content"], stopped["done_reason"]) == ("Hello from ", "stop")
    assert "num_ctx" in await refusal(daemon, "/api/chat", messages=HI, options={"num_ctx": "4k"})


@pytest.mark.slow
async def test_num_ctx_limits_the_request_and_grows_the_context(daemon: RunningDaemon) -> None:
    long = [{"role": "user", "content": "x" * 600}]
    error = await refusal(daemon, "/api/chat", messages=long)
    assert "tokens long" in error
    grown = await chat(daemon, messages=long, options={"num_ctx": 1024})
    assert grown["message"]["content"] == REPLY
    (loaded,) = (await daemon.tcp.get("/api/ps")).json()["models"]
    assert loaded["context_length"] == 1024
    error = await refusal(daemon, "/api/chat", messages=long, options={"num_ctx": 128})
    assert "128" in error
    (loaded,) = (await daemon.tcp.get("/api/ps")).json()["models"]
    assert loaded["context_length"] == 1024  # a loaded model never shrinks


@pytest.mark.slow
async def test_reasoning_and_tool_calls_are_separate_fields(run_daemon: DaemonFactory) -> None:
    received: list[GenerateRequest] = []
    events: list[Event] = [
        Started("", 7),
        ReasoningDelta("", 0, "Let me see.", [1, 2]),
        Delta("", 0, "I ask.", [3]),
        ToolCallStarted("", 0, 0, "call_a", "weather", [4]),
        ToolCallDelta("", 0, 0, '{"city":', [5]),
        ToolCallDelta("", 0, 0, '"Rome"}', [6]),
        ToolCallStarted("", 0, 1, "call_b", "time", [7]),
        ToolCallDelta("", 0, 1, "{}", [8]),
        Finished("", 0, FinishReason.TOOL_CALLS, 8, reasoning_tokens=2),
    ]
    calls: list[Any] = [
        {
            "id": "call_a",
            "function": {"index": 0, "name": "weather", "arguments": {"city": "Rome"}},
        },
        {"id": "call_b", "function": {"index": 1, "name": "time", "arguments": {}}},
    ]
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
    body = {"model": "echo:1", "messages": HI, "tools": [tool]}
    async with run_daemon(
        create_backend=partial(ScriptedEvents, received=received, events=events)
    ) as daemon:
        *pieces, last = [line["message"] async for line in lines(daemon, "/api/chat", body)]
        assert [piece["thinking"] for piece in pieces if "thinking" in piece] == ["Let me see."]
        assert "".join(piece["content"] for piece in pieces) == "I ask."
        assert [call for piece in pieces for call in piece.get("tool_calls", [])] == calls
        assert last == {"role": "assistant", "content": ""}
        whole = await chat(daemon, tools=[tool])
        assert whole["message"] == {
            "role": "assistant",
            "content": "I ask.",
            "thinking": "Let me see.",
            "tool_calls": calls,
        }
        assert (whole["done_reason"], whole["eval_count"]) == ("stop", 8)
    assert [offered.name for offered in received[0].tools] == ["weather"]
    assert json.loads(received[0].tools[0].parameters) == {"type": "object"}


@pytest.mark.slow
async def test_tool_results_are_matched_to_their_calls(run_daemon: DaemonFactory) -> None:
    received: list[GenerateRequest] = []
    events: list[Event] = [Started("", 1), Finished("", 0, FinishReason.STOP, 0)]
    calls: list[Any] = [{"function": {"name": name, "arguments": {}}} for name in ("a", "b", "a")]
    messages: list[Any] = [
        *HI,
        {"role": "Assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_name": "b", "content": "1"},
        {"role": "tool", "content": "2"},
        {"role": "tool", "tool_call_id": "call_2", "content": "3"},
    ]
    async with run_daemon(
        create_backend=partial(ScriptedEvents, received=received, events=events)
    ) as daemon:
        await chat(daemon, messages=messages)
        await chat(daemon, messages=[*HI, {"role": "assistant", "content": "I am"}])
    sent = received[0].messages or []
    assert [(m.tool_call_id, m.name) for m in sent[2:]] == [
        ("call_1", "b"),
        ("call_0", "a"),
        ("call_2", "a"),
    ]
    assert (received[0].continues, received[1].continues) == (False, True)


@pytest.mark.slow
async def test_empty_prompt_loads_and_keep_alive_0_unloads(daemon: RunningDaemon) -> None:
    loaded = (await daemon.tcp.post("/api/generate", json={"model": "echo:1"})).json()
    assert (loaded["response"], loaded["done"], loaded["done_reason"]) == ("", True, "load")
    assert [model["name"] for model in (await daemon.tcp.get("/api/ps")).json()["models"]] == [
        "echo:1"
    ]
    body: dict[str, Any] = {"model": "echo:1", "messages": [], "keep_alive": 0}
    gone = (await daemon.tcp.post("/api/chat", json=body)).json()
    assert gone["done_reason"] == "unload"
    assert (await daemon.tcp.get("/api/ps")).json() == {"models": []}
    await chat(daemon, keep_alive="0s")
    await daemon.until(lambda: not daemon.services.manager.loaded())


@pytest.mark.slow
async def test_returned_context_is_a_prefix_of_the_next_prompt(daemon: RunningDaemon) -> None:
    body: dict[str, Any] = {"model": "echo:1", "prompt": "Hi", "stream": False}
    first = (await daemon.tcp.post("/api/generate", json=body)).json()
    assert first["response"] == REPLY
    assert bytes(token for token in first["context"] if token < 256).endswith(REPLY.encode())
    body |= {"prompt": "And?", "context": first["context"]}
    second = (await daemon.tcp.post("/api/generate", json=body)).json()
    known = len(first["context"])
    assert second["context"][:known] == first["context"]
    added = second["context"][known : second["prompt_eval_count"]]
    # The template's end of the answer, and a new turn.
    assert bytes(token for token in added if token < 256) == b"\nuser\nAnd?\nassistant\n"
    assert added[0] == 259


@pytest.mark.slow
async def test_raw_prompts_return_no_context(daemon: RunningDaemon) -> None:
    body = {"model": "echo:1", "prompt": "Hi", "raw": True}
    *_, last = [line async for line in lines(daemon, "/api/generate", body)]
    assert last["done"]
    assert "context" not in last
    assert last["prompt_eval_count"] == 3
    error = await refusal(daemon, "/api/generate", prompt="Hi", raw=True, system="Be brief.")
    assert "raw" in error


@pytest.mark.parametrize(
    ("fields", "error_word"),
    [
        ({"template": "{{ .Prompt }}"}, "template"),
        ({"images": ["aGk="]}, "images"),
        ({"format": "yaml"}, "format"),
        ({"keep_alive": "soon"}, "keep_alive"),
        ({"think": True}, "thinking"),
        ({"context": [-1]}, "context"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"model": ""}, "model"),
    ],
)
async def test_unsupported_fields_are_refused(
    daemon: RunningDaemon, fields: dict[str, Any], error_word: str
) -> None:
    assert error_word in await refusal(daemon, "/api/generate", **({"prompt": "Hi"} | fields))


async def test_unknown_model_error_has_the_wording_clients_parse(daemon: RunningDaemon) -> None:
    error = await refusal(daemon, "/api/chat", model="llama9:7b", messages=HI)
    assert error.startswith("model 'llama9:7b' not found")


async def test_logprobs(daemon: RunningDaemon) -> None:
    answer = await chat(daemon, logprobs=True, top_logprobs=2, options={"num_predict": 2})
    assert [entry["token"] for entry in answer["logprobs"]] == ["H", "e"]
    assert all(entry["top_logprobs"][0]["token"] for entry in answer["logprobs"])
    assert "logprobs" not in await chat(daemon)


@pytest.mark.slow
async def test_error_in_a_stream_is_its_last_line(run_daemon: DaemonFactory) -> None:
    script = {"reply": REPLY, "die_at": 5, "step_seconds": 0.01}
    async with run_daemon(script=script, create_backend=WorkerProcess) as daemon:
        body = {"model": "echo:1", "messages": HI}
        *pieces, last = [line async for line in lines(daemon, "/api/chat", body)]
        assert pieces
        assert set(last) == {"error"}


@pytest.mark.slow
async def test_headers_are_sent_while_the_model_loads(run_daemon: DaemonFactory) -> None:
    script = {"reply": REPLY, "load_seconds": 1.0}
    async with run_daemon(script=script, create_backend=WorkerProcess) as daemon:
        body = {"model": "echo:1", "messages": HI}
        async with daemon.unix.stream("POST", "/api/chat", json=body) as response:
            assert response.status_code == 200
            assert response.headers["content-type"] == "application/x-ndjson"
            (loaded,) = daemon.services.manager.loaded()
            assert loaded.state == "starting"
            content = await response.aread()
        assert all(json.loads(line)["model"] == "echo:1" for line in content.splitlines())
