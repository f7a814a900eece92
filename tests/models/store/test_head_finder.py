"""Heads found by the names of their models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ingle.models.metadata.stored_model import StoredModel, UnusableModel
from ingle.models.store.head_finder import find_heads


def _head(folder: Path, **settings: Any) -> UnusableModel:
    folder.mkdir(parents=True)
    known = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", **settings}
    (folder / "config.json").write_text(json.dumps(known))
    return UnusableModel(folder.name, str(folder), "place", "it is no model")


def _model(name: str, path: str) -> StoredModel:
    return StoredModel(
        name=name,
        path=Path(path),
        size=1,
        sha256=None,
        licence="",
        description="",
        parameters=1,
        quantization="",
        architecture="llama",
        context=1,
        chat=True,
        source="test",
    )


@pytest.mark.parametrize(
    ("name", "path", "heads"),
    [
        ("qwen3:8b", "model.gguf", ["Qwen3-8B_eagle3"]),
        ("x", "Qwen3-8B-Q4_K_M.gguf", ["Qwen3-8B_eagle3"]),
        ("hf.co/Qwen/Qwen3-8B-GGUF:Q4_K_M", "model.gguf", ["Qwen3-8B_eagle3"]),
        ("qwen3:14b", "Qwen3-14B-Q8_0.gguf", []),
        ("a", "Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", ["EAGLE3-LLaMA3.1-Instruct-8B"]),
        ("llama3.2:3b", "model.gguf", []),
        ("hf.co/openai/gpt-oss-20b:SAFETENSORS", "models", ["head"]),
        ("eagle3", "eagle3.gguf", []),
    ],
)
def test_a_head_has_the_words_of_its_model(
    name: str, path: str, heads: list[str], tmp_path: Path
) -> None:
    layer = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 1, "vocab_size": 9}
    layer |= {"num_hidden_layers": 1}
    verifier = {"verifier": {"name_or_path": "openai/gpt-oss-20b"}}
    speculators = {"transformer_layer_config": layer, "speculators_config": verifier}
    folders = [
        _head(tmp_path / "Qwen3-8B_eagle3"),
        _head(tmp_path / "EAGLE3-LLaMA3.1-Instruct-8B"),
        _head(tmp_path / "head", **speculators),
        _head(tmp_path / "Qwen3-14B", architectures=["Qwen3ForCausalLM"]),
    ]
    assert [each.name for each in find_heads(_model(name, path), folders)] == heads


def test_settings_of_a_head_that_are_no_group_are_no_error(tmp_path: Path) -> None:
    damaged = _head(tmp_path / "Qwen3-8B_eagle3", eagle_config=["no group"])
    model = _model("qwen3:8b", "model.gguf")
    assert find_heads(model, [damaged]) == [damaged], "the load says what is wrong with it"
