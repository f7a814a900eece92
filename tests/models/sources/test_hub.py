from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingle.models.errors import ModelNotFound, SourceUnavailable, UnsupportedModel
from ingle.models.sources.base import RemoteFile
from ingle.models.sources.hub import HubSource, choose_file, find_file, quantization_of
from ingle.models.sources.partial import PartialFile

if TYPE_CHECKING:
    from ..conftest import FileServer

CONTENT = b"weights" * 1000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def serve_repository(server: FileServer, *names: str) -> None:
    siblings: list[dict[str, Any]] = [
        {
            "rfilename": name,
            "size": len(CONTENT),
            "blobId": "b",
            "lfs": {"size": len(CONTENT), "sha256": DIGEST, "pointerSize": 130},
        }
        for name in names
    ]
    info = {"id": "own/Repo-GGUF", "siblings": siblings, "tags": [], "private": False}
    body = json.dumps(info).encode()
    server.serve("/api/models/own/Repo-GGUF", body, headers={"Content-Type": "application/json"})


def test_a_listed_file_is_found_with_its_digest(server: FileServer) -> None:
    serve_repository(server, "README.md", "m-Q8_0.gguf", "m-Q4_K_M.gguf", "mmproj-m-F16.gguf")
    found = find_file("own/Repo-GGUF", None, endpoint=server.address)
    assert found == RemoteFile("m-Q4_K_M.gguf", len(CONTENT), DIGEST)
    assert find_file("own/Repo-GGUF", "Q8_0", endpoint=server.address).name == "m-Q8_0.gguf"


def test_the_file_is_fetched_with_the_token(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    server.serve("/own/Repo-GGUF/resolve/main/m-Q8_0.gguf", CONTENT)
    source = HubSource("own/Repo-GGUF", "m-Q8_0.gguf", endpoint=server.address)
    with PartialFile(tmp_path / "p") as partial:
        source.fetch(RemoteFile("m-Q8_0.gguf"), partial, lambda done, total: None, lambda: False)
    assert (tmp_path / "p").read_bytes() == CONTENT
    assert server.log[0].headers["authorization"] == "Bearer hf_secret"


def test_requests_tell_nothing_about_the_machine(server: FileServer) -> None:
    serve_repository(server, "m-Q8_0.gguf")
    find_file("own/Repo-GGUF", None, endpoint=server.address)
    assert [request.path.partition("?")[0] for request in server.log] == [
        "/api/models/own/Repo-GGUF"
    ]
    assert "torch" not in server.log[0].headers["user-agent"]


def test_a_missing_repository(server: FileServer) -> None:
    server.serve("/api/models/own/none", b"", status=404, headers={"X-Error-Code": "RepoNotFound"})
    with pytest.raises(ModelNotFound, match="own/none"):
        find_file("own/none", None, endpoint=server.address)


def test_a_hub_that_fails(server: FileServer) -> None:
    server.serve("/api/models/own/broken", b"", status=500)
    with pytest.raises(SourceUnavailable, match="cannot list"):
        find_file("own/broken", None, endpoint=server.address)


def test_no_hub(tmp_path: Path) -> None:
    source = HubSource("own/Repo-GGUF", "m.gguf", endpoint="http://127.0.0.1:9")
    with (
        PartialFile(tmp_path / "p") as partial,
        pytest.raises(SourceUnavailable, match="cannot be reached") as caught,
    ):
        source.fetch(RemoteFile("m.gguf"), partial, lambda done, total: None, lambda: False)
    assert caught.value.hint == "Check the connection and pull again."


def test_the_offline_switch(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(SourceUnavailable, match="HF_HUB_OFFLINE"):
        find_file("own/Repo-GGUF", None, endpoint=server.address)
    assert server.log == []


@pytest.mark.parametrize(
    ("name", "quantization"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"),
        ("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "Q4_K_M"),
        ("Model-IQ2_XXS.gguf", "IQ2_XXS"),
        ("Model-UD-Q3_K_XL.gguf", "UD-Q3_K_XL"),
        ("gpt-oss-20b-MXFP4.gguf", "MXFP4"),
        ("model-bf16.gguf", "BF16"),
        ("big-Q8_0-00001-of-00003.gguf", "Q8_0"),
        ("F16/model-F16.gguf", "F16"),
        ("gemma.it.gguf", "GEMMA-IT"),
    ],
)
def test_quantization_in_a_name(name: str, quantization: str) -> None:
    assert quantization_of(name) == quantization


def files(*names: str) -> list[RemoteFile]:
    return [RemoteFile(name) for name in names]


def test_the_only_file_is_taken_whatever_its_name() -> None:
    assert choose_file("o/r", files("gemma.it.gguf"), None).name == "gemma.it.gguf"


def test_what_else_there_is_is_said() -> None:
    with pytest.raises(ModelNotFound) as caught:
        choose_file("o/r", files("m-Q8_0.gguf", "m-Q4_0.gguf"), "Q2_K")
    assert caught.value.hint == "It has: Q4_0, Q8_0."


@pytest.mark.parametrize("name", ["m-Q8_0-00001-of-00002.gguf", "Q8_0/m-Q8_0.gguf"])
@pytest.mark.parametrize("quant", [None, "Q8_0"])
def test_models_in_parts(name: str, quant: str | None) -> None:
    with pytest.raises(UnsupportedModel):
        choose_file("o/r", files(name), quant)


def test_a_repository_without_gguf() -> None:
    with pytest.raises(ModelNotFound, match="no GGUF"):
        choose_file("o/r", files("pytorch_model.bin", "mmproj-F16.gguf"), None)


def test_a_repository_of_safetensors() -> None:
    with pytest.raises(UnsupportedModel, match="does not pull yet") as caught:
        choose_file("o/r", files("model.safetensors", "mmproj-F16.gguf"), None)
    assert "hf download o/r" in (caught.value.hint or "")
