"""llama-server embedding and rerank endpoints, with tiny models of random weights."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingle.backends.worker.supervisor.worker_process import WorkerProcess

if TYPE_CHECKING:
    from ...conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

MakeBert = Callable[..., Path]
TEXTS = ["cat", "dog sea", "physics"]


@pytest.fixture
async def daemon(run_daemon: DaemonFactory) -> AsyncGenerator[RunningDaemon]:
    async with run_daemon(prepares_files=True, create_backend=WorkerProcess) as running:
        yield running


async def post(daemon: RunningDaemon, path: str, **body: Any) -> Any:
    answer = await daemon.tcp.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_embedding(daemon: RunningDaemon, make_bert: MakeBert) -> None:
    model = str(make_bert("embeds.gguf"))
    several = await post(daemon, "/embedding", model=model, content=TEXTS)
    assert [item["index"] for item in several] == [0, 1, 2]
    for item in several:
        (vector,) = item["embedding"]
        assert math.isclose(sum(number**2 for number in vector), 1, abs_tol=1e-3)
    # Without a name, the loaded model answers.
    (one,) = await post(daemon, "/embeddings", input=TEXTS[1])
    assert one["embedding"][0] == pytest.approx(several[1]["embedding"][0], abs=1e-5)


async def test_rerank_in_jina_and_tei_shapes(daemon: RunningDaemon, make_bert: MakeBert) -> None:
    model = str(make_bert("ranks.gguf", ranks=True))
    jina = await post(daemon, "/rerank", model=model, query="kitten", documents=TEXTS)
    scores = [item["relevance_score"] for item in jina["results"]]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    tei = await post(
        daemon, "/v1/reranking", query="kitten", texts=TEXTS, return_text=True, top_n=2
    )
    assert [item["text"] for item in tei] == [TEXTS[item["index"]] for item in jina["results"][:2]]
    assert [item["score"] for item in tei] == pytest.approx(scores[:2], abs=1e-5)
