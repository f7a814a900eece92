from __future__ import annotations

from pathlib import Path

import pytest

from ingle.models.errors import ModelNotFound
from ingle.models.model_reference import (
    CatalogReference,
    HubReference,
    ModelReference,
    PathReference,
    parse_reference,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("smollm2", CatalogReference("smollm2")),
        (" SmolLM2:135M ", CatalogReference("smollm2", "135m")),
        ("qwen2.5-coder:1.5b", CatalogReference("qwen2.5-coder", "1.5b")),
        ("hf.co/Qwen/Qwen3-GGUF", HubReference("Qwen", "Qwen3-GGUF")),
        ("hf.co/Qwen/Qwen3-GGUF:q4_k_m", HubReference("Qwen", "Qwen3-GGUF", "Q4_K_M")),
        ("huggingface.co/a/b.c:Q8_0", HubReference("a", "b.c", "Q8_0")),
        ("https://huggingface.co/a/b", HubReference("a", "b")),
    ],
)
def test_names(text: str, expected: ModelReference) -> None:
    assert parse_reference(text) == expected


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        (CatalogReference("a", "b"), "a:b"),
        (CatalogReference("a"), "a"),
        (HubReference("a", "b", "Q4_0"), "hf.co/a/b:Q4_0"),
        (PathReference(Path("/x/y.gguf")), "/x/y.gguf"),
    ],
)
def test_reference_prints_as_written(reference: ModelReference, text: str) -> None:
    assert str(reference) == text
    assert parse_reference(text) == reference


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "a b",
        "a:",
        ":b",
        "a:b:c",
        "-a",
        "hf.co",
        "hf.co:x",
        "hf.co/",
        "hf.co/owner",
        "hf.co/owner/repo/file",
        "hf.co/../repo",
        "hf.co/owner/..",
        "hf.co/owner/a..b",
        "hf.co/owner/repo:../x",
        "hf.co/owner/repo:",
        "https://huggingface.co/a/b/resolve/main/c.gguf",
        "smollm2\0",
        "a\x1b[2J",
        "x" * 65,
        "x" * 5000,
        "ümlaut",
    ],
)
def test_invalid_names_are_rejected(text: str) -> None:
    with pytest.raises(ModelNotFound) as caught:
        parse_reference(text)
    assert caught.value.hint


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "here.gguf").touch()
    here = PathReference(tmp_path / "here.gguf")
    assert parse_reference("here.gguf") == here
    assert parse_reference("./here.gguf") == here
    assert parse_reference("~/here.gguf") == here
    assert parse_reference(str(tmp_path / "here.gguf")) == here
    assert parse_reference("some/where.gguf") == PathReference(tmp_path / "some/where.gguf")
    # Without a separator, a missing file is taken for a name.
    assert parse_reference("gone.gguf") == CatalogReference("gone.gguf")


def test_folder_path_is_parsed_like_a_file_path(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").touch()
    assert parse_reference(f"{tmp_path}/") == PathReference(tmp_path)


def test_home_of_an_unknown_user_is_an_error() -> None:
    with pytest.raises(ModelNotFound):
        parse_reference("~nobody-has-this-name/x.gguf")
