"""Anthropic's message batches, called by Anthropic's SDK over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from ingle.daemon.retention.retention_keeper import RetentionKeeper

if TYPE_CHECKING:
    import anthropic
    from anthropic.types.messages import MessageBatch, MessageBatchIndividualResponse

    from ...conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

REPLY = "Hello from the scripted model."
BATCHES = "/v1/messages/batches"


def batched(custom_id: str, **fields: Any) -> Any:
    hi = [{"role": "user", "content": "Hi\n\u2028there"}]
    params = {"model": "echo:1", "max_tokens": 64, "messages": hi, **fields}
    return {"custom_id": custom_id, "params": params}


@asynccontextmanager
async def client_of(daemon: RunningDaemon) -> AsyncGenerator[anthropic.AsyncAnthropic]:
    import anthropic

    async with anthropic.AsyncAnthropic(
        base_url=daemon.base_url, api_key="none", max_retries=0
    ) as client:
        yield client


async def ended(client: anthropic.AsyncAnthropic, batch: MessageBatch) -> MessageBatch:
    async with asyncio.timeout(60):
        while batch.processing_status != "ended":
            await asyncio.sleep(0.02)
            batch = await client.messages.batches.retrieve(batch.id)
    return batch


async def results(
    client: anthropic.AsyncAnthropic, batch: MessageBatch
) -> dict[str, MessageBatchIndividualResponse]:
    found = [line async for line in await client.messages.batches.results(batch.id)]
    assert len({line.custom_id for line in found}) == len(found)
    return {line.custom_id: line for line in found}


async def test_every_request_gets_its_result(daemon: RunningDaemon) -> None:
    async with client_of(daemon) as client:
        requests = [batched(f"r{number}") for number in range(12)]
        requests += [batched("hot", temperature=9), batched("absent", model="no-such-model")]
        batch = await client.messages.batches.create(requests=requests)
        assert batch.id.startswith("msgbatch_")
        assert batch.request_counts.model_dump() == {
            **dict.fromkeys(("succeeded", "errored", "canceled", "expired"), 0),
            "processing": 14,
        }
        batch = await ended(client, batch)
        assert batch.ended_at is not None
        assert batch.ended_at >= batch.created_at
        counts = batch.request_counts
        assert (counts.processing, counts.succeeded, counts.errored) == (0, 12, 2)
        found = await results(client, batch)
        assert set(found) == {request["custom_id"] for request in requests}
        for number in range(12):
            result = found[f"r{number}"].result
            assert result.type == "succeeded"
            (block,) = result.message.content
            assert (block.type == "text" and block.text) == REPLY
        for name, kind in (("hot", "invalid_request_error"), ("absent", "not_found_error")):
            result = found[name].result
            assert result.type == "errored"
            assert result.error.error.type == kind
        beta = [line async for line in await client.beta.messages.batches.results(batch.id)]
        assert {line.custom_id for line in beta} == set(found)


async def test_batches_are_listed_in_pages_apart_from_those_of_openai(
    daemon: RunningDaemon,
) -> None:
    async with client_of(daemon) as client:
        made = [await client.messages.batches.create(requests=[batched("a")]) for _ in range(3)]
        assert {b.id async for b in client.messages.batches.list(limit=1)} == {b.id for b in made}
        page = await client.messages.batches.list(limit=2)
        assert page.has_more
        assert page.last_id == page.data[1].id
    assert (await daemon.tcp.get("/v1/batches")).json()["data"] == []


async def test_a_cancelled_batch_has_a_result_for_each_request(run_daemon: DaemonFactory) -> None:
    import anthropic

    async with (
        run_daemon(script={"reply": "x" * 40, "step_seconds": 0.005}) as daemon,
        client_of(daemon) as client,
    ):
        batches = client.messages.batches
        running = await batches.create(requests=[batched(f"r{n}") for n in range(200)])
        waiting = await batches.create(requests=[batched("w1"), batched("w2")])
        await batches.cancel(waiting.id)
        waiting = await ended(client, waiting)
        assert waiting.request_counts.canceled == 2
        found = await results(client, waiting)
        assert {name: line.result.type for name, line in found.items()} == {
            "w1": "canceled",
            "w2": "canceled",
        }
        with pytest.raises(anthropic.BadRequestError, match="no results"):
            await daemon_results(client, running)
        async with asyncio.timeout(60):
            while not (await daemon.services.batches.get(running.id)).completed:
                await asyncio.sleep(0.01)
        assert (await batches.cancel(running.id)).cancel_initiated_at is not None
        running = await ended(client, running)
        kinds = [line.result.type for line in (await results(client, running)).values()]
        counts = running.request_counts
        assert len(kinds) == 200
        assert kinds.count("succeeded") == counts.succeeded > 0
        assert kinds.count("canceled") == counts.canceled > 0


async def daemon_results(client: anthropic.AsyncAnthropic, batch: MessageBatch) -> None:
    """Ask for results without the SDK's own check."""
    await client.get(f"{BATCHES}/{batch.id}/results", cast_to=object)


