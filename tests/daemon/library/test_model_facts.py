"""Facts read from model files before loading: metadata, capabilities and templates."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ingle.daemon.library.model_facts import Capabilities, FactsReader
from ingle.models.catalog import Catalog
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import ModelTask
from ingle.models.store.model_store import ModelStore

MakeBert = Callable[..., Path]


@pytest.fixture
def bert(tmp_path: Path, make_bert: MakeBert) -> StoredModel:
    return ModelStore(tmp_path / "store", Catalog.load()).resolve(str(make_bert()))


def test_metadata_excludes_long_lists(bert: StoredModel) -> None:
    facts = FactsReader().read(bert)
    assert facts.format == "gguf"
    assert facts.metadata["general.architecture"] == "bert"
    assert facts.lists["tokenizer.ggml.tokens"] is None
    assert facts.capabilities == Capabilities(ModelTask.EMBED)
    assert facts.embedding_length > 0
    assert facts.tensors


def test_file_is_reread_only_after_a_change(bert: StoredModel) -> None:
    reader = FactsReader()
    first = reader.read(bert)
    assert reader.read(bert) is first
    os.utime(bert.path, (1, 1))
    assert reader.read(bert).modified == 1


@pytest.mark.parametrize(
    ("template", "calls_tools", "reasons"),
    [
        ("{{ messages }}", False, False),
        ("{% if tools %}{{ tools }}{% endif %}", True, False),
        ("{{ tools }}{% if enable_thinking %}<think>{% endif %}", True, True),
    ],
)
def test_template_determines_tool_and_reasoning_capabilities(
    bert: StoredModel, template: str, calls_tools: bool, reasons: bool
) -> None:
    reader = FactsReader()
    model = msgspec.structs.replace(bert, chat_template=template)
    facts = reader.read(model)
    assert facts.template == template
    assert facts.capabilities.calls_tools is calls_tools
    assert facts.capabilities.reasons is reasons
    assert reader.read(bert).template == ""  # same file, another model


def test_models_that_share_a_file_keep_their_own_task(bert: StoredModel) -> None:
    reader = FactsReader()
    ranker = msgspec.structs.replace(bert, name="ranker", task=ModelTask.RERANK)
    assert reader.read(bert).capabilities.task is ModelTask.EMBED
    assert reader.read(ranker).capabilities.task is ModelTask.RERANK


def test_unreadable_file_falls_back_to_the_manifest(bert: StoredModel) -> None:
    model = msgspec.structs.replace(bert, context=77)
    bert.path.write_bytes(b"GGUF")
    facts = FactsReader().read(model)
    assert facts.metadata == {"general.architecture": "bert", "bert.context_length": 77}
    bert.path.unlink()
    assert FactsReader().read(model).modified == 0


@pytest.mark.model
def test_coding_model_supports_infill(fetch_model: Callable[[str], Path], tmp_path: Path) -> None:
    store = ModelStore(tmp_path / "store", Catalog.load())
    reader = FactsReader()
    coder = store.resolve(str(fetch_model("qwen2.5-coder:0.5b")))
    assert reader.read(coder).capabilities == Capabilities(
        ModelTask.GENERATE, calls_tools=True, reasons=False, infills=True
    )
    chat_model = store.resolve(str(fetch_model("smollm2")))
    assert not reader.read(chat_model).capabilities.infills
