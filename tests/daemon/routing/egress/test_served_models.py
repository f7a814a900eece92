"""What a provider says that it serves: read within limits, recorded, and kept in the file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator

import pytest

from ingle.backends.remote.errors import ProviderMisbehaved, ProviderRefused, ProviderUnreachable
from ingle.daemon.main import main
from ingle.daemon.routing.egress.provider_egress import ProviderEgress
from ingle.daemon.routing.providers.provider_errors import ProviderError
from ingle.daemon.routing.providers.provider_store import PRESETS, read_provider
from ingle.daemon.settings.config import load_config

SERVED = (
    b'{"object": "list", "data": [{"id": "qwen3-32b", "max_model_len": 40960}, {"id": "tiny"}]}'
)


class ModelServer:
    """Answers every request with one body and status."""

    def __init__(self) -> None:
        self.body = SERVED
        self.status = 200
        self.heads: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 %d \r\n\r\n" % self.status + self.body)
        writer.close()


@pytest.fixture
def server() -> ModelServer:
    return ModelServer()


@pytest.fixture
async def egress(server: ModelServer) -> AsyncGenerator[ProviderEgress]:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    made = ProviderEgress(load_config(os.environ))
    table = {**PRESETS["vllm"], "base_url": f"http://127.0.0.1:{port}/v1"}
    made.store.add(read_provider("rack", table, "a test"))
    yield made
    listening.close()


async def test_models_are_listed_and_the_request_recorded(
    egress: ProviderEgress, server: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    served = await egress.served_models(egress.store.find("rack"))
    assert [(model.id, model.max_model_len) for model in served] == [
        ("qwen3-32b", 40960),
        ("tiny", None),
    ]
    egress.flush()
    (entry,) = egress.ledger.entries()
    assert (entry.provider, entry.outcome, entry.status) == ("rack", "complete", 200)
    (head,) = server.heads
    assert head.startswith(b"GET /v1/models HTTP/1.1\r\n")
    assert entry.bytes_out == len(head)
    assert main(["ledger"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("rack ")


@pytest.mark.parametrize(
    ("status", "body", "error", "outcome"),
    [
        (200, b"<html>", ProviderMisbehaved, "failed"),
        (200, b'{"data": [{"name": "x"}]}', ProviderMisbehaved, "failed"),
        (200, b'{"data": [{"id": "\xff"}]}', ProviderMisbehaved, "failed"),
        (200, b'{"data": [' + b" " * 2**20, ProviderMisbehaved, "failed"),
        (401, b'{"error": {"message": "no"}}', ProviderRefused, "refused"),
    ],
)
async def test_answers_that_are_no_list(
    egress: ProviderEgress,
    server: ModelServer,
    status: int,
    body: bytes,
    error: type[Exception],
    outcome: str,
) -> None:
    server.status, server.body = status, body
    with pytest.raises(error):
        await egress.served_models(egress.store.find("rack"))
    egress.flush()
    (entry,) = egress.ledger.entries()
    assert entry.outcome == outcome


async def test_a_server_that_is_not_there() -> None:
    egress = ProviderEgress(load_config(os.environ))
    table = {**PRESETS["vllm"], "base_url": "http://127.0.0.1:9/v1"}
    egress.store.add(read_provider("rack", table, "a test"))
    with pytest.raises(ProviderUnreachable):
        await egress.served_models(egress.store.find("rack"))


def test_kept_models_leave_the_rest_of_the_file() -> None:
    store = ProviderEgress(load_config(os.environ)).store
    store.path.parent.mkdir(parents=True, exist_ok=True)
    text = """\
# mine
[rack] # the one below the stairs
kind = "openai"
base_url = "http://127.0.0.1:8000/v1"
own = true

[groq]
kind = "openai"
base_url = "https://api.groq.com/openai/v1"
"""
    store.path.write_text(text)
    store.keep_models("rack", ["a", "b"], 4096)
    kept = store.find("rack")
    assert (kept.models, kept.context, kept.own) == (("a", "b"), 4096, True)
    assert store.find("groq").models == ()
    assert "# the one below the stairs" in store.path.read_text()
    before = store.path.read_bytes()
    with pytest.raises(ProviderError, match="cannot be the name of a model"):
        store.keep_models("rack", ["with blank"], None)
    assert store.path.read_bytes() == before
