"""`POST /v1/rerank`: the API, with a tiny model of random weights.

No real ranking model is available where ingle gets its models, so that these tests say nothing
about the quality of a ranking.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingle.backends.worker.supervisor.worker_process import WorkerProcess

if TYPE_CHECKING:
    from ...conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

DOCUMENTS = ["cat", "dog sea", "physics", "a b c"]


@pytest.fixture
def ranker(make_bert: Callable[..., Path]) -> str:
    return str(make_bert("ranks.gguf", ranks=True))


@pytest.fixture
async def daemon(run_daemon: DaemonFactory) -> AsyncGenerator[RunningDaemon]:
    async with run_daemon(prepares_files=True, create_backend=WorkerProcess) as running:
        yield running


async def post(daemon: RunningDaemon, status: int = 200, **body: Any) -> dict[str, Any]:
    answer = await daemon.tcp.post("/v1/rerank", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_results_are_sorted_by_score(daemon: RunningDaemon, ranker: str) -> None:
    answer = await post(daemon, model=ranker, query="kitten", documents=DOCUMENTS)
    results = answer["results"]
    assert sorted(item["index"] for item in results) == [0, 1, 2, 3]
    found = [item["relevance_score"] for item in results]
    assert found == sorted(found, reverse=True)
    assert all(0 < score < 1 for score in found)
    assert all("document" not in item for item in results)
    assert answer["model"] == ranker
    assert answer["usage"] == {"prompt_tokens": 23, "total_tokens": 23}


async def test_object_documents_and_top_n(daemon: RunningDaemon, ranker: str) -> None:
    everything = await post(daemon, model=ranker, query="kitten", documents=DOCUMENTS)
    answer = await post(
        daemon,
        model=ranker,
        query="kitten",
        documents=[{"text": text} for text in DOCUMENTS],
        top_n=2,
        return_documents=True,
    )
    assert len(answer["results"]) == 2
    for item, same in zip(answer["results"], everything["results"], strict=False):
        assert item["index"] == same["index"]
        assert item["relevance_score"] == pytest.approx(same["relevance_score"], abs=1e-5)
        assert item["document"] == {"text": DOCUMENTS[item["index"]]}


REFUSED: list[tuple[dict[str, Any], str | None, str]] = [
    ({"documents": []}, "documents", "length >= 1"),
    ({"documents": ["x"] * 2049}, "documents", "between 1 and 2048 texts, not 2049"),
    ({"query": ""}, "query", "query"),
    ({"top_n": 0}, "top_n", "top_n"),
    ({"documents": [{"title": "x"}]}, None, "text"),
    (
        {"documents": ["cat", "dog " * 100]},
        "documents",
        "The query with document 1 is 104 tokens long, 40 too many",
    ),
]


async def test_invalid_rerank_requests(daemon: RunningDaemon, ranker: str) -> None:
    for body, param, words in REFUSED:
        whole = {"query": "kitten", "documents": DOCUMENTS} | body
        error = (await post(daemon, 400, model=ranker, **whole))["error"]
        assert words in error["message"], body
        assert param is None or error["param"] == param, body


async def test_truncate_option(daemon: RunningDaemon, ranker: str) -> None:
    answer = await post(
        daemon, model=ranker, query="kitten", documents=["dog " * 100], truncate=True
    )
    assert answer["usage"]["prompt_tokens"] == 64


async def test_model_without_ranking_is_refused(
    daemon: RunningDaemon, make_bert: Callable[..., Path]
) -> None:
    error = (await post(daemon, 400, model=str(make_bert()), query="q", documents=["d"]))["error"]
    assert error["code"] == "wrong_task"
    assert "/v1/embeddings" in error["message"]


async def test_readiness_of_a_rerank_model(daemon: RunningDaemon, ranker: str) -> None:
    answer = await daemon.tcp.get("/health/ready", params={"model": ranker})
    assert answer.json()["status"] == "ready"
