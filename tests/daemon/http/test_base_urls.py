"""A base URL that is nearly right is understood, or the error says what it should be."""

from __future__ import annotations

from typing import Any

import pytest

from ..conftest import DaemonFactory, RunningDaemon

HI = [{"role": "user", "content": "Hi"}]
CHAT: dict[str, Any] = {"model": "echo:1", "messages": HI}
REPLY = "Hello from the scripted model."


@pytest.mark.parametrize(
    "prefix",
    [
        *("/v1/v1", "/openai/v1", "/api/openai/v1", "//v1", "/v1/", "/engines/llama.cpp/v1"),
        *("/v1/chat/completions", "/v1/chat/completions/v1", "/v1beta/openai"),
        "/openai/deployments/echo",
    ],
)
async def test_openai_clients(daemon: RunningDaemon, prefix: str) -> None:
    answer = await daemon.tcp.post(f"{prefix}/chat/completions", json=CHAT)
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"] == REPLY


@pytest.mark.parametrize("path", ["/v1/v1/models", "/api/openai/v1/models/", "/v1//models"])
async def test_lists_of_models(daemon: RunningDaemon, path: str) -> None:
    listed = (await daemon.tcp.get(path)).json()
    assert [model["id"] for model in listed["data"]] == ["echo:1"]


async def test_other_protocols(daemon: RunningDaemon) -> None:
    body = {**CHAT, "max_tokens": 100}
    for path in ("/v1/v1/messages", "/anthropic/v1/messages", "/v1/messages/v1/messages"):
        assert (await daemon.tcp.post(path, json=body)).json()["content"][0]["text"] == REPLY
    body = {**CHAT, "stream": False}
    for path in ("/v1/api/chat", "/api/api/chat", "/ollama/api/chat", "/api/chat/"):
        assert (await daemon.tcp.post(path, json=body)).json()["message"]["content"] == REPLY
    body = {"model": "echo:1", "prompt": "Hi"}
    assert (await daemon.tcp.post("/v1/completion", json=body)).json()["content"] == REPLY


async def test_mistral_infill_is_answered_as_a_chat(run_daemon: DaemonFactory) -> None:
    body = {"model": "echo:1", "prompt": "Hi"}
    async with run_daemon() as daemon:
        answer = (await daemon.tcp.post("/v1/fim/completions", json=body)).json()
        assert answer["choices"][0]["message"]["content"] == REPLY
        streamed = await daemon.tcp.post("/v1/fim/completions", json={**body, "stream": True})
        assert "chat.completion.chunk" in streamed.text


@pytest.mark.parametrize(
    ("path", "shape"), [("/v1/nothing", "type"), ("/api/nothing", ""), ("/nothing", "code")]
)
async def test_error_says_what_the_base_url_should_be(
    daemon: RunningDaemon, path: str, shape: str
) -> None:
    answer = await daemon.tcp.post(path, json={})
    assert answer.status_code == 404
    assert f"http://127.0.0.1:{daemon.port}/v1 for OpenAI's API" in answer.text
    error = answer.json()["error"]
    assert shape in error if shape else isinstance(error, str)


async def test_own_api_has_one_path(daemon: RunningDaemon) -> None:
    assert (await daemon.tcp.get("/ingle/v1/status/")).status_code == 200
    for path in ("/x/ingle/v1/status", "/ingle/v1/ingle/v1/status", "/x/metrics"):
        assert (await daemon.tcp.get(path)).status_code == 404


async def test_path_of_a_model_keeps_its_slashes(daemon: RunningDaemon) -> None:
    answer = await daemon.tcp.get("/v1/models//no/such.gguf")
    assert (answer.status_code, "/no/such.gguf" in answer.text) == (404, True)
