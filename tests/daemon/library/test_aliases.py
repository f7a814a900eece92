"""Model aliases: exact names, wildcards, the unknown model, and errors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.daemon.library.aliases import AliasTable
from ingle.models.catalog import Catalog
from ingle.models.errors import ModelNotFound
from ingle.models.metadata.manifest import Manifest, write_manifest
from ingle.models.store.model_store import ModelStore

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

ALIASES = (
    ("gpt-4o", "coder"),
    ("claude-*", "coder"),
    ("claude-*-haiku*", "smollm2"),
    ("claude-3", "smollm2:135m"),
    ("coder", "echo:1"),
    ("openai/gpt-?", "echo:1"),
    ("gone", "qwen2.5-coder:1.5b"),
)


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    """`smollm2:135m`, `echo:1` and `mine:latest`, with empty model files."""
    store = ModelStore(tmp_path, Catalog.load())
    for name in ("smollm2:135m", "echo:1", "mine:latest"):
        folder = tmp_path.joinpath(*name.split(":"))
        folder.mkdir(parents=True)
        (folder / "model.gguf").write_bytes(b"GGUF")
        manifest = Manifest(
            name=name,
            file="model.gguf",
            size=4,
            sha256="0" * 64,
            licence="",
            description="",
            parameters=1,
            quantization="Q8_0",
            architecture="llama",
            context=4096,
            chat=True,
            sampling={},
            source="test",
        )
        write_manifest(folder, manifest)
    return store


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("smollm2", "smollm2:135m"),
        ("smollm2:latest", "smollm2:135m"),
        ("SmolLM2:LATEST", "smollm2:135m"),
        ("echo", "echo:1"),
        ("echo:latest", "echo:1"),
        ("mine", "mine:latest"),
        ("mine:latest", "mine:latest"),
        ("gpt-4o", "echo:1"),
        (" GPT-4o ", "echo:1"),
        ("gpt-4o:latest", "echo:1"),
        ("claude-opus-4-8", "echo:1"),
        ("claude-opus-4-8[1m]", "echo:1"),
        ("claude-4-haiku-20260101", "smollm2:135m"),
        ("claude-3", "smollm2:135m"),
        ("openai/gpt-5", "echo:1"),
    ],
)
def test_names_and_aliases_resolve_to_a_model(store: ModelStore, name: str, found: str) -> None:
    assert AliasTable(ALIASES).resolve(name, store).name == found


def test_installed_model_takes_precedence_over_an_alias(store: ModelStore) -> None:
    table = AliasTable([("echo:1", "smollm2"), ("*", "smollm2")], unknown_model="smollm2")
    assert table.resolve("echo:1", store).name == "echo:1"
    assert table.resolve("anything", store).name == "smollm2:135m"


def test_brackets_are_not_wildcards(store: ModelStore) -> None:
    table = AliasTable([("a[bc]*", "echo:1")])
    assert table.resolve("a[bc]d", store).name == "echo:1"
    with pytest.raises(ModelNotFound):
        table.resolve("ab", store)


def test_unknown_name_resolves_to_the_unknown_model(store: ModelStore) -> None:
    table = AliasTable(ALIASES, unknown_model="coder")
    assert table.resolve("whatever/it-is:7b", store).name == "echo:1"


@pytest.mark.parametrize(
    "name", ["qwen2.5-coder:0.5b", "hf.co/owner/repo:Q4_0", "/none.gguf", "./none.gguf", "gone"]
)
def test_specific_reference_does_not_fall_back(store: ModelStore, name: str) -> None:
    table = AliasTable(ALIASES, unknown_model="echo:1")
    with pytest.raises(ModelNotFound):
        table.resolve(name, store)


def test_alias_of_a_missing_model_reports_its_target(store: ModelStore) -> None:
    with pytest.raises(ModelNotFound) as caught:
        AliasTable(ALIASES).resolve("gone", store)
    assert "'gone' is an alias of 'qwen2.5-coder:1.5b'" in caught.value.message
    assert caught.value.hint == "`ingle pull qwen2.5-coder:1.5b` fetches it."


def test_unknown_name_error_lists_known_names(store: ModelStore) -> None:
    with pytest.raises(ModelNotFound) as caught:
        AliasTable(ALIASES).resolve("gpt-4", store)
    assert caught.value.hint is not None
    for word in ("`gpt-4o`", "`echo:1`", "`smollm2:135m`", "`unknown_model`"):
        assert word in caught.value.hint


def test_very_long_names_are_not_matched_against_patterns(store: ModelStore) -> None:
    table = AliasTable([("a*a*a*a*a*a*a*a*b", "echo:1")])
    assert table.target("a" * 500) is None
    assert table.target("a" * 500 + "b") == "echo:1"
    assert table.target("a" * 100_000 + "b") is None


@pytest.mark.parametrize("name", ["x" * 10**7, "\ud800", "a\x00b", "", " ", "🙂" * 5000])
def test_hostile_names_are_not_found(store: ModelStore, name: str) -> None:
    with pytest.raises(ModelNotFound) as caught:
        AliasTable(ALIASES).resolve(name, store)
    assert len(caught.value.message) + len(caught.value.hint or "") < 20_000
    (caught.value.message + str(caught.value.hint)).encode()


def test_entries_lists_exact_aliases_with_their_targets() -> None:
    assert AliasTable(ALIASES).entries() == [
        ("gpt-4o", "echo:1"),
        ("claude-3", "smollm2:135m"),
        ("coder", "echo:1"),
        ("gone", "qwen2.5-coder:1.5b"),
    ]


async def test_endpoints_accept_aliases(run_daemon: DaemonFactory) -> None:
    hi = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}
    async with run_daemon(aliases=(("gpt-4o", "echo:1"),), unknown_model="") as daemon:
        answer = await daemon.tcp.post("/v1/chat/completions", json=hi)
        assert answer.json()["model"] == "echo:1"
        assert (await daemon.tcp.get("/v1/models/gpt-4o")).json()["root"] == "echo:1"
        assert (await daemon.tcp.get("/ingle/v1/models/gpt-4o")).json()["name"] == "echo:1"
        started = await daemon.tcp.post("/ingle/v1/generations", json=hi)
        assert started.json()["model"] == "echo:1"
        loaded = await daemon.tcp.post("/ingle/v1/load", json={"model": "gpt-4o:latest"})
        assert loaded.json()["name"] == "echo:1"
        unknown = await daemon.tcp.post("/v1/chat/completions", json={**hi, "model": "o9"})
        assert unknown.status_code == 404
        assert "unknown_model" in unknown.json()["error"]["message"]
        # Deleting an alias must not remove the model it points to.
        assert (await daemon.tcp.delete("/ingle/v1/models/gpt-4o")).status_code == 404
        unloaded = await daemon.tcp.post("/ingle/v1/unload", json={"model": "gpt-4o"})
        assert unloaded.json() == {"unloaded": ["echo:1"]}


async def test_default_model_may_be_an_alias(run_daemon: DaemonFactory) -> None:
    async with run_daemon(aliases=(("mine", "echo:1"),), default_model="mine") as daemon:
        assert (await daemon.tcp.get("/ingle/v1/status")).json()["default_model"] == "echo:1"
        models = (await daemon.tcp.get("/ingle/v1/models")).json()["models"]
        assert [model["name"] for model in models if model["default"]] == ["echo:1"]
