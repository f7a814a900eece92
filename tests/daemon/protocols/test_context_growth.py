"""A prompt that does not fit has the model loaded with more context, from every protocol."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ..conftest import MIB, DaemonFactory, RunningDaemon

LONG = "x" * 1700
MESSAGES = [{"role": "user", "content": LONG}]
REPLY = "Hello from the scripted model."
REQUESTS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": MESSAGES},
    "/v1/completions": {"prompt": LONG},
    "/v1/responses": {"input": LONG},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 100},
    "/api/chat": {"messages": MESSAGES, "stream": False},
    "/api/generate": {"prompt": LONG, "stream": False},
    "/completion": {"prompt": LONG},
    "/api/v0/chat/completions": {"messages": MESSAGES},
    "/api/v1/chat": {"input": LONG},
}
TRAINED = {"trained_context": 8192}


async def load(daemon: RunningDaemon, context: int) -> None:
    body = {"model": "echo:1", "context": context}
    assert (await daemon.tcp.post("/ingle/v1/load", json=body)).json()["context"] == context


async def loaded_context(daemon: RunningDaemon) -> int:
    (model,) = (await daemon.tcp.get("/ingle/v1/status")).json()["models"]
    return model["context"]


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
async def test_long_prompt_is_answered_by_every_protocol(
    run_daemon: DaemonFactory, stream: bool
) -> None:
    async with run_daemon(script=TRAINED) as daemon:
        for path, body in REQUESTS.items():
            await load(daemon, 512)
            answer = await daemon.tcp.post(path, json={**body, "model": "echo:1", "stream": stream})
            assert answer.status_code == 200, (path, answer.text)
            assert "exceeded" not in answer.text, path
            # Streamed, each token is a letter of its own.
            assert len(answer.text) > 1000 if stream else "scripted" in answer.text, path
            assert await loaded_context(daemon) >= 1792, path
        await load(daemon, 512)
        body = {"model": "echo:1", "messages": MESSAGES}
        started = await daemon.tcp.post("/ingle/v1/generations", json=body)
        events = await daemon.tcp.get(f"/ingle/v1/generations/{started.json()['id']}/events")
        assert '"finished"' in events.text or "event: finished" in events.text
        assert await loaded_context(daemon) >= 1792


async def test_prompts_of_one_request_grow_the_context_together(run_daemon: DaemonFactory) -> None:
    prompts = [LONG, "Hi", LONG * 2, "Ho"]
    async with run_daemon(script=TRAINED) as daemon:
        answer = await daemon.tcp.post(
            "/v1/completions", json={"model": "echo:1", "prompt": prompts}
        )
        assert [choice["text"] for choice in answer.json()["choices"]] == [REPLY] * 4
        assert await loaded_context(daemon) >= 3400


async def test_concurrent_requests_share_the_larger_context(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script={**TRAINED, "step_seconds": 0.002}) as daemon:
        bodies = [{"model": "echo:1", "prompt": text} for text in ("Hi", LONG, "Ho", LONG * 2)]
        answers = await asyncio.gather(
            *(daemon.tcp.post("/v1/completions", json=body) for body in bodies)
        )
        assert [answer.json()["choices"][0]["text"] for answer in answers] == [REPLY] * 4


async def test_answer_gets_space_if_more_context_is_possible(run_daemon: DaemonFactory) -> None:
    body = {"model": "echo:1", "prompt": "x" * 500}
    async with run_daemon(script=TRAINED) as daemon:
        choice = (await daemon.tcp.post("/v1/completions", json=body)).json()["choices"][0]
        assert (choice["text"], choice["finish_reason"]) == (REPLY, "stop")
    async with run_daemon() as daemon:  # it is trained for no more
        choice = (await daemon.tcp.post("/v1/completions", json=body)).json()["choices"][0]
        assert choice["finish_reason"] == "length"


async def test_reloading_counts_as_loading(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script={**TRAINED, "load_seconds": 0.2}) as daemon:
        await load(daemon, 512)
        body = {"model": "echo:1", "prompt": LONG, "stream": False}
        answer = (await daemon.tcp.post("/api/generate", json=body)).json()
        assert answer["load_duration"] >= 0.2e9


async def refusal(daemon: RunningDaemon, body: dict[str, Any]) -> str:
    answer = await daemon.tcp.post("/v1/completions", json={"model": "echo:1", **body})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    return answer.json()["error"]["message"]


async def test_error_says_which_limit_to_raise(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script=TRAINED, max_context=1024) as daemon:
        assert "raise `max_context` in the configuration to more than 17" in await refusal(
            daemon, {"prompt": LONG}
        )
    async with run_daemon(script=TRAINED, memory_limit=MIB + 64 * 1000) as daemon:
        error = await refusal(daemon, {"prompt": LONG})
        assert "free memory: a context of 1792 tokens needs" in error
        assert "`ingle load echo:1 --context 1792 --kv-type q4_0`" in error
        assert await loaded_context(daemon) == 512  # it was not unloaded in vain
        body = {"model": "echo:1", "prompt": LONG, "options": {"num_ctx": 256}}
        answer = await daemon.tcp.post("/api/generate", json=body)
        assert "send a `num_ctx` of more than 17" in answer.json()["error"]


async def test_all_lists_say_the_same_context(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script=TRAINED) as daemon:

        async def contexts() -> set[int]:
            get, post = daemon.tcp.get, daemon.tcp.post
            model = (await get("/v1/models/echo:1")).json()
            shown = (await post("/api/show", json={"model": "echo:1"})).json()
            props = (await get("/props")).json()
            (tag,) = (await get("/api/tags")).json()["models"]
            (listed,) = (await get("/api/v0/models")).json()["data"]
            running = (await get("/api/ps")).json()["models"]
            return {
                *(model["context_length"], model["max_model_len"], model["meta"]["n_ctx"]),
                *(shown["details"]["context_length"], tag["details"]["context_length"]),
                *(value for key, value in shown["model_info"].items() if "context" in key),
                props["default_generation_settings"]["n_ctx"],
                listed["max_context_length"],
                *(each["context_length"] for each in running),
            }

        assert len(await contexts()) == 1
        await load(daemon, 1024)
        assert await contexts() == {1024}


async def test_a_file_that_says_less_than_its_engine_bounds_the_context(
    run_daemon: DaemonFactory,
) -> None:
    async with run_daemon(script={"trained_context": 1_000_000}) as daemon:
        body = {"model": "echo:1", "prompt": "x" * 100_000}
        answer = await daemon.tcp.post("/v1/completions", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"
