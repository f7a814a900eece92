"""Installed models are compared with what their sources have now, and updated."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from ingle.models.catalog import Catalog
from ingle.models.errors import (
    DiskFull,
    InvalidModel,
    ModelNotFound,
    Offline,
    PullCancelled,
    UnsupportedModel,
)
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.store.model_copies import ModelCopier
from ingle.models.store.model_store import ModelStore
from ingle.models.store.model_updates import find_update, roll_back, update_model

if TYPE_CHECKING:
    from ..conftest import FileServer, GGUFBuilder, MakeStore, ServeHub

# Updates `tiny` to another entry of the catalog.
UPDATE = """
import sys
from pathlib import Path
from ingle.models.catalog import Catalog, CatalogEntry, URLLocation
from ingle.models.store.model_store import ModelStore
from ingle.models.store.model_updates import update_model
root, source, size, digest = sys.argv[1:]
entry = CatalogEntry(
    name="tiny", tag="1b", description="d", licence="MIT", parameters=1, quantization="q",
    context=1, chat=True, file="tiny.gguf", size=int(size), sha256=digest,
    sources=[URLLocation(source)],
)
store = ModelStore(Path(root), Catalog([entry], "tiny"))
update_model(store, store.resolve("tiny"))
"""


def kept_of(store: ModelStore, model: StoredModel) -> list[str]:
    versions = store.versions_of(model)
    assert versions is not None
    return [each.sha256 for each in versions.kept()]


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


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
    with pytest.raises(UnsupportedModel, match="added or made"):
        update_model(store, added)
    assert store.versions_of(added) is None


@pytest.fixture
def versions(tiny: GGUFBuilder, new_tensor: Callable[..., object]) -> list[bytes]:
    """Return three versions of a model of two megabytes, of which the second is larger."""
    small = tiny.build()
    tiny.tensors.append(new_tensor("output.weight", (1024, 512)))  # type: ignore[arg-type]
    return [small, tiny.build(seed=1), tiny.build(seed=2)]


def test_update_keeps_the_version_before_and_rolls_back_to_it(
    server: FileServer, make_store: MakeStore, serve_hub: ServeHub, versions: list[bytes]
) -> None:
    first, second, third = versions
    store = make_store(first, "https://example.com/t")
    serve_hub("own/repo", {"m-Q4_1.gguf": first})
    old = store.pull("hf.co/own/repo")
    assert update_model(store, old).path == old.path  # nothing changed
    serve_hub("own/repo", {"m-Q4_1.gguf": second})
    found = find_update(store, old)
    assert (found.size, found.new_size, found.download) == (len(first), *[len(second)] * 2)
    new = update_model(store, old)
    assert (new.path.read_bytes(), new.size) == (second, len(second))
    assert old.path.read_bytes() == first  # a process that runs it can go on reading
    assert kept_of(store, new) == [digest_of(first)]
    assert store.plan_removal(new.name).frees > len(first) + len(second)

    back = roll_back(store, new)
    assert (back.path, back.sha256, store.resolve(old.name)) == (old.path, old.sha256, back)
    assert kept_of(store, back) == [digest_of(second)]
    assert find_update(store, back).download == 0
    server.log.clear()
    assert update_model(store, back).path == new.path
    assert [each.path for each in server.log] == ["/api/models/own/repo?blobs=true"]

    serve_hub("own/repo", {"m-Q4_1.gguf": third})
    newest = update_model(store, new)
    assert kept_of(store, newest) == [digest_of(second)]
    assert not old.path.exists()  # one version is kept
    discarded = store.versions_of(newest)
    assert discarded is not None
    assert discarded.discard() >= len(second)
    assert kept_of(store, newest) == []
    assert store.resolve(old.name).path.read_bytes() == third
    with pytest.raises(ModelNotFound, match="No other version"):
        roll_back(store, newest)
    store.remove(old.name)
    assert not [path for path in store.root.rglob("*") if path.is_file() and "hf.co" in path.parts]


def test_unchanged_files_of_a_model_in_parts_are_not_downloaded_again(
    server: FileServer,
    make_store: MakeStore,
    serve_hub: ServeHub,
    tiny_parts: Callable[..., list[Path]],
    tmp_path: Path,
) -> None:
    parts = {path.name: path.read_bytes() for path in tiny_parts(tmp_path / "parts")}
    store = make_store(b"x", "https://example.com/t")
    serve_hub("own/repo", parts)
    old = store.pull("hf.co/own/repo")
    name = list(parts)[1]
    changed = parts | {name: parts[name][:-1] + b"?"}
    serve_hub("own/repo", changed)
    assert find_update(store, old).download == len(parts[name])
    server.log.clear()
    new = update_model(store, old)
    assert [each.path.rpartition("/")[2] for each in server.log[1:]] == [name]
    assert {each: (new.path.parent / each).read_bytes() for each in changed} == changed
    assert {each: (old.path.parent / each).read_bytes() for each in parts} == parts
    manifests = sum(path.stat().st_size for path in old.path.parent.rglob("manifest.json"))
    weights = sum(map(len, parts.values())) + len(parts[name])
    assert store.plan_removal(new.name).frees == weights + manifests


@pytest.mark.skipif(sys.platform == "win32", reason="failpoints end processes")
@pytest.mark.parametrize(
    "point",
    [
        "update.switch",
        *(
            pytest.param(f"pull.{step}", marks=pytest.mark.slow)
            for step in ("write", "sync", "rename")
        ),
    ],
)
def test_killed_update_leaves_the_old_version_in_use(
    server: FileServer,
    make_store: MakeStore,
    versions: list[bytes],
    tmp_path: Path,
    point: str,
) -> None:
    first, second, _ = versions
    store = make_store(first, server.serve("/1", first))
    old = store.pull("tiny")
    facts = [str(store.root), server.serve("/2", second), str(len(second)), digest_of(second)]
    script = tmp_path / "update.py"
    script.write_text(UPDATE)
    command = [sys.executable, "-P", str(script), *facts]
    killed = subprocess.run(
        command, env=os.environ | {"INGLE_TEST_FAILPOINTS": f"{point}=exit:7"}, check=False
    )
    assert killed.returncode == 7
    assert store.resolve("tiny") == old
    assert old.path.read_bytes() == first
    assert kept_of(store, old) == []
    subprocess.run(command, check=True)
    assert store.folders.models()[0].path.read_bytes() == second


def test_failed_update_leaves_the_old_version_in_use(
    server: FileServer,
    make_store: MakeStore,
    serve_hub: ServeHub,
    versions: list[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second, _ = versions
    store = make_store(first, "https://example.com/t")
    serve_hub("own/repo", {"m-Q4_1.gguf": first})
    old = store.pull("hf.co/own/repo")

    def unchanged() -> None:
        assert store.resolve(old.name) == old
        assert old.path.read_bytes() == first
        assert kept_of(store, old) == []

    serve_hub("own/repo", {"m-Q4_1.gguf": b"no model" * 1000})
    with pytest.raises(InvalidModel):
        update_model(store, old)
    unchanged()
    serve_hub("own/repo", {"m-Q4_1.gguf": second})
    with pytest.raises(PullCancelled):
        update_model(store, old, cancelled=lambda: True)
    unchanged()

    def little_room(path: Path) -> SimpleNamespace:
        return SimpleNamespace(free=len(second))

    with monkeypatch.context() as patched:
        patched.setattr(
            "ingle.models.download.file_download.shutil.disk_usage",
            little_room,
        )
        server.log.clear()
        with pytest.raises(DiskFull, match="not enough room"):
            update_model(store, old)
        assert [each.path for each in server.log] == [
            "/api/models/own/repo?blobs=true"
        ]  # before a byte
    unchanged()
    assert update_model(store, old).path.read_bytes() == second
