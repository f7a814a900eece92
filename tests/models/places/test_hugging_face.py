from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from ingle.models.places.model_folders import find_in_hugging_face_cache

Put = Callable[[Path, str, str, bytes], Path]


def test_cached_files_have_hub_names_and_digests(tmp_path: Path, cached: Put, model: bytes) -> None:
    path = cached(tmp_path, "own/Repo-GGUF", "m-Q8_0.gguf", model)
    cached(tmp_path, "own/Repo-GGUF", "mmproj-F16.gguf", b"no language model")
    cached(tmp_path, "own/Repo-GGUF", "BF16/m-BF16.gguf", model[:-1])
    sub, found = sorted(find_in_hugging_face_cache(tmp_path), key=lambda f: f.name)
    assert (found.name, found.path, found.problem) == ("hf.co/own/Repo-GGUF:Q8_0", path, "")
    assert found.sha256 == hashlib.sha256(model).hexdigest()
    assert sub.name == "hf.co/own/Repo-GGUF:BF16"


def test_safetensors_snapshot_is_one_model(tmp_path: Path, cached: Put) -> None:
    link = cached(tmp_path, "own/repo", "config.json", b"{}")
    cached(tmp_path, "own/repo", "model-00001-of-00002.safetensors", b"x")
    (found,) = find_in_hugging_face_cache(tmp_path)
    assert (found.name, found.path) == ("hf.co/own/repo:SAFETENSORS", link.parent)


def test_dangling_link_is_reported(tmp_path: Path, cached: Put, model: bytes) -> None:
    cached(tmp_path, "own/repo", "m-Q8_0.gguf", model).resolve().unlink()
    (found,) = find_in_hugging_face_cache(tmp_path)
    assert found.problem == "it is a link to a file that is gone"


def test_only_the_current_snapshot_is_used(tmp_path: Path, cached: Put, model: bytes) -> None:
    path = cached(tmp_path, "own/repo", "m-Q8_0.gguf", model)
    old = path.parent.with_name("f" * 40)
    old.mkdir()
    (old / "m-Q4_0.gguf").write_bytes(model)
    assert [found.path for found in find_in_hugging_face_cache(tmp_path)] == [path]
    (path.parents[2] / "refs" / "main").write_text("../../elsewhere")
    assert len(list(find_in_hugging_face_cache(tmp_path))) == 1


def test_other_files_are_ignored(tmp_path: Path, cached: Put) -> None:
    cached(tmp_path, "own/repo", "README.md", b"")
    (tmp_path / "datasets--own--data").mkdir()
    (tmp_path / "models--own--empty").mkdir()
    (tmp_path / "version.txt").write_text("1")
    assert list(find_in_hugging_face_cache(tmp_path)) == []
