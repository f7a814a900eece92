"""LM Studio endpoints over real sockets, with a scripted model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ...conftest import RunningDaemon

FuzzEndpoint = Callable[..., Awaitable[Counter[int]]]

REPLY = "Hello from the scripted model."
CHAT: dict[str, Any] = {"model": "echo:1", "messages": [{"role": "user", "content": "Hi"}]}


def is_error(body: Any) -> None:
    (error,) = body.values()
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]


async def test_models_report_whether_they_are_loaded(daemon: RunningDaemon) -> None:
    (model,) = (await daemon.tcp.get("/api/v0/models")).json()["data"]
    assert model == {
        "id": "echo:1",
        "object": "model",
        "type": "llm",
        "publisher": "ingle",
        "arch": "llama",
        "compatibility_type": "gguf",
        "quantization": "Q8_0",
        "state": "not-loaded",
        "max_context_length": 512,
        "capabilities": [],
    }
    await daemon.tcp.post("/api/v0/chat/completions", json=CHAT)
    one = (await daemon.tcp.get("/api/v0/models/echo:1")).json()
    assert (one["state"], one["loaded_context_length"]) == ("loaded", 512)
    missing = await daemon.tcp.get("/api/v0/models/nope")
    assert missing.status_code == 404
    is_error(missing.json())


async def test_answers_have_stats(daemon: RunningDaemon) -> None:
    answer = (await daemon.tcp.post("/api/v0/chat/completions", json=CHAT)).json()
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["content"] == REPLY
    assert answer["stats"]["stop_reason"] == "eosFound"
    assert answer["stats"]["tokens_per_second"] > 0
    assert answer["model_info"]["context_length"] == 512
    assert answer["runtime"]["name"].startswith("ingle-")
    body = {"model": "echo:1", "prompt": "Hi", "max_tokens": 5}
    plain = (await daemon.tcp.post("/api/v0/completions", json=body)).json()
    assert (plain["object"], plain["choices"][0]["text"]) == ("text_completion", "Hello")
    assert plain["stats"]["stop_reason"] == "maxPredictedTokensReached"
    stopped = (await daemon.tcp.post("/api/v0/completions", json=body | {"stop": "l"})).json()
    assert stopped["stats"]["stop_reason"] == "stopStringFound"


async def test_stream_has_openais_format(daemon: RunningDaemon) -> None:
    body = CHAT | {"stream": True}
    events = [
        data for _, data in await daemon.events("POST", "/api/v0/chat/completions", json=body)
    ]
    assert events[-1] == "[DONE]"
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in events[:-1])
    assert text == REPLY


async def test_ttl_sets_the_keep_alive(daemon: RunningDaemon) -> None:
    await daemon.tcp.post("/api/v0/chat/completions", json=CHAT | {"ttl": 0})
    await daemon.until(lambda: not daemon.services.manager.loaded())


async def test_models_are_loaded_and_unloaded_on_demand(daemon: RunningDaemon) -> None:
    body = {"model": "echo:1", "context_length": 640, "echo_load_config": True}
    loaded = (await daemon.tcp.post("/api/v1/models/load", json=body)).json()
    assert (loaded["type"], loaded["instance_id"], loaded["status"]) == ("llm", "echo:1", "loaded")
    assert loaded["load_config"]["context_length"] == 640
    (model,) = (await daemon.tcp.get("/api/v1/models")).json()["models"]
    assert (model["key"], model["loaded_instances"][0]["id"]) == ("echo:1", "echo:1")
    body = {"instance_id": "echo:1"}
    gone = await daemon.tcp.post("/api/v1/models/unload", json=body)
    assert gone.json() == body
    again = await daemon.tcp.post("/api/v1/models/unload", json=body)
    assert again.status_code == 404
    is_error(again.json())


@pytest.mark.slow
async def test_malformed_requests(daemon: RunningDaemon, fuzz_endpoint: FuzzEndpoint) -> None:
    body = CHAT | {"max_tokens": 2, "ttl": 60, "tools": [], "stop": ["x"], "stream": False}
    statuses = await fuzz_endpoint(daemon, "/api/v0/chat/completions", [body], is_error)
    assert statuses.total() == 1000
    assert statuses[200] > 0
    body = {"model": "echo:1", "prompt": "Hi", "max_tokens": 2, "ttl": 60}
    await fuzz_endpoint(daemon, "/api/v0/completions", [body], is_error, count=300)
    body = {"model": "echo:1", "input": "Hi", "system_prompt": "Be brief.", "max_output_tokens": 2}
    body |= {"context_length": 512, "reasoning": "off", "top_k": 3, "store": False, "stream": False}
    await fuzz_endpoint(daemon, "/api/v1/chat", [body], is_error, count=300)
    body = {"model": "echo:1", "context_length": 512, "echo_load_config": True, "ttl": 60}
    await fuzz_endpoint(daemon, "/api/v1/models/load", [body], is_error, count=200)
    await fuzz_endpoint(
        daemon, "/api/v1/models/unload", [{"instance_id": "a"}], is_error, count=100
    )
