"""Embedding and reranking in a real worker process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest

from ingle.backends.base.backend import stream_events
from ingle.backends.base.errors import RequestRejected, WorkerDied
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.requests import EmbedRequest, GenerateRequest, RerankRequest
from ingle.backends.selection.load_spec_builder import complete_spec
from ingle.backends.worker.supervisor.worker_process import WorkerProcess
from ingle.models.gguf.gguf_header import read_header
from ingle.models.model_task import ModelTask

MakeBert = Callable[..., Path]
MakeSpec = Callable[..., LoadSpec]
StartFile = Callable[[Path], Awaitable[WorkerProcess]]


@pytest.fixture
async def start_file() -> AsyncIterator[StartFile]:
    workers: list[WorkerProcess] = []

    async def start(path: Path) -> WorkerProcess:
        wanted = LoadSpec(engine="llama.cpp", path=str(path), context=4096)
        spec = complete_spec(wanted, read_header(path))
        workers.append(WorkerProcess(spec))
        await workers[-1].start()
        return workers[-1]

    yield start
    for worker in workers:
        await worker.stop(grace=0)


async def test_embed_returns_vectors(make_bert: MakeBert, start_file: StartFile) -> None:
    worker = await start_file(make_bert())
    assert worker.spec.task is ModelTask.EMBED
    assert worker.spec.context == 64
    answers = await asyncio.gather(
        *(
            worker.embed(EmbedRequest(id=str(i), inputs=["cat", "dog sea", [2, 5, 3]]))
            for i in range(8)
        )
    )
    vectors = [np.frombuffer(a.vectors, "<f4").reshape(3, a.dimensions) for a in answers]
    assert vectors[0].shape == (3, 32)
    assert np.allclose(np.linalg.norm(vectors[0], axis=1), 1)
    assert all(np.allclose(v, vectors[0], atol=1e-4) for v in vectors)
    assert np.allclose(vectors[0][0], vectors[0][2], atol=1e-4)
    with pytest.raises(RequestRejected, match="cannot chat") as refusal:
        async for _ in stream_events(worker, GenerateRequest(id="g", prompt="x")):
            pass
    assert refusal.value.code == "wrong_task"


async def test_rerank_returns_scores(make_bert: MakeBert, start_file: StartFile) -> None:
    worker = await start_file(make_bert(ranks=True))
    asked = RerankRequest(id="r", query="kitten", documents=["cat", "dog", "sea"])
    answer = await worker.rerank(asked)
    assert len(set(answer.scores)) == 3
    assert answer.prompt_tokens == 3 * 5
    with pytest.raises(RequestRejected, match="makes no embeddings"):
        await worker.embed(EmbedRequest(id="e", inputs=["cat"]))


async def test_cancelled_call_stops_the_computation(
    make_bert: MakeBert, start_file: StartFile
) -> None:
    worker = await start_file(make_bert())
    long = asyncio.create_task(
        worker.embed(EmbedRequest(id="long", inputs=["cat dog sea " * 15] * 20_000))
    )
    async with asyncio.timeout(20):
        while not worker.gauges.steps_total:
            await asyncio.sleep(0.01)
        long.cancel()
        with pytest.raises(asyncio.CancelledError):
            await long
        await worker.embed(EmbedRequest(id="long", inputs=["cat"]))  # the id can be used again
        while worker.gauges.running or worker.gauges.waiting:
            await asyncio.sleep(0.01)
    assert worker.gauges.prompt_tokens_total < 20_000 * 47


async def test_worker_death_fails_waiting_calls(make_bert: MakeBert, start_file: StartFile) -> None:
    worker = await start_file(make_bert())
    waiting = asyncio.create_task(
        worker.embed(EmbedRequest(id="r", inputs=["cat dog sea " * 15] * 20_000))
    )
    await asyncio.sleep(0.05)
    await worker.stop(grace=0)
    with pytest.raises(WorkerDied):
        await waiting


async def test_generating_model_rejects_embedding(scripted_spec: MakeSpec) -> None:
    worker = WorkerProcess(scripted_spec())
    await worker.start()
    try:
        with pytest.raises(RequestRejected, match="makes no embeddings") as refusal:
            await worker.embed(EmbedRequest(id="e", inputs=["cat"]))
        assert refusal.value.code == "wrong_task"
        with pytest.raises(RequestRejected, match="cannot rank"):
            await worker.rerank(RerankRequest(id="e", query="cat", documents=["cat"]))
    finally:
        await worker.stop(grace=0)
