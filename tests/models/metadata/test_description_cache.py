from __future__ import annotations

import os
from pathlib import Path

import pytest

from ingle.models.errors import InvalidModel, ModelError
from ingle.models.gguf import gguf_header
from ingle.models.metadata.description_cache import DescriptionCache
from ingle.models.metadata.stored_model import StoredModel


def test_descriptions_and_errors_are_cached_across_processes(
    tmp_path: Path, model: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, good, bad = tmp_path / "c" / "seen.json", tmp_path / "a.gguf", tmp_path / "b.gguf"
    good.write_bytes(model)
    bad.write_bytes(model[:-64])
    first = DescriptionCache(cache)
    found = first.describe(good)
    with pytest.raises(InvalidModel, match="truncated") as caught:
        first.describe(bad)
    first.save()

    def fail_on_read(path: Path) -> object:
        raise AssertionError(path)

    monkeypatch.setattr(gguf_header, "read_header", fail_on_read)
    second = DescriptionCache(cache)
    assert second.describe(good) == found
    assert isinstance(second.describe(good).path, Path)
    with pytest.raises(InvalidModel, match="truncated") as again:
        second.describe(bad)
    assert again.value.hint == caught.value.hint
    os.utime(good, (1, 1))
    with pytest.raises(AssertionError):
        second.describe(good)


@pytest.mark.parametrize("content", [b"", b"[]", b"{\xff", b'{"format": 0, "seen": {}}'])
def test_damaged_cache_is_ignored(tmp_path: Path, model: bytes, content: bytes) -> None:
    cache, path = tmp_path / "seen.json", tmp_path / "a.gguf"
    cache.write_bytes(content)
    path.write_bytes(model)
    assert isinstance(DescriptionCache(cache).describe(path), StoredModel)


def test_without_cache_path_nothing_is_written(tmp_path: Path, model: bytes) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(model)
    descriptions = DescriptionCache()
    descriptions.describe(path)
    descriptions.save()
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises((OSError, ModelError)):
        descriptions.describe(tmp_path / "missing")
