"""The native API over real sockets, with a scripted model."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from ingle.backends.base.conversation import Reasoning, Tool, ToolChoice
from ingle.backends.base.events import (
    Delta,
    Finished,
    FinishReason,
    ReasoningDelta,
    Started,
    ToolCallDelta,
    ToolCallStarted,
)
from ingle.backends.worker.supervisor.worker_process import WorkerProcess
from ingle.daemon.machine.device_meters import DeviceGauges
from ingle.daemon.server.gauge_publisher import GaugePublisher
from ingle.models.store.model_removal import RemovalReport
from ingle.models.store.model_store import ModelStore

if TYPE_CHECKING:
    from ...conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

REPLY = "Hello from the scripted model."
HI = [{"role": "user", "content": "Hi"}]
ENDLESS = {"reply": "x" * 400, "step_seconds": 0.01}
GENERATIONS = "/ingle/v1/generations"


async def start(daemon: RunningDaemon, **fields: Any) -> str:
    answer = await daemon.unix.post(GENERATIONS, json={"messages": HI, **fields})
    assert answer.status_code == 202, answer.text
    assert answer.json()["model"] == "echo:1"
    return answer.json()["id"]


async def follow(daemon: RunningDaemon, id: str, **kwargs: Any) -> list[tuple[str, Any]]:  # noqa: A002
    return await daemon.events("GET", f"{GENERATIONS}/{id}/events", **kwargs)


def text_of(events: list[tuple[str, Any]]) -> str:
    return "".join(data["text"] for name, data in events if name == "delta")


async def refusal(daemon: RunningDaemon, method: str, path: str, **kwargs: Any) -> Any:
    answer = await daemon.unix.request(method, path, **kwargs)
    error = answer.json()["error"]
    assert set(error) == {"code", "message", "hint"}
    return answer.status_code, error["code"]


async def test_status(daemon: RunningDaemon) -> None:
    status = (await daemon.unix.get("/ingle/v1/status")).json()
    assert status["pid"] == os.getpid()
    assert status["socket"] == str(daemon.socket)
    assert status["address"] == f"127.0.0.1:{daemon.port}"
    assert status["default_model"] == "echo:1"
    assert status["models"] == []
    assert status["uptime"] >= 0
    assert 0 < status["memory"]["available"] <= status["memory"]["total"]
    assert status["memory"]["daemon_rss"] > 0


async def test_models_are_listed_installed_first(daemon: RunningDaemon) -> None:
    first, *offered = (await daemon.unix.get("/ingle/v1/models")).json()["models"]
    assert (first["name"], first["installed"], first["state"]) == ("echo:1", True, "stopped")
    assert first["default"] is True
    assert Path(first["path"]).name == "model.gguf"
    assert offered
    assert all(not m["installed"] and m["state"] == "available" for m in offered)
    assert all(m["path"] is None and not m["default"] for m in offered)


async def test_models_report_whether_they_fit(daemon: RunningDaemon) -> None:
    answer = (await daemon.unix.get("/ingle/v1/models")).json()
    assert answer["disk_free"] > 0
    assert answer["pulls"] == []
    for model in answer["models"]:
        fit = model["fit"]
        assert fit["state"] in ("fits", "spills", "no")
        assert fit["needs_bytes"] > model["size"]
    await daemon.unix.post("/ingle/v1/load", json={"model": "echo", "context": 256})
    loaded = (await daemon.unix.get("/ingle/v1/models/echo")).json()["fit"]
    assert (loaded["state"], loaded["context"]) == ("fits", 256)


async def test_model_of_the_catalog_is_found_on_request(daemon: RunningDaemon) -> None:
    entry = daemon.services.catalog.default
    path = f"/ingle/v1/models/{entry.name}"
    assert await refusal(daemon, "GET", path) == (404, "model_not_found")
    found = (await daemon.unix.get(f"{path}?catalog=true")).json()
    assert (found["name"], found["installed"]) == (entry.full_name, False)
    assert (await daemon.unix.get("/ingle/v1/models/echo?catalog=true")).json()["installed"]
    unknown = "/ingle/v1/models/nothing?catalog=true"
    assert await refusal(daemon, "GET", unknown) == (404, "model_not_found")


async def test_load_and_unload(daemon: RunningDaemon) -> None:
    body = {"model": "echo", "context": 256, "keep_alive": -1}
    loaded = (await daemon.unix.post("/ingle/v1/load", json=body)).json()
    assert (loaded["name"], loaded["state"], loaded["context"]) == ("echo:1", "ready", 256)
    assert (loaded["engine"], loaded["fraction"], loaded["error"]) == ("scripted", 1.0, None)
    assert loaded["expires_in"] is None
    assert (await daemon.unix.get("/ingle/v1/status")).json()["models"][0]["state"] == "ready"
    unloaded = await daemon.unix.post("/ingle/v1/unload", json={"model": "echo:1"})
    assert unloaded.json() == {"unloaded": ["echo:1"]}
    assert (await daemon.unix.post("/ingle/v1/unload")).json() == {"unloaded": []}
    assert (await daemon.unix.get("/ingle/v1/status")).json()["models"] == []


@pytest.mark.slow
async def test_loaded_model_reports_its_memory(run_daemon: DaemonFactory) -> None:
    async with run_daemon(create_backend=WorkerProcess) as daemon:
        loaded = (await daemon.unix.post("/ingle/v1/load", json={"model": "echo:1"})).json()
        assert loaded["pid"] not in (None, os.getpid())
        assert loaded["rss"] > 2**20
        assert 0 < loaded["expires_in"] <= 900


async def test_removing_a_model_unloads_it_first(daemon: RunningDaemon) -> None:
    await daemon.unix.post("/ingle/v1/load", json={"model": "echo:1"})
    removed = (await daemon.unix.delete("/ingle/v1/models/echo")).json()
    assert removed["removed"] == "echo:1"
    assert removed["freed"] > 0
    assert daemon.services.manager.loaded() == []
    assert daemon.services.store.list() == []
    assert await refusal(daemon, "DELETE", "/ingle/v1/models/echo:1") == (404, "model_not_found")


async def test_model_loaded_during_its_removal_is_unloaded(
    daemon: RunningDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, loop = daemon.services.store, asyncio.get_running_loop()
    remove = store.remove

    def remove_late(self: ModelStore, reference: str, *, delete_file: bool) -> RemovalReport:
        loading = daemon.services.manager.load("echo:1")
        assert asyncio.run_coroutine_threadsafe(loading, loop).result(5).state == "ready"
        return remove(reference, delete_file=delete_file)

    monkeypatch.setattr(ModelStore, "remove", remove_late)
    assert (await daemon.unix.delete("/ingle/v1/models/echo")).status_code == 200
    assert daemon.services.manager.loaded() == []


async def test_file_is_added_by_path_and_removed_without_deleting_it(
    daemon: RunningDaemon, make_bert: Callable[..., Path]
) -> None:
    path = make_bert()
    body = {"path": str(path), "name": "mine"}
    added = await daemon.unix.post("/ingle/v1/models", json=body)
    assert (added.status_code, added.json()["path"]) == (200, str(path))
    name = added.json()["name"]
    listed = (await daemon.unix.get("/ingle/v1/models")).json()["models"]
    assert name in {model["name"] for model in listed if model["place"]}
    planned = await daemon.unix.delete(f"/ingle/v1/models/{name}?dry_run=true")
    assert planned.json()["keeps"] == [str(path)]
    assert (await daemon.unix.delete(f"/ingle/v1/models/{name}")).json() == planned.json()
    assert path.exists()
    quoted = str(path).replace("/", "%2F")
    refused = await daemon.unix.delete(f"/ingle/v1/models/{quoted}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "not_ours")
    relative = await daemon.unix.post("/ingle/v1/models", json={"path": "m.gguf"})
    assert relative.status_code == 400


async def test_added_files_with_unknown_digests_are_not_called_identical(
    daemon: RunningDaemon, make_bert: Callable[..., Path], tmp_path: Path
) -> None:
    longer = tmp_path / "longer.gguf"
    longer.write_bytes(make_bert().read_bytes() + bytes(32))
    for path, name in ((make_bert(), "one"), (longer, "two")):
        body = {"path": str(path), "name": name}
        assert (await daemon.unix.post("/ingle/v1/models", json=body)).status_code == 200
    listed = (await daemon.unix.get("/ingle/v1/models")).json()["models"]
    added = [model for model in listed if model["place"]]
    assert len(added) == 2
    assert [model["same_as"] for model in added] == [None, None]


async def test_generation_from_start_to_end(daemon: RunningDaemon) -> None:
    id_ = await start(daemon, sampling={"temperature": 0}, max_tokens=100)
    assert id_.startswith("gen-")
    events = await follow(daemon, id_)
    names = [name for name, _ in events]
    assert names[0] == "loading"
    assert "started" in names
    assert names[-1] == "finished"
    assert text_of(events) == REPLY
    started = next(data for name, data in events if name == "started")
    finished = events[-1][1]
    assert finished["reason"] == "stop"
    assert finished["prompt_tokens"] == started["prompt_tokens"] > 0
    assert finished["completion_tokens"] >= len(REPLY)
    assert finished["context"] == started["context"] == 512
    assert finished["drafted_tokens"] == finished["accepted_tokens"] == 0
    assert sum(data["tokens"] for name, data in events if name == "delta") > 0
    status = (await daemon.unix.get(f"{GENERATIONS}/{id_}")).json()
    assert status["state"] == "finished"
    assert status["text"] == REPLY
    assert status["events"] == len(events)
    assert status["finished"] == finished
    assert status["error"] is None


async def test_client_may_choose_the_generation_id(daemon: RunningDaemon) -> None:
    chosen = "gen-" + "0123456789ab" * 2
    assert await start(daemon, id=chosen) == chosen
    assert text_of(await follow(daemon, chosen)) == REPLY
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    for id_, refused in (
        (chosen, (409, "generation_exists")),
        ("gen-1", (400, "invalid_request")),
        (chosen + "/../x", (400, "invalid_request")),
        (chosen + "\n", (400, "invalid_request")),
    ):
        assert await refusal(daemon, "POST", GENERATIONS, json=body | {"id": id_}) == refused


async def test_raw_prompt_with_the_default_model(daemon: RunningDaemon) -> None:
    events = await follow(daemon, await start(daemon, messages=None, prompt="Once", max_tokens=5))
    assert text_of(events) == "Hello"
    assert events[-1][1]["reason"] == "length"


async def test_events_are_numbered_and_resumable(daemon: RunningDaemon) -> None:
    id_ = await start(daemon)
    whole = await follow(daemon, id_)
    for after in (0, 1, 5, len(whole) - 1, len(whole)):
        assert await follow(daemon, id_, params={"after": after}) == whole[after:]
    # A browser repeats the URL, so Last-Event-ID is newer than the query.
    resumed = await follow(daemon, id_, params={"after": 1}, headers={"Last-Event-ID": "5"})
    assert resumed == whole[5:]
    async with daemon.unix.stream("GET", f"{GENERATIONS}/{id_}/events") as response:
        ids = [line async for line in response.aiter_lines() if line.startswith("id:")]
    assert ids == [f"id: {number}" for number in range(1, len(whole) + 1)]


async def test_reconnecting_client_misses_no_event(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script={"reply": REPLY, "step_seconds": 0.01}) as daemon:
        id_ = await start(daemon)
        seen: list[tuple[str, Any]] = []
        stream = daemon.stream("GET", f"{GENERATIONS}/{id_}/events")
        async for event in stream:
            seen.append(event)
            if len(seen) == 8:
                break
        await stream.aclose()
        assert daemon.leases == 1
        two = await asyncio.gather(
            follow(daemon, id_, params={"after": 8}), follow(daemon, id_, params={"after": 8})
        )
        assert text_of(seen + two[0]) == REPLY
        assert two[0] == two[1]


async def test_invalid_after_parameter_is_refused(daemon: RunningDaemon) -> None:
    id_ = await start(daemon)
    await follow(daemon, id_)
    for after in ("-1", "x", "1.5", "1e3", "999", "9" * 30, "٣"):
        path = f"{GENERATIONS}/{id_}/events"
        assert await refusal(daemon, "GET", path, params={"after": after}) == (
            400,
            "invalid_request",
        )


async def test_cancelling_keeps_the_generated_text(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script=ENDLESS) as daemon:
        id_ = await start(daemon)
        following = asyncio.create_task(follow(daemon, id_))
        generation = daemon.services.generations.get(id_)
        await daemon.until(lambda: len(generation.status().text) >= 3)
        cancelled = (await daemon.unix.post(f"{GENERATIONS}/{id_}/cancel")).json()
        assert cancelled["state"] == "finished"
        assert cancelled["finished"]["reason"] == "cancelled"
        assert cancelled["finished"]["prompt_seconds"] > 0
        assert cancelled["finished"]["decode_seconds"] > 0
        assert cancelled["text"].startswith("xxx")
        assert cancelled["finished"]["completion_tokens"] >= len(cancelled["text"])
        events = await following
        assert events[-1] == ("finished", cancelled["finished"])
        await daemon.until(lambda: daemon.leases == 0)
        again = (await daemon.unix.post(f"{GENERATIONS}/{id_}/cancel")).json()
        assert again == cancelled


async def test_cancelling_while_the_model_loads(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script={"load_seconds": 1.0}) as daemon:
        id_ = await start(daemon)
        cancelled = (await daemon.unix.post(f"{GENERATIONS}/{id_}/cancel")).json()
        assert cancelled["finished"]["reason"] == "cancelled"
        assert cancelled["text"] == ""


async def test_attached_generation_ends_with_its_last_follower(
    run_daemon: DaemonFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingle.daemon.generations.generation.UNFOLLOWED_SECONDS", 0.05)
    async with run_daemon(script=ENDLESS) as daemon:
        never_followed = daemon.services.generations.get(await start(daemon, attached=True))
        await daemon.until(lambda: never_followed.finished is not None)
        monkeypatch.setattr("ingle.daemon.generations.generation.UNFOLLOWED_SECONDS", 1e9)
        attached = daemon.services.generations.get(await start(daemon, attached=True))
        kept = daemon.services.generations.get(await start(daemon))
        monkeypatch.setattr("ingle.daemon.generations.generation.UNFOLLOWED_SECONDS", 0.05)
        for generation in (attached, kept):
            events = daemon.stream("GET", f"{GENERATIONS}/{generation.id}/events")
            await anext(events)
            await asyncio.sleep(0.1)
            assert generation.state == "running"
            await events.aclose()
        await daemon.until(lambda: attached.finished is not None)
        assert attached.finished is not None
        assert attached.finished.reason == "cancelled"
        assert kept.state == "running"


@pytest.mark.slow
async def test_worker_death_ends_the_generation_with_an_error(
    run_daemon: DaemonFactory,
) -> None:
    async with run_daemon(script={"die_at": 4}, create_backend=WorkerProcess) as daemon:
        events = await follow(daemon, await start(daemon))
        name, data = events[-1]
        assert name == "error"
        assert data["error"]["code"] == "worker_died"
        assert REPLY.startswith(text_of(events))
        models = (await daemon.unix.get("/ingle/v1/status")).json()["models"]
        assert models[0]["state"] == "failed"
        assert models[0]["error"] == data["error"]["message"]
        status = (await daemon.unix.get("/ingle/v1/models")).json()["models"][0]
        assert status["state"] == "failed"
        events = await follow(daemon, await start(daemon, max_tokens=3))
        assert text_of(events) == "Hel"


async def test_invalid_generation_is_refused_before_it_starts(
    daemon: RunningDaemon,
) -> None:
    bodies: list[tuple[Any, int]] = [
        ({}, 400),
        ({"messages": HI, "prompt": "x"}, 400),
        ({"messages": []}, 400),
        ({"messages": HI, "sampling": {"temperature": 9}}, 400),
        ({"messages": HI, "sampling": {"logit_bias": {"x": 1}}}, 400),
        ({"messages": HI, "stop": [""]}, 400),
        ({"messages": HI, "max_tokens": -1}, 400),
        ({"messages": HI, "model": "nope"}, 404),
    ]
    for body, status in bodies:
        answer = await daemon.unix.post(GENERATIONS, json=body)
        assert answer.status_code == status, body
    assert await refusal(daemon, "GET", f"{GENERATIONS}/gen-0") == (404, "generation_not_found")
    assert daemon.services.manager.loaded() == []


async def test_max_tokens_0_prefills_the_prompt(daemon: RunningDaemon) -> None:
    messages = [{"role": "user", "content": "x" * 60}]
    events = await follow(daemon, await start(daemon, messages=messages, max_tokens=0))
    assert [name for name, _ in events if name != "loading"] == ["started", "finished"]
    assert events[-1][1]["completion_tokens"] == 0
    events = await follow(daemon, await start(daemon, messages=messages, max_tokens=2))
    started = next(data for name, data in events if name == "started")
    assert started["cached_tokens"] > 50


async def test_prompt_beyond_the_context_is_an_error_event(daemon: RunningDaemon) -> None:
    messages = [{"role": "user", "content": "x" * 600}]
    events = await follow(daemon, await start(daemon, messages=messages))
    assert events[-1][0] == "error"
    assert events[-1][1]["error"]["code"] == "context_length_exceeded"


async def test_event_stream_reports_gauges_and_model_states(daemon: RunningDaemon) -> None:
    assert daemon.services.hub.listeners == 0
    stream = daemon.stream("GET", "/ingle/v1/events")
    name, first = await anext(stream)
    assert name == "gauges"
    assert first["models"] == []
    assert set(first["memory"]) >= {"total", "available", "daemon_rss", "gpu_available"}
    await daemon.unix.post("/ingle/v1/load", json={"model": "echo:1"})
    await daemon.unix.post("/ingle/v1/unload")
    states: list[str] = []
    async for name, data in stream:
        if name == "model":
            assert data["name"] == "echo:1"
            states.append(data["state"])
            if data["state"] == "stopped":
                break
    assert states == ["starting", "ready", "stopping", "stopped"]
    await stream.aclose()
    await daemon.until(lambda: daemon.services.hub.listeners == 0)


@pytest.mark.slow
async def test_gauges_are_sent_during_a_generation(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script=ENDLESS) as daemon:
        stream = daemon.stream("GET", "/ingle/v1/events")
        await anext(stream)
        await start(daemon)
        async for name, data in stream:
            if name == "gauges" and data["models"] and data["models"][0]["running"]:
                break
        else:
            pytest.fail("the stream ended without such gauges")
        await stream.aclose()


async def next_gauges(
    stream: AsyncGenerator[tuple[str, Any], None], condition: Callable[[Any], bool]
) -> Any:
    """The first gauges whose model meets the condition."""
    async with asyncio.timeout(20):
        async for name, data in stream:
            if name == "gauges" and data["models"] and condition(data["models"][0]):
                return data
    pytest.fail("the stream ended without such gauges")


async def test_unreadable_devices_do_not_hide_other_gauges(
    daemon: RunningDaemon, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0

    def broken() -> list[DeviceGauges]:
        nonlocal reads
        reads += 1
        raise OSError("no driver")

    monkeypatch.setattr(daemon.services.devices, "read", broken)
    publisher = GaugePublisher(daemon.services)
    for _ in range(2):
        assert (await publisher.snapshot()).devices == []
    assert reads == 1
    assert "no driver" in caplog.text
    publisher.close()


async def test_cancelled_listeners_share_one_device_reading(
    daemon: RunningDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0
    answers = threading.Event()

    def slow() -> list[DeviceGauges]:
        nonlocal reads
        reads += 1
        assert answers.wait(20)
        return [DeviceGauges(name="GPU", kind="gpu")]

    monkeypatch.setattr(daemon.services.devices, "read", slow)
    publisher = GaugePublisher(daemon.services)
    for _ in range(5):
        cancelled_task = asyncio.create_task(publisher.snapshot())
        await daemon.until(lambda: reads > 0)
        cancelled_task.cancel()
        await asyncio.wait({cancelled_task})
    waiting = asyncio.create_task(publisher.snapshot())
    await asyncio.sleep(0)
    answers.set()
    assert [device.name for device in (await waiting).devices] == ["GPU"]
    assert reads == 1
    assert (await publisher.snapshot()).devices
    assert reads == 2
    publisher.close()


@pytest.mark.slow
async def test_final_gauges_are_sent_when_the_model_becomes_idle(
    run_daemon: DaemonFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingle.daemon.server.gauge_publisher.RESTING_SECONDS", 1e9)
    async with run_daemon(script=ENDLESS) as daemon:
        stream = daemon.stream("GET", "/ingle/v1/events")
        await anext(stream)
        await start(daemon, max_tokens=100)
        await next_gauges(stream, lambda model: model["running"] > 0)
        gauges = await next_gauges(stream, lambda model: model["running"] == 0)
        (model,) = gauges["models"]
        assert model["completion_tokens_total"] == 100
        assert model["kv_kept"] > 100
        assert model["decode_rate"] > 0
        assert gauges["devices"][-1]["kind"] == "cpu"
        await stream.aclose()


async def test_health(daemon: RunningDaemon) -> None:
    assert (await daemon.tcp.get("/health")).json() == {"status": "ok"}
    ready = (await daemon.tcp.get("/health/ready")).json()
    assert (ready["status"], ready["model"]) == ("ready", "echo:1")
    assert ready["seconds"] > 0
    assert daemon.services.manager.loaded()[0].state == "ready"
    assert (await daemon.tcp.get("/health/ready?model=nope")).status_code == 404


async def test_readiness_is_503_if_the_worker_dies(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script={"die_at": 0}, create_backend=WorkerProcess) as daemon:
        answer = await daemon.tcp.get("/health/ready")
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "worker_died"
        assert (await daemon.tcp.get("/health")).status_code == 200


async def test_shutdown_endpoint(daemon: RunningDaemon) -> None:
    answer = await daemon.unix.post("/ingle/v1/shutdown")
    assert (answer.status_code, answer.json()) == (202, {"status": "shutting down"})
    assert len(daemon.shutdowns) == 1


async def test_state_changing_endpoints_accept_only_post(daemon: RunningDaemon) -> None:
    for path in ("pull", "pull/cancel", "load", "unload", "generations", "shutdown"):
        for method in ("GET", "HEAD", "OPTIONS", "PUT", "PATCH"):
            answer = await daemon.unix.request(method, f"/ingle/v1/{path}")
            assert answer.status_code == 405, (method, path)
            assert answer.headers["allow"] == "POST"
    assert daemon.shutdowns == []


async def test_folder_model_is_listed_while_loaded(
    daemon: RunningDaemon, make_folder: Callable[..., Path]
) -> None:
    path = str(make_folder("mine"))
    address = f"/ingle/v1/models/{quote(path, safe='')}"
    entry = (await daemon.unix.get(address)).json()
    assert (entry["name"], entry["path"], entry["state"]) == (path, path, "stopped")
    assert (entry["architecture"], entry["quantization"], entry["chat"]) == ("llama", "BF16", False)

    async def listed() -> list[bool]:
        native = (await daemon.unix.get("/ingle/v1/models")).json()["models"]
        openai = (await daemon.unix.get("/v1/models")).json()["data"]
        return [path in [model["name"] for model in native], path in [m["id"] for m in openai]]

    assert await listed() == [False, False]
    assert (await daemon.unix.post("/ingle/v1/load", json={"model": path})).status_code == 200
    assert await listed() == [True, True]
    assert (await daemon.unix.get(address)).json()["state"] == "ready"
    await daemon.unix.post("/ingle/v1/unload", json={"model": path})
    assert await listed() == [False, False]
    (Path(path) / "model-00002-of-00002.safetensors").unlink()
    assert await refusal(daemon, "GET", address) == (422, "invalid_model")
    assert await refusal(daemon, "GET", "/ingle/v1/models/nothing") == (404, "model_not_found")


async def test_reasoning_and_tool_calls(
    run_daemon: DaemonFactory, event_backend: Callable[..., Any]
) -> None:
    backend = event_backend(
        Started("", 9),
        ReasoningDelta("", 0, "Hm.", [1, 2]),
        Delta("", 0, "Let me look.", [3]),
        ToolCallStarted("", 0, 0, "call_a", "f", [4]),
        ToolCallDelta("", 0, 0, '{"x":', [5]),
        ToolCallDelta("", 0, 0, "1}", [6]),
        Finished("", 0, FinishReason.TOOL_CALLS, 6, reasoning_tokens=2),
    )
    called = {"id": "z", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        *HI,
        {"role": "assistant", "content": "", "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "z", "content": "4"},
    ]
    async with run_daemon(create_backend=backend) as daemon:
        id_ = await start(
            daemon,
            messages=messages,
            tools=[{"name": "f", "description": "Does it."}],
            tool_choice={"name": "f"},
            reasoning={"enabled": True, "effort": "low", "budget": 50},
        )
        events = await follow(daemon, id_)
        status = (await daemon.unix.get(f"{GENERATIONS}/{id_}")).json()
        wrong = {"messages": HI, "tools": [{"name": ""}]}
        assert await refusal(daemon, "POST", GENERATIONS, json=wrong) == (400, "invalid_request")
    assert [event for event in events if event[0] not in ("loading", "started")][:-1] == [
        ("reasoning", {"text": "Hm.", "tokens": 2}),
        ("delta", {"text": "Let me look.", "tokens": 1}),
        ("tool_call", {"call": 0, "id": "call_a", "name": "f", "tokens": 1}),
        ("arguments", {"call": 0, "text": '{"x":', "tokens": 1}),
        ("arguments", {"call": 0, "text": "1}", "tokens": 1}),
    ]
    assert (events[-1][1]["reason"], events[-1][1]["reasoning_tokens"]) == ("tool_calls", 2)
    assert (status["text"], status["reasoning"]) == ("Let me look.", "Hm.")
    assert status["tool_calls"] == [{"id": "call_a", "name": "f", "arguments": '{"x":1}'}]
    (request,) = backend.requests
    assert request.tools == [Tool("f", "Does it.")]
    assert request.tool_choice == ToolChoice("required", ["f"])
    assert request.reasoning == Reasoning(True, "low", 50)
    assert request.messages[2].tool_call_id == "z"
