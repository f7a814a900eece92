"""Describing remote models from their headers, without downloading weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.models.download.model_download import WantedFile, WantedModel
from ingle.models.download.remote_model import read_remote_model
from ingle.models.download.wanted_models import hub_model
from ingle.models.errors import InvalidModel, SourceUnavailable
from ingle.models.fit.model_shape import shape_of
from ingle.models.gguf.gguf_header import GGUFHeader, read_header
from ingle.models.model_reference import HubReference
from ingle.models.safetensors.model_folder import ModelFolder, read_folder
from ingle.models.sources.download_source import RemoteFile, Source
from ingle.models.sources.http_source import HTTPSource
from ingle.models.sources.package_index_source import PackageIndexSource

if TYPE_CHECKING:
    from ..conftest import FileServer, GGUFBuilder, ServeHub

UINT32 = 4


def wanted(*sources: Source) -> WantedModel:
    return WantedModel("far", [WantedFile(RemoteFile("far.gguf"), sources)])


def test_header_is_read_without_the_weights(
    server: FileServer, tiny: GGUFBuilder, tmp_path: Path
) -> None:
    header = tiny.header()
    weights = bytes(8 << 20)
    tiny.set("general.license", 8, "mit")
    whole = tiny.build()
    (tmp_path / "near.gguf").write_bytes(whole)
    url = server.serve("/far.gguf", whole + weights)
    found = read_remote_model(wanted(HTTPSource(url)))
    assert isinstance(found.description, GGUFHeader)
    assert shape_of(found.description) == shape_of(read_header(tmp_path / "near.gguf"))
    assert found.licence == "mit"
    assert len(header) < found.fetched <= 1 << 20
    assert [request.range for request in server.log] == ["bytes=0-1048575"]


def test_long_header_is_fetched_in_pieces(server: FileServer, tiny: GGUFBuilder) -> None:
    tokens = [f"token number {number:>12}" for number in range(150_000)]
    for beside in ("scores", "token_type"):
        tiny.metadata.pop(f"tokenizer.ggml.{beside}", None)
    tiny.set("tokenizer.ggml.tokens", 9, tokens, 8)
    content = tiny.build()
    assert len(content) > 4 << 20
    found = read_remote_model(wanted(HTTPSource(server.serve("/far.gguf", content))))
    assert isinstance(found.description, GGUFHeader)
    assert found.description.vocab_size == 150_000
    starts = [int((request.range or "")[6:].partition("-")[0]) for request in server.log]
    assert starts == sorted(starts)
    assert starts[0] == 0
    assert 2 <= len(starts) <= 4


def test_server_without_range_support_is_an_error(server: FileServer, tiny: GGUFBuilder) -> None:
    url = server.serve("/far.gguf", tiny.build(), ignores_range=True)
    with pytest.raises(SourceUnavailable, match="sends whole files only") as caught:
        read_remote_model(wanted(HTTPSource(url)))
    assert caught.value.hint is not None
    with pytest.raises(SourceUnavailable, match="comes as a whole only"):
        read_remote_model(wanted(PackageIndexSource(["a==1"])))


def test_next_source_is_tried(server: FileServer, tiny: GGUFBuilder) -> None:
    whole = server.serve("/whole.gguf", tiny.build(), ignores_range=True)
    parts = server.serve("/parts.gguf", tiny.build())
    sources = [PackageIndexSource(["a==1"]), HTTPSource(whole), HTTPSource(parts)]
    assert read_remote_model(wanted(*sources)).description.parameters > 0


@pytest.mark.parametrize("status", [401, 404, 500])
def test_http_errors_are_reported(server: FileServer, tiny: GGUFBuilder, status: int) -> None:
    url = server.serve("/far.gguf", tiny.build(), status=status)
    with pytest.raises(SourceUnavailable, match=f"answers {status}"):
        read_remote_model(wanted(HTTPSource(url)))


@pytest.mark.parametrize(
    "headers", [{"Content-Range": "bytes 5-9/900"}, {"Content-Encoding": "gzip"}]
)
def test_wrong_range_or_encoding_is_rejected(
    server: FileServer, tiny: GGUFBuilder, headers: dict[str, str]
) -> None:
    url = server.serve("/far.gguf", tiny.build(), status=206, headers=headers)
    with pytest.raises(SourceUnavailable, match=r"answers with another part|encoding"):
        read_remote_model(wanted(HTTPSource(url)))


def test_remote_file_that_is_not_a_model_is_rejected(server: FileServer) -> None:
    with pytest.raises(InvalidModel, match="not a GGUF file"):
        read_remote_model(wanted(HTTPSource(server.serve("/far.gguf", b"<html>" * 1000))))


def test_all_shards_are_described(
    server: FileServer, serve_hub: ServeHub, tiny_parts: Callable[..., list[Path]]
) -> None:
    paths = tiny_parts()
    serve_hub("me/Parts", {path.name: path.read_bytes() for path in paths})
    found = read_remote_model(hub_model(HubReference("me", "Parts", None)))
    assert isinstance(found.description, GGUFHeader)
    assert found.description.parameters == read_header(paths[0]).parameters
    assert found.licence == "mit"
    assert found.size == sum(path.stat().st_size for path in paths)


def test_safetensors_repository_is_described(
    serve_hub: ServeHub, make_folder: Callable[..., Path]
) -> None:
    folder = make_folder()
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    serve_hub("me/Folder", files)
    found = read_remote_model(hub_model(HubReference("me", "Folder", None)))
    here = read_folder(folder)
    assert isinstance(found.description, ModelFolder)
    assert found.description.config == here.config
    assert found.description.tensor_bytes == here.tensor_bytes
    assert found.description.parameters == here.parameters
    assert json.loads(files["config.json"])["vocab_size"] == here.config.vocab_size
