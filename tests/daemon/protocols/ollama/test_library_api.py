"""Ollama's library endpoints: tags, show, copy, create, pull, delete and blobs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingle.models.download.pull_progress import OnPullProgress, PullProgress
from ingle.models.errors import ModelNotFound
from ingle.models.metadata.stored_model import StoredModel

if TYPE_CHECKING:
    from ...conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

HI = [{"role": "user", "content": "Hi"}]


@pytest.fixture
async def daemon(run_daemon: DaemonFactory) -> AsyncGenerator[RunningDaemon]:
    """A daemon with an alias, whose model answers differently with a given system prompt."""
    script = {"reply": "plain", "replies": {"Talk like a pirate": "Arr!"}}
    async with run_daemon(script=script, aliases=(("gpt-4o", "echo:1"),)) as running:
        yield running


async def model_names(daemon: RunningDaemon) -> set[str]:
    return {row["name"] for row in (await daemon.tcp.get("/api/tags")).json()["models"]}


async def post(daemon: RunningDaemon, path: str, **body: Any) -> Any:
    answer = await daemon.tcp.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json() if answer.content else None


async def chat_text(daemon: RunningDaemon, model: str) -> str:
    answer = await post(daemon, "/api/chat", model=model, messages=HI, stream=False)
    assert answer["model"] == model
    return answer["message"]["content"]


async def delete(daemon: RunningDaemon, model: str) -> int:
    return (await daemon.tcp.request("DELETE", "/api/delete", json={"model": model})).status_code


async def test_clients_detect_the_server(daemon: RunningDaemon) -> None:
    root = await daemon.tcp.get("/")
    assert root.text == "Ollama is running"
    assert root.headers["content-type"].startswith("text/plain")
    assert "ingle" in root.headers["server"]
    version = (await daemon.tcp.get("/api/version")).json()
    assert tuple(map(int, version["version"].split("."))) >= (0, 13, 4)
    for path in ("/", "/api/version", "/api/tags"):
        head = await daemon.tcp.head(path)
        assert (head.status_code, head.content) == (200, b"")


async def test_models_are_listed_with_their_aliases(daemon: RunningDaemon) -> None:
    rows = (await daemon.tcp.get("/api/tags")).json()["models"]
    assert {row["name"] for row in rows} == {"echo:1", "gpt-4o:latest"}
    row = rows[0]
    assert row["model"] == row["name"]
    assert row["digest"] == "0" * 64
    assert row["size"] == 4
    assert row["details"]["quantization_level"] == "Q8_0"
    assert row["capabilities"] == ["completion"]
    assert await chat_text(daemon, "gpt-4o:latest") == "plain"


async def test_show_returns_gguf_metadata(
    run_daemon: DaemonFactory, make_bert: Callable[..., Path]
) -> None:
    path = make_bert()
    async with run_daemon() as daemon:
        shown = await post(daemon, "/api/show", name=str(path), verbose=True)
    assert shown["details"]["format"] == "gguf"
    info = shown["model_info"]
    assert info[f"{info['general.architecture']}.context_length"] > 0
    assert info["tokenizer.ggml.tokens"] == []
    assert "tokenizer.chat_template" not in info
    assert shown["capabilities"] == ["embedding"]
    assert shown["tensors"][0]["shape"]
    assert f"FROM {path}" in shown["modelfile"]


async def test_copies_survive_deleting_the_original(daemon: RunningDaemon) -> None:
    await post(daemon, "/api/copy", source="echo:1", destination="Mine")
    assert await model_names(daemon) == {"echo:1", "gpt-4o:latest", "mine:latest"}
    assert await chat_text(daemon, "mine") == await chat_text(daemon, "mine:latest") == "plain"
    assert await delete(daemon, "echo:1") == 200
    assert await model_names(daemon) == {"mine:latest"}
    assert await chat_text(daemon, "mine") == "plain"
    assert await delete(daemon, "mine") == 200
    assert await delete(daemon, "mine") == 404
    answer = await daemon.tcp.post("/api/copy", json={"source": "mine", "destination": "b"})
    assert answer.status_code == 404
    assert answer.json()["error"].startswith("model 'mine' not found")


@pytest.mark.parametrize("name", ["a/b", "/tmp/x.gguf", "..", "smollm2", "hf.co/a/b", "a:b:c"])
async def test_invalid_copy_names_are_refused(daemon: RunningDaemon, name: str) -> None:
    answer = await daemon.tcp.post("/api/copy", json={"source": "echo:1", "destination": name})
    assert answer.status_code == 400
    assert set(answer.json()) == {"error"}


async def test_created_model_applies_its_system_prompt_in_every_protocol(
    daemon: RunningDaemon,
) -> None:
    body: dict[str, Any] = {
        "model": "pirate",
        "from": "echo:1",
        "system": "Talk like a pirate",
        "parameters": {"num_predict": 2, "temperature": 0.1, "stop": ["zzz"]},
        "messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}],
    }
    answer = await daemon.tcp.post("/api/create", json=body)
    statuses = [json.loads(line)["status"] for line in answer.text.splitlines()]
    assert statuses[-1] == "success"
    assert await chat_text(daemon, "pirate") == "Ar"
    openai = await post(daemon, "/v1/chat/completions", model="pirate", messages=HI)
    assert openai["choices"][0]["message"]["content"] == "Arr!"
    shown = await post(daemon, "/api/show", model="pirate")
    assert shown["system"] == "Talk like a pirate"
    assert shown["details"]["parent_model"] == "echo:1"
    assert "num_predict" in shown["parameters"]
    assert len(shown["messages"]) == 2
    await post(daemon, "/api/create", **(body | {"system": "", "parameters": {}, "stream": False}))
    assert await chat_text(daemon, "pirate") == "plain"


async def test_uploaded_blob_becomes_a_model(
    daemon: RunningDaemon, make_bert: Callable[..., Path]
) -> None:
    content = make_bert().read_bytes()
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    blob = f"/api/blobs/{digest}"
    assert (await daemon.tcp.head(blob)).status_code == 404
    wrong = await daemon.tcp.post(blob, content=content[:-1])
    assert wrong.status_code == 400
    assert "digest mismatch" in wrong.json()["error"]
    assert (await daemon.tcp.head(blob)).status_code == 404
    assert (await daemon.tcp.post(blob, content=content)).status_code == 201
    assert (await daemon.tcp.post(blob, content=content)).status_code == 201
    await post(daemon, "/api/create", model="tiny:x", files={"a.gguf": digest}, stream=False)
    assert (await daemon.tcp.head(blob)).status_code == 200
    assert "tiny:x" in await model_names(daemon)
    assert not any((daemon.services.store.root / ".blobs").iterdir())
    assert await delete(daemon, "tiny:x") == 200
    assert (await daemon.tcp.head(blob)).status_code == 404
    assert (await daemon.tcp.head("/api/blobs/sha256:../../x")).status_code in (400, 404)


async def test_create_refuses_a_blob_that_is_not_a_model(daemon: RunningDaemon) -> None:
    digest = f"sha256:{hashlib.sha256(b'text').hexdigest()}"
    await daemon.tcp.post(f"/api/blobs/{digest}", content=b"text")
    body = {"model": "tiny:x", "files": {"a.gguf": digest}}
    answer = await daemon.tcp.post("/api/create", json=body | {"stream": False})
    assert answer.status_code == 422
    assert "GGUF" in answer.json()["error"]
    body = {"model": "q", "from": "echo:1", "quantize": "q4_0"}
    answer = await daemon.tcp.post("/api/create", json=body)
    assert answer.status_code == 400
    assert "quantize" in answer.json()["error"]


async def test_upload_limit_is_separate_from_the_body_limit(run_daemon: DaemonFactory) -> None:
    content = b"x" * 300_000
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    async with run_daemon(max_body_bytes=100_000, max_upload_bytes=400_000) as daemon:
        path = f"/api/blobs/{digest}"
        assert (await daemon.tcp.post(path, content=content)).status_code == 201

        async def endless() -> AsyncGenerator[bytes]:
            for _ in range(5):
                yield b"y" * 100_000

        too_much = await daemon.tcp.post(f"/api/blobs/sha256:{'1' * 64}", content=endless())
        assert too_much.status_code == 413
        assert len(list((daemon.services.store.root / ".blobs").iterdir())) == 1


async def test_pull_progress_has_ollamas_format(run_daemon: DaemonFactory) -> None:
    def pull(
        reference: str, on_progress: OnPullProgress, cancelled: Callable[[], bool]
    ) -> StoredModel:
        if reference == "nope":
            raise ModelNotFound("No such model.")
        on_progress(PullProgress(model=reference, status="downloading", received=5, total=10))
        on_progress(PullProgress(model=reference, status="verifying", received=10, total=10))
        return store.resolve("echo:1")

    async with run_daemon(pull=pull) as daemon:
        store = daemon.services.store
        answer = await daemon.tcp.post("/api/pull", json={"model": "echo:1"})
        assert answer.headers["content-type"] == "application/x-ndjson"
        rows = [json.loads(line) for line in answer.text.splitlines()]
        # How many steps of a layer are seen depends on how fast they follow one another.
        layers = [row for row in rows if "total" in row]
        assert [row for row in rows if row not in layers] == [
            {"status": "pulling manifest"},
            {"status": "verifying sha256 digest"},
            {"status": "writing manifest"},
            {"status": "success"},
        ]
        assert layers[-1] == {
            "status": f"pulling {'0' * 12}",
            "digest": f"sha256:{'0' * 64}",
            "total": store.resolve("echo:1").size,
            "completed": store.resolve("echo:1").size,
        }
        assert await post(daemon, "/api/pull", name="echo:1", stream=False) == {"status": "success"}
        for stream in (True, False):
            missing = await daemon.tcp.post("/api/pull", json={"model": "nope", "stream": stream})
            assert missing.status_code == 404
            assert missing.json()["error"].startswith("model 'nope' not found")
        pushed = await daemon.tcp.post("/api/push", json={"model": "echo:1"})
        assert pushed.status_code == 400
