"""Paths that llama-server has with and without `/v1`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ...conftest import RunningDaemon

HI = [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize("version", ["", "/v1"])
@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        ("/chat/completions", {"messages": HI}, "chat.completion"),
        ("/responses", {"input": "Hi"}, "response"),
    ],
)
async def test_both_paths_answer_alike(
    daemon: RunningDaemon, version: str, path: str, body: dict[str, Any], kind: str
) -> None:
    answer = await daemon.tcp.post(version + path, json={"model": "echo:1", **body})
    assert answer.status_code == 200, answer.text
    assert answer.json()["object"] == kind
    refused = await daemon.tcp.post(version + path, json={"model": 1})
    assert refused.json()["error"]["type"] == "invalid_request_error"
    page = (await daemon.tcp.get("/openapi.json")).json()
    assert "post" in page["paths"][version + path]


@pytest.mark.parametrize("version", ["", "/v1"])
async def test_health_and_models(daemon: RunningDaemon, version: str) -> None:
    assert (await daemon.tcp.get(f"{version}/health")).json()["status"] == "ok"
    models = (await daemon.tcp.get(f"{version}/models")).json()
    assert "echo:1" in [model["id"] for model in models["data"]]


@pytest.mark.parametrize("version", ["", "/v1"])
@pytest.mark.parametrize("path", ["/completions", "/embeddings"])
async def test_both_paths_exist(daemon: RunningDaemon, version: str, path: str) -> None:
    """Without `/v1` they have llama-server's own format."""
    refused = await daemon.tcp.post(version + path, json={"model": 1})
    assert refused.status_code == 400
    assert isinstance(refused.json()["error"]["code"], str if version else int)
