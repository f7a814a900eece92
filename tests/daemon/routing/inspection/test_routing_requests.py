"""Routing of requests of every protocol, with a provider that records all it receives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.daemon.conftest import DaemonFactory, RunningDaemon
from tests.daemon.routing.conftest import Sink, SinkExits

CHATS = (
    "openai chat", "openai stream", "responses", "responses stream", "anthropic",
    "ollama chat", "ollama generate", "lm studio",
)  # fmt: skip
"""The other endpoints continue raw text, which providers do not support."""

HARMLESS = "Why is the sky blue?"
CANARY = "My card is 4539 5787 6362 1486, CVV 123. Canary-Q7."
LOCAL_ANSWER = "Hello from the scripted model."


@pytest.fixture
async def daemon(run_daemon: DaemonFactory, egress: SinkExits) -> AsyncGenerator[RunningDaemon]:
    """A daemon with a local model and a provider."""
    async with run_daemon(egress=egress) as running:
        yield running


def chat(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


REQUESTS: dict[str, tuple[str, Callable[[str], dict[str, Any]]]] = {
    "openai chat": ("/v1/chat/completions", lambda t: {"messages": chat(t)}),
    "openai stream": ("/v1/chat/completions", lambda t: {"messages": chat(t), "stream": True}),
    "openai completion": ("/v1/completions", lambda t: {"prompt": t}),
    "openai prompts": ("/v1/completions", lambda t: {"prompt": ["Hello.", t]}),
    "responses": ("/v1/responses", lambda t: {"input": t}),
    "responses stream": ("/v1/responses", lambda t: {"input": t, "stream": True}),
    "anthropic": ("/v1/messages", lambda t: {"messages": chat(t), "max_tokens": 100}),
    "ollama chat": ("/api/chat", lambda t: {"messages": chat(t), "stream": False}),
    "ollama generate": ("/api/generate", lambda t: {"prompt": t, "stream": False}),
    "llama.cpp": ("/completion", lambda t: {"prompt": t}),
    "llama.cpp infill": ("/infill", lambda t: {"input_prefix": t, "input_suffix": "x"}),
    "lm studio": ("/api/v0/chat/completions", lambda t: {"messages": chat(t)}),
    "lm studio completion": ("/api/v0/completions", lambda t: {"prompt": t}),
}


async def ask(daemon: RunningDaemon, kind: str, text: str, model: str = "auto") -> httpx.Response:
    path, body = REQUESTS[kind]
    return await daemon.unix.post(path, json={"model": model, **body(text)})


async def generate(daemon: RunningDaemon, **body: Any) -> list[tuple[str, Any]]:
    started = await daemon.unix.post("/ingle/v1/generations", json=body)
    assert started.status_code == 202, started.text
    return await daemon.events("GET", f"/ingle/v1/generations/{started.json()['id']}/events")


RAW = [k for k in REQUESTS if k in ("openai prompts", "llama.cpp") or "completion" in k]
"""Endpoints that continue raw text, which providers do not support."""


async def test_harmless_requests_are_sent_to_the_provider(
    daemon: RunningDaemon, sink: Sink
) -> None:
    for number, kind in enumerate(CHATS, start=1):
        response = await ask(daemon, kind, HARMLESS)
        assert response.status_code == 200, response.text
        assert "Hello from the cloud." in response.text, kind
        assert response.headers["ingle-route"] == "cloud; model=sink/big; rule=nothing_found"
        assert sink.connections == number, kind
    assert all(HARMLESS in json.dumps(body) for body in sink.bodies)


async def test_sensitive_requests_send_no_byte(daemon: RunningDaemon, sink: Sink) -> None:
    for kind in REQUESTS:
        response = await ask(daemon, kind, CANARY)
        if kind != "llama.cpp infill":  # the scripted model does not support infill
            assert response.status_code == 200, response.text
            assert "echo:1" in response.text or "scripted model" in response.text, kind
            rule = "card=never" if kind in CHATS else "raw_prompt"
            assert response.headers["ingle-route"] == f"local; model=echo:1; rule={rule}"
    assert (sink.connections, bytes(sink.received)) == (0, b"")


@pytest.mark.slow
async def test_sensitive_request_for_a_remote_model_is_refused(
    daemon: RunningDaemon, sink: Sink
) -> None:
    for kind in REQUESTS:
        response = await ask(daemon, kind, CANARY, model="sink/big")
        assert response.status_code == 403, (kind, response.text)
        assert "payment card" in response.text or kind not in CHATS
        assert "auto" in response.text
    assert sink.connections == 0


@pytest.mark.slow
async def test_harmless_request_for_a_remote_model_is_answered(
    daemon: RunningDaemon, sink: Sink
) -> None:
    response = await ask(daemon, "openai chat", HARMLESS, model="sink/other")
    assert response.json()["model"] == "sink/other"
    assert sink.bodies[0]["model"] == "other"


async def test_local_models_by_name_are_never_routed(daemon: RunningDaemon, sink: Sink) -> None:
    response = await ask(daemon, "openai chat", HARMLESS, model="echo:1")
    assert LOCAL_ANSWER in response.text
    assert "ingle-route" not in response.headers
    assert sink.connections == 0


async def test_every_part_of_a_request_is_inspected(daemon: RunningDaemon, sink: Sink) -> None:
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "f", "arguments": json.dumps({"a": CANARY})},
    }
    tool: dict[str, Any] = {
        "type": "function",
        "function": {"name": "f", "description": CANARY, "parameters": {}},
    }
    schema = {"type": "object", "properties": {"a": {"const": CANARY}}}
    bodies: list[dict[str, Any]] = [
        {"messages": [{"role": "system", "content": CANARY}, *chat("hi")]},
        {"messages": [*chat(CANARY), {"role": "assistant", "content": "ok"}, *chat("hi")]},
        {"messages": [*chat("a"), {"role": "assistant", "content": "", "tool_calls": [call]},
                      {"role": "tool", "tool_call_id": "c", "content": "1"}]},
        {"messages": [*chat("a"), {"role": "assistant", "content": CANARY}, *chat("hi")]},
        {"messages": [{"role": "user", "content": "hi", "name": CANARY}]},
        {"messages": chat("hi"), "tools": [tool]},
        {"messages": chat("hi"), "stop": [CANARY]},
        {"messages": chat("hi"), "response_format": {
            "type": "json_schema", "json_schema": {"name": "x", "schema": schema}}},
        {"messages": chat("hi"), "chat_template_kwargs": {"x": CANARY}},
        {"messages": chat("hi"), "chat_template_kwargs": {CANARY: 1}},
    ]  # fmt: skip
    for body in bodies:
        response = await daemon.unix.post("/v1/chat/completions", json={"model": "auto", **body})
        assert response.headers.get("ingle-route", "local").startswith("local"), body
    assert sink.connections == 0


async def test_requests_with_token_ids_stay_local(daemon: RunningDaemon, sink: Sink) -> None:
    for path, body in (
        ("/api/generate", {"prompt": "hi", "context": [1, 2, 3], "stream": False}),
        ("/v1/chat/completions", {"messages": chat("hi"), "logit_bias": {"5": 1}}),
    ):
        response = await daemon.unix.post(path, json={"model": "auto", **body})
        assert response.status_code == 200, response.text
        assert "uninspectable" in response.headers["ingle-route"]
    assert sink.connections == 0


async def test_private_requests_stay_local(daemon: RunningDaemon, sink: Sink) -> None:
    body = {"model": "auto", "messages": chat(HARMLESS)}
    for more, headers in (({"ingle": {"private": True}}, {}), ({}, {"ingle-private": "1"})):
        response = await daemon.unix.post("/v1/chat/completions", json=body | more, headers=headers)
        assert response.headers["ingle-route"] == "local; model=echo:1; rule=private"
    refused = await daemon.unix.post(
        "/v1/chat/completions", json=body | {"model": "sink/big", "ingle": {"private": True}}
    )
    assert refused.status_code == 403
    assert refused.json()["error"]["code"] == "route_refused"
    assert sink.connections == 0


async def test_continuation_of_a_private_request_stays_local(
    daemon: RunningDaemon, sink: Sink
) -> None:
    """The conversation continues with `auto` instead of a local model, without the private flag."""
    private = {"model": "echo:1", "messages": chat(HARMLESS), "ingle": {"private": True}}
    await daemon.unix.post("/v1/chat/completions", json=private)
    await generate(daemon, model="echo:1", messages=chat("What is a fjord?"), private=True)
    for first in (HARMLESS, "What is a fjord?"):
        conversation = [*chat(first), {"role": "assistant", "content": "ok"}, *chat("And then?")]
        body = {"model": "auto", "messages": conversation}
        response = await daemon.unix.post("/v1/chat/completions", json=body)
        assert response.headers["ingle-route"] == "local; model=echo:1; rule=taint"
    assert sink.connections == 0


async def test_routes_are_listed_only_with_a_usable_provider(
    daemon: RunningDaemon, egress: SinkExits
) -> None:
    listed = (await daemon.unix.get("/v1/models")).json()["data"]
    auto = next(model for model in listed if model["id"] == "auto")
    assert auto["root"] == "echo:1"
    assert auto["ingle"] == {"route": {"remote": "sink/big", "prefer": "cloud"}}
    egress.refuses = "It has no key."
    listed = (await daemon.unix.get("/v1/models")).json()["data"]
    assert [model["id"] for model in listed] == ["echo:1"]
    assert (await daemon.unix.get("/v1/models/auto")).json()["id"] == "echo:1"


async def test_request_can_demand_a_local_route(daemon: RunningDaemon, sink: Sink) -> None:
    for model in ("auto", "sink/big"):
        body = {"model": model, "messages": chat(HARMLESS), "ingle": {"route": "local"}}
        response = await daemon.unix.post("/v1/chat/completions", json=body)
        assert LOCAL_ANSWER in response.text
        assert response.json()["model"] == "echo:1"
    ask_first = {"model": "auto", "messages": chat(HARMLESS), "ingle": {"route": "ask"}}
    response = await daemon.unix.post("/v1/chat/completions", json=ask_first)
    assert response.headers["ingle-route"] == "local; model=echo:1; rule=ask_first"
    assert sink.connections == 0
    auto = {"model": "echo:1", "messages": chat(HARMLESS), "ingle": {"route": "auto"}}
    response = await daemon.unix.post("/v1/chat/completions", json=auto)
    assert response.json()["model"] == "sink/big"


async def test_provider_failure_falls_back_to_the_local_model(
    daemon: RunningDaemon, sink: Sink
) -> None:
    sink.status = 500
    for kind in ("openai chat", "openai stream", "anthropic", "responses"):
        response = await ask(daemon, kind, HARMLESS)
        assert "cloud" not in response.text
        assert response.headers["ingle-route"] == "local; model=echo:1; rule=fallback"
        assert "echo:1" in response.text
    refused = await ask(daemon, "openai chat", HARMLESS, model="sink/big")
    assert refused.status_code >= 500


async def test_uninspectable_requests_stay_local(
    daemon: RunningDaemon, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ingle.daemon.routing.inspection.scanner_process import ScanFailed, ScannerProcess

    def fail(self: ScannerProcess, *args: object) -> Any:
        raise ScanFailed("a detector's bug")

    monkeypatch.setattr(ScannerProcess, "scan", fail)
    response = await ask(daemon, "openai chat", HARMLESS)
    assert "uninspectable" in response.headers["ingle-route"]
    assert sink.connections == 0


async def test_invalid_policy_keeps_everything_local(
    daemon: RunningDaemon, sink: Sink, ingle_home: Path
) -> None:
    policy = daemon.services.router.policy.path
    policy.parent.mkdir(parents=True, exist_ok=True)
    policy.write_text('[classes]\nemial = "allow"\n')
    response = await ask(daemon, "openai chat", HARMLESS)
    assert response.headers["ingle-route"] == "local; model=echo:1; rule=policy_is_wrong"
    explained = await daemon.unix.post("/ingle/v1/routing/explain", json={"text": HARMLESS})
    assert explained.status_code == 409
    assert "line 2" in explained.text
    state = (await daemon.unix.get("/ingle/v1/routing")).json()
    assert not state["enabled"]
    assert "emial" in state["policy_trouble"]
    policy.unlink()
    response = await ask(daemon, "openai chat", HARMLESS)
    assert response.headers["ingle-route"].startswith("cloud")
    assert sink.connections == 1


async def test_agents_paths_leave_masked_without_a_question(
    daemon: RunningDaemon, sink: Sink
) -> None:
    """Of what a program wrote only the home folder, so that folders and files keep their names."""
    sink.answer = "Edit [FILE_PATH_1]/shop/cart.py first."
    call = {"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    response = await daemon.unix.post(
        "/v1/chat/completions",
        json={
            "model": "auto",
            "tools": [{"type": "function", "function": {"name": "ls"}}],
            "messages": [
                {"role": "system", "content": "Work in /home/marie/shop only."},
                {"role": "user", "content": "Why does the test of the cart fail?"},
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {
                    "role": "tool",
                    "tool_call_id": "c",
                    "content": "/home/marie/shop/cart.py\n/home/marie/shop/tests/test_cart.py",
                },
            ],
        },
    )
    assert response.headers["ingle-route"] == "redact; model=sink/big; rule=file_path=mask"
    assert "Edit /home/marie/shop/cart.py first." in response.text
    (sent,) = sink.bodies
    assert sent["messages"][0]["content"] == "Work in [FILE_PATH_1]/shop only."
    assert sent["messages"][3]["content"].endswith("[FILE_PATH_1]/shop/tests/test_cart.py")
    assert "marie" not in json.dumps(sent)
    explained = await daemon.unix.post(
        "/ingle/v1/routing/explain", json={"text": "What is in /home/marie/tax/2023.pdf?"}
    )
    assert explained.json()["redacted"][0]["text"] == "What is in [FILE_PATH_1]?"


async def test_generations_report_their_route(daemon: RunningDaemon, sink: Sink) -> None:
    events = await generate(daemon, model="auto", messages=chat(HARMLESS))
    assert [name for name, _ in events][:2] == ["route", "started"]
    assert events[0][1] == {
        "verdict": "cloud",
        "rule": "nothing_found",
        "reason": "Nothing sensitive was found.",
        "provider": "sink",
        "model": "big",
        "redacted": [],
    }
    assert "".join(data["text"] for name, data in events if name == "delta") == sink.answer
    events = await generate(daemon, model="auto", messages=chat(CANARY))
    route = next(data for name, data in events if name == "route")
    assert (route["verdict"], route["provider"], route["model"]) == ("local", "", "echo:1")
    assert sink.connections == 1
    refused = await daemon.unix.post(
        "/ingle/v1/generations", json={"model": "sink/big", "messages": chat(CANARY)}
    )
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "route_refused")
    sink.status = 503
    events = await generate(daemon, model="auto", messages=chat(HARMLESS))
    route = next(data for name, data in events if name == "route")
    assert (route["rule"], route["model"]) == ("fallback", "echo:1")


async def test_batch_requests_are_inspected(daemon: RunningDaemon, sink: Sink) -> None:
    lines = [
        {"custom_id": str(n), "method": "POST", "url": "/v1/chat/completions",
         "body": {"model": "auto", "messages": chat(text)}}
        for n, text in enumerate([CANARY, HARMLESS])
    ]  # fmt: skip
    content = "\n".join(json.dumps(line) for line in lines).encode()
    uploaded = await daemon.unix.post(
        "/v1/files", data={"purpose": "batch"}, files={"file": ("b.jsonl", content)}
    )
    batch = await daemon.unix.post(
        "/v1/batches",
        json={
            "input_file_id": uploaded.json()["id"],
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
        },
    )
    async with asyncio.timeout(10):
        while (state := (await daemon.unix.get(f"/v1/batches/{batch.json()['id']}")).json())[
            "status"
        ] not in ("completed", "failed"):
            await asyncio.sleep(0.02)
    assert state["status"] == "completed", state
    assert b"4539" not in sink.received
    assert HARMLESS.encode() in sink.received


async def test_counting_and_embedding_stay_local(daemon: RunningDaemon, sink: Sink) -> None:
    for path, body in (
        ("/v1/messages/count_tokens", {"messages": chat(HARMLESS)}),
        ("/v1/responses/input_tokens", {"input": HARMLESS}),
        ("/ingle/v1/tokens", {"messages": chat(HARMLESS), "load": True}),
        ("/tokenize", {"content": HARMLESS}),
        ("/v1/embeddings", {"input": HARMLESS}),
        ("/api/embed", {"input": HARMLESS}),
        ("/v1/rerank", {"query": HARMLESS, "documents": ["a"]}),
    ):
        for model in ("auto", "sink/big"):
            await daemon.unix.post(path, json={"model": model, **body})
    assert sink.connections == 0


async def test_requests_are_not_inspected_without_a_provider(
    run_daemon: DaemonFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ingle.daemon.routing.inspection.request_inspector import RequestInspector

    async def fail(self: RequestInspector, *args: object) -> Any:
        raise AssertionError("nothing could leave")

    monkeypatch.setattr(RequestInspector, "inspect", fail)
    async with run_daemon() as daemon:
        for kind in ("openai chat", "anthropic", "ollama chat", "responses"):
            response = await ask(daemon, kind, CANARY)
            assert LOCAL_ANSWER in response.text
            assert "no_provider" in response.headers["ingle-route"]
        assert (await ask(daemon, "openai chat", CANARY, model="sink/big")).status_code == 404


async def test_offline_daemon_has_no_providers(run_daemon: DaemonFactory, sink: Sink) -> None:
    async with run_daemon(offline=True) as daemon:
        response = await ask(daemon, "openai chat", HARMLESS)
        assert "no_provider" in response.headers["ingle-route"]
        state = (await daemon.unix.get("/ingle/v1/routing")).json()
        assert (state["offline"], state["enabled"], state["providers"]) == (True, False, [])
    assert sink.connections == 0
