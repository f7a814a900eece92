from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from ingle.models.metadata.stored_model import FirstMessage
from ingle.models.places.found_model import FoundModel
from ingle.models.places.ollama import find_in_ollama

Put = Callable[..., Path]
LIBRARY = "registry.ollama.ai/library"


def only(folder: Path) -> FoundModel:
    (found,) = find_in_ollama(folder)
    return found


def test_library_model(tmp_path: Path, in_ollama: Put, model: bytes) -> None:
    in_ollama(
        tmp_path,
        f"{LIBRARY}/llama3.2/latest",
        model=model,
        template=b"{{ .Prompt }}",
        system=b"Be brief.",
        params=b'{"temperature": 0.6, "stop": ["<|eot|>"]}',
        license=b"\n  LLAMA 3.2 COMMUNITY LICENSE\nmore",
        messages=b'[{"role": "user", "content": "Hi"}]',
    )
    found = only(tmp_path)
    digest = hashlib.sha256(model).hexdigest()
    assert (found.name, found.problem) == ("llama3.2:latest", "")
    assert (found.path, found.sha256) == (tmp_path / "blobs" / f"sha256-{digest}", digest)
    assert (found.licence, found.system) == ("LLAMA 3.2 COMMUNITY LICENSE", "Be brief.")
    assert found.options == {"temperature": 0.6, "stop": ["<|eot|>"]}
    assert found.messages == (FirstMessage("user", "Hi"),)
    assert len(found.notes) == 1
    assert "template" in found.notes[0]


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("registry.ollama.ai/me/model/v1", "me/model:v1"),
        ("hf.co/own/Repo-GGUF/Q4_K_M", "hf.co/own/Repo-GGUF:Q4_K_M"),
        ("example.com/me/model/v1", "example.com/me/model:v1"),
    ],
)
def test_names_of_other_namespaces_and_registries(
    tmp_path: Path, in_ollama: Put, model: bytes, place: str, name: str
) -> None:
    in_ollama(tmp_path, place, model=model)
    assert only(tmp_path).name == name


def test_projector_belongs_to_the_model(tmp_path: Path, in_ollama: Put, model: bytes) -> None:
    in_ollama(tmp_path, f"{LIBRARY}/llava/7b", model=model, projector=b"p")
    found = only(tmp_path)
    assert found.problem == ""
    assert found.projector is not None
    assert found.projector.read_bytes() == b"p"


@pytest.mark.parametrize(
    ("layers", "problem"),
    [
        ({"model": b"weights", "adapter": b"lora"}, "adapter"),
        ({"params": b"{}"}, "cloud"),
        ({"tensor": b"t"}, "tensor by tensor"),
    ],
)
def test_unsupported_layers_are_reported(
    tmp_path: Path, in_ollama: Put, layers: dict[str, bytes], problem: str
) -> None:
    in_ollama(tmp_path, f"{LIBRARY}/odd/1b", **layers)
    assert problem in only(tmp_path).problem


def test_damaged_manifests_and_blobs_are_reported(
    tmp_path: Path, in_ollama: Put, model: bytes
) -> None:
    manifest = in_ollama(tmp_path, f"{LIBRARY}/tiny/1b", model=model)
    blob = tmp_path / "blobs" / f"sha256-{hashlib.sha256(model).hexdigest()}"
    blob.write_bytes(model[:-1])
    assert "bytes" in only(tmp_path).problem
    blob.unlink()
    assert only(tmp_path).problem == "it is gone"
    manifest.write_text(manifest.read_text().replace("sha256:", "../../"))
    assert "no SHA-256" in only(tmp_path).problem
    manifest.write_text("{")
    assert "cannot be read" in only(tmp_path).problem