async def test_deleting_removes_the_requests_and_the_results(daemon: RunningDaemon) -> None:
    import anthropic

    async with client_of(daemon) as client:
        batches = client.messages.batches
        batch = await ended(client, await batches.create(requests=[batched("a")]))
        deleted = await batches.delete(batch.id)
        assert (deleted.id, deleted.type) == (batch.id, "message_batch_deleted")
        for call in (batches.retrieve, batches.delete, batches.cancel):
            with pytest.raises(anthropic.NotFoundError):
                await call(batch.id)
    paths = daemon.services.config.paths
    assert [*paths.files.glob("*"), *paths.batches.glob("*")] == []


async def test_forgetting_a_running_batch_removes_its_files(run_daemon: DaemonFactory) -> None:
    async with (
        run_daemon(script={"reply": "x" * 40, "step_seconds": 0.005}) as daemon,
        client_of(daemon) as client,
    ):
        batch = await client.messages.batches.create(requests=[batched(f"{n}") for n in range(200)])
        async with asyncio.timeout(60):
            while not (await daemon.services.batches.get(batch.id)).completed:
                await asyncio.sleep(0.01)
        answer = await daemon.unix.post("/ingle/v1/forget", json={"ids": [batch.id]})
        assert answer.status_code == 200, answer.text
        paths = daemon.services.config.paths
        assert [*paths.files.glob("*"), *paths.batches.glob("*")] == []


async def test_forgetting_a_batch_removes_its_files(daemon: RunningDaemon) -> None:
    async with client_of(daemon) as client:
        batch = await client.messages.batches.create(requests=[batched("a")])
        await ended(client, batch)
        kept = await ended(client, await client.messages.batches.create(requests=[batched("b")]))
        answer = await daemon.unix.post("/ingle/v1/forget", json={"ids": [batch.id]})
        assert answer.status_code == 200, answer.text
        assert [b.id async for b in client.messages.batches.list()] == [kept.id]
        assert len(list(daemon.services.config.paths.files.glob("*.bin"))) == 2
        assert set(await results(client, kept)) == {"b"}


async def test_an_expired_batch_is_erased_with_its_files(run_daemon: DaemonFactory) -> None:
    async with run_daemon(keep_batches=3600.0) as daemon, client_of(daemon) as client:
        batch = await ended(client, await client.messages.batches.create(requests=[batched("a")]))
        services = daemon.services
        keeper = RetentionKeeper(services.config, services.batches, services.responses)
        await keeper.round()
        assert (await client.messages.batches.retrieve(batch.id)).id == batch.id
        config = replace(services.config, keep_batches=0.0)
        await RetentionKeeper(config, services.batches, services.responses).round()
        paths = services.config.paths
        assert [*paths.files.glob("*"), *paths.batches.glob("*")] == []


@pytest.mark.parametrize(
    ("requests", "told"),
    [
        ([], "requests"),
        ([batched("a"), batched("a")], "requests[1]"),
        ([batched("no spaces")], "custom_id"),
        ([batched("a", stream=True)], "streamed"),
        ([{"custom_id": "a", "params": [1]}], "requests[0]"),
        ([{"custom_id": "a"}], "params"),
        ("x", "requests"),
    ],
)
async def test_invalid_requests_are_refused_at_once(
    daemon: RunningDaemon, requests: Any, told: str
) -> None:
    answer = await daemon.tcp.post(BATCHES, json={"requests": requests})
    assert answer.status_code == 400
    error = answer.json()
    assert (error["type"], error["error"]["type"]) == ("error", "invalid_request_error")
    assert told in error["error"]["message"]
    assert list(daemon.services.config.paths.files.glob("*")) == []


async def test_ids_of_other_things_are_not_found(daemon: RunningDaemon) -> None:
    for name in ("batch_" + "0" * 24, "msgbatch_" + "0" * 24, "msgbatch_..%2f", "x"):
        for method, tail in (("GET", ""), ("GET", "/results"), ("POST", "/cancel"), ("DELETE", "")):
            answer = await daemon.tcp.request(method, f"{BATCHES}/{name}{tail}")
            assert answer.status_code == 404
