"""Installed models are compared with what their sources have now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.models.catalog import Catalog
from ingle.models.errors import Offline
from ingle.models.store.model_copies import ModelCopier
from ingle.models.store.model_store import ModelStore
from ingle.models.store.model_updates import find_update

if TYPE_CHECKING:
    from ..conftest import FileServer, MakeStore, ServeHub


def test_model_of_the_hub_is_compared_by_its_digest(
    server: FileServer, make_store: MakeStore, serve_hub: ServeHub, big_model: bytes
) -> None:
    store = make_store(big_model, "https://example.com/t")
    serve_hub("own/repo", {"m-Q4_1.gguf": big_model})
    model = store.pull("hf.co/own/repo")
    assert find_update(store, model).state == "current"
    serve_hub("own/repo", {"m-Q4_1.gguf": big_model[:-1] + b"?"})
    assert find_update(store, model).state == "changed"
    serve_hub("own/repo", {"m-Q8_0.gguf": big_model})
    gone = find_update(store, model)
    assert (gone.state, "Q4_1" in gone.reason) == ("unknown", True)
    store.offline = True
    with pytest.raises(Offline):
        find_update(store, model)


def test_model_of_the_catalog_is_compared_without_a_request(
    server: FileServer, make_store: MakeStore, big_model: bytes
) -> None:
    store = make_store(big_model, server.serve("/t", big_model))
    model = store.pull("tiny")
    server.log.clear()
    assert find_update(store, model).state == "current"
    manifest = model.path.parent / "manifest.json"
    fields = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(fields | {"sha256": "0" * 64}))
    assert find_update(store, store.resolve("tiny")).state == "changed"
    assert server.log == []


def test_model_of_this_machine_has_no_source(tmp_path: Path, big_model: bytes) -> None:
    store = ModelStore(tmp_path / "store", Catalog.load())
    path = tmp_path / "m.gguf"
    path.write_bytes(big_model)
    added = ModelCopier(store).add(path, "mine")
    assert "added or made" in find_update(store, added).reason
