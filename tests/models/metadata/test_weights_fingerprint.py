"""Fingerprints of model folders: equal for copies, different for other weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType]

from ingle.models.metadata.manifest import fingerprint
from ingle.models.safetensors.model_folder import read_folder

CONFIG: dict[str, object] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "vocab_size": 64,
}
Tensors = dict[str, NDArray[np.float32]]


@pytest.fixture
def tensors() -> Tensors:
    random = np.random.default_rng(3)
    return {name: random.random((64, 64), np.float32) for name in ("a", "b")}


@pytest.fixture
def folder(tmp_path: Path, tensors: Tensors) -> Path:
    path = tmp_path / "model"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(CONFIG))
    (path / "tokenizer.json").write_text("{}")
    save_file(tensors, path / "model.safetensors")
    return path


def test_copy_has_the_same_fingerprint(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "elsewhere")
    (copy / "README.md").write_text("Hello")
    first = fingerprint(read_folder(folder))
    assert fingerprint(read_folder(copy)) == first
    assert len(bytes.fromhex(first)) == 32


def test_other_weights_have_another_fingerprint(folder: Path, tensors: Tensors) -> None:
    found = {fingerprint(read_folder(folder))}
    for name in tensors:
        changed = {**tensors, name: tensors[name] * np.float32(1.01)}
        save_file(changed, folder / "model.safetensors")
        found.add(fingerprint(read_folder(folder)))
    save_file({"a": tensors["a"], "c": tensors["b"]}, folder / "model.safetensors")
    found.add(fingerprint(read_folder(folder)))
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({**CONFIG, "rope_theta": 5.0}))
    found.add(fingerprint(read_folder(folder)))
    assert len(found) == 5
