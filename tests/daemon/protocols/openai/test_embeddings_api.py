"""`POST /v1/embeddings` with tiny models in real workers."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ingle.backends.worker.supervisor.worker_process import WorkerProcess
from ingle.daemon.errors import InvalidBody
from ingle.daemon.protocols.openai.embeddings_api import embedding_inputs
from ingle.models.store.store_folder import StoreFolder

if TYPE_CHECKING:
    from ...conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

PATH = "/v1/embeddings"
Vectors = NDArray[np.float32]


@pytest.fixture
def bert(make_bert: Callable[..., Path]) -> str:
    return str(make_bert())


@pytest.fixture
async def daemon(run_daemon: DaemonFactory) -> AsyncGenerator[RunningDaemon]:
    async with run_daemon(prepares_files=True, create_backend=WorkerProcess) as running:
        yield running


async def post(daemon: RunningDaemon, status: int = 200, **body: Any) -> dict[str, Any]:
    answer = await daemon.tcp.post(PATH, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def vectors(answer: dict[str, Any]) -> Vectors:
    assert [item["index"] for item in answer["data"]] == list(range(len(answer["data"])))
    return np.array([item["embedding"] for item in answer["data"]], np.float32)


async def test_embedding_of_one_text(daemon: RunningDaemon, bert: str) -> None:
    answer = await post(daemon, model=bert, input="cat dog")
    assert answer["object"] == "list"
    assert answer["model"] == bert
    assert answer["data"][0]["object"] == "embedding"
    assert answer["usage"] == {"prompt_tokens": 4, "total_tokens": 4}
    assert vectors(answer).shape == (1, 32)
    assert np.linalg.norm(vectors(answer)) == pytest.approx(1, abs=1e-6)


@pytest.mark.slow
async def test_text_and_token_inputs_agree(daemon: RunningDaemon, bert: str) -> None:
    text = vectors(await post(daemon, model=bert, input="cat"))
    ids = vectors(await post(daemon, model=bert, input=[2, 5, 3]))
    both = vectors(await post(daemon, model=bert, input=["cat", [2, 5, 3]]))
    assert np.allclose(text, ids, atol=1e-5)
    assert np.allclose(both, [text[0], text[0]], atol=1e-5)


@pytest.mark.slow
async def test_base64_equals_float_encoding(daemon: RunningDaemon, bert: str) -> None:
    texts = ["cat", "dog sea", "physics"]
    as_numbers = await post(daemon, model=bert, input=texts, encoding_format="float")
    as_text = await post(daemon, model=bert, input=texts, encoding_format="base64")
    packed = [base64.b64decode(item["embedding"]) for item in as_text["data"]]
    unpacked = np.array([np.frombuffer(row, "<f4") for row in packed])
    assert (unpacked == vectors(as_numbers)).all()


@pytest.mark.slow
async def test_sdk_creates_embeddings(daemon: RunningDaemon, bert: str) -> None:
    import openai

    client = openai.AsyncOpenAI(api_key="x", base_url=f"{daemon.base_url}/v1", max_retries=0)
    async with client:
        packed = await client.embeddings.create(model=bert, input=["cat", "kitten"])
        plain = await client.embeddings.create(
            model=bert, input=["cat", "kitten"], encoding_format="float"
        )
        assert packed.data[1].embedding == pytest.approx(plain.data[1].embedding, abs=1e-6)
        assert packed.usage.prompt_tokens == 6
        with pytest.raises(openai.BadRequestError, match="turns texts into vectors"):
            await client.chat.completions.create(
                model=bert, messages=[{"role": "user", "content": "Hi"}]
            )


@pytest.mark.slow
async def test_2048_texts_in_one_request(daemon: RunningDaemon, bert: str) -> None:
    texts = ["cat", "dog sea", "a b c physics", "kitten"] * 512
    answer = vectors(await post(daemon, model=bert, input=texts))
    assert answer.shape == (2048, 32)
    assert np.abs(answer - np.tile(answer[:4], (512, 1))).max() < 1e-4


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"input": ""}, "input", "Input 0 is empty"),
    ({"input": ["cat", ""]}, "input", "Input 1 is empty"),
    ({"input": []}, "input", "between 1 and 2048 texts, not 0"),
    ({"input": ["x"] * 2049}, "input", "not 2049"),
    ({"input": [1, "cat"]}, "input", "mixes token ids"),
    ({"input": [-1]}, "input", "no token id"),
    ({"input": {"text": "cat"}}, "input", "'input' is wrong"),
    ({"input": "cat", "encoding_format": "int8"}, "encoding_format", "encoding_format"),
    ({"input": [999]}, "input", "Token 999 of input 0"),
    ({"input": ["cat", "dog " * 100]}, "input", "Input 1 is 102 tokens long, 38 too many"),
    ({"input": "cat", "dimensions": 16}, "dimensions", "of 32 dimensions, not 16"),
    ({"input": "cat", "dimensions": 0}, "dimensions", "dimensions"),
    ({}, "input", "missing"),
]


async def test_invalid_embedding_requests(daemon: RunningDaemon, bert: str) -> None:
    for body, param, words in REFUSED:
        error = (await post(daemon, 400, model=bert, **body))["error"]
        assert error["type"] == "invalid_request_error", body
        assert error["param"] == param, body
        assert words in error["message"], body


@pytest.mark.slow
async def test_truncate_option(daemon: RunningDaemon, bert: str) -> None:
    answer = await post(daemon, model=bert, input="dog " * 100, truncate=True)
    assert answer["usage"]["prompt_tokens"] == 64


async def test_full_dimensions_are_accepted(daemon: RunningDaemon, bert: str) -> None:
    assert vectors(await post(daemon, model=bert, input="cat", dimensions=32)).shape == (1, 32)


async def test_model_without_embeddings_is_refused(
    run_daemon: DaemonFactory, make_bert: Callable[..., Path]
) -> None:
    async with run_daemon() as daemon:
        error = (await post(daemon, 400, model="echo:1", input="cat"))["error"]
        assert error["code"] == "wrong_task"
        assert error["param"] == "model"
        assert "makes no embeddings" in error["message"]
        ranks = str(make_bert(ranks=True))
        error = (await post(daemon, 400, model=ranks, input="cat"))["error"]
        assert "/v1/rerank" in error["message"]
        assert daemon.services.manager.loaded() == []  # refused without loading the model


async def test_embedding_model_refuses_chats_and_completions(
    daemon: RunningDaemon, bert: str
) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    for path, body in (
        ("/v1/chat/completions", {"messages": messages}),
        ("/v1/completions", {"prompt": "Hi"}),
        ("/ingle/v1/generations", {"messages": messages}),
    ):
        answer = await daemon.tcp.post(path, json={"model": bert, **body})
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "wrong_task"
        assert "cannot chat" in answer.text
    assert daemon.services.manager.loaded() == []


@pytest.mark.slow
async def test_readiness_of_an_embedding_model(daemon: RunningDaemon, bert: str) -> None:
    answer = await daemon.tcp.get("/health/ready", params={"model": bert})
    assert answer.json()["status"] == "ready"


@pytest.mark.slow
async def test_load_with_another_pooling(daemon: RunningDaemon, bert: str) -> None:
    mean = vectors(await post(daemon, model=bert, input="cat dog"))
    for pooling, same in (("cls", False), ("mean", True)):
        body = {"model": bert, "pooling": pooling}
        answer = await daemon.tcp.post("/ingle/v1/load", json=body)
        assert answer.status_code == 200, answer.text
        now = vectors(await post(daemon, model=bert, input="cat dog"))
        assert np.allclose(now, mean, atol=1e-4) is same
    body = {"model": bert, "pooling": "rank"}
    assert (await daemon.tcp.post("/ingle/v1/load", json=body)).status_code == 400


async def test_listings_report_the_task(daemon: RunningDaemon) -> None:
    entries = (await daemon.tcp.get("/ingle/v1/models")).json()["models"]
    tasks = {entry["name"]: entry["task"] for entry in entries}
    assert tasks["echo:1"] == "generate"
    assert tasks["nomic-embed-text:v1.5"] == tasks["all-minilm:l6-v2"] == "embed"
    (model,) = (await daemon.tcp.get("/v1/models")).json()["data"]
    assert model["task"] == "generate"


@pytest.mark.slow
async def test_disconnect_cancels_embedding(daemon: RunningDaemon, bert: str) -> None:
    pending = asyncio.create_task(
        daemon.tcp.post(PATH, json={"model": bert, "input": ["cat dog " * 28] * 2048})
    )

    def busy() -> bool:
        return any(model.running or model.waiting for model in daemon.services.manager.loaded())

    await daemon.until(busy)
    pending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pending
    await daemon.until(lambda: not busy())
    await post(daemon, model=bert, input="cat")


@pytest.mark.slow
def test_list_of_token_ids_is_one_input() -> None:
    assert embedding_inputs([1, 2, 3]) == [[1, 2, 3]]
    assert embedding_inputs([[1, 2], [3]]) == [[1, 2], [3]]
    with pytest.raises(InvalidBody):
        embedding_inputs([[]])


@pytest.mark.slow
@pytest.mark.model
async def test_similarity_with_a_real_model(daemon: RunningDaemon, minilm_path: Path) -> None:
    answer = await post(daemon, model=str(minilm_path), input=["cat", "kitten", "physics"])
    cat, kitten, physics = vectors(answer)
    assert cat @ kitten > 2 * (cat @ physics)


@pytest.mark.model
@pytest.mark.slow
async def test_matryoshka_dimensions_with_a_real_model(
    run_daemon: DaemonFactory, nomic_path: Path
) -> None:
    root = nomic_path.parents[2]
    async with run_daemon(prepares_files=True, create_backend=WorkerProcess) as daemon:
        daemon.services.store.folders = StoreFolder(root)
        name = "nomic-embed-text"
        texts = ["search_query: cat", "search_query: kitten", "search_query: physics"]
        whole = vectors(await post(daemon, model=name, input=texts))
        short = vectors(await post(daemon, model=name, input=texts, dimensions=256))
        error = (await post(daemon, 400, model=name, input=texts, dimensions=100))["error"]
    cut = whole[:, :256] / np.linalg.norm(whole[:, :256], axis=1, keepdims=True)
    assert np.allclose(short, cut, atol=1e-5)
    assert short[0] @ short[1] > short[0] @ short[2]
    assert "of 64, 128, 256, 512, 768 dimensions, not 100" in error["message"]
