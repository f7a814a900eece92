from __future__ import annotations

import hashlib
import os
from pathlib import Path

from ingle.models.metadata.digest_cache import DigestCache


def test_digest_is_cached_until_the_file_changes(tmp_path: Path) -> None:
    cache, path = DigestCache(tmp_path / "d" / "digests.json"), tmp_path / "file"
    path.write_bytes(b"content")
    assert cache.find(path) is None
    seen: list[int] = []
    found = cache.digest(path, seen.append)
    assert (found, seen) == (hashlib.sha256(b"content").hexdigest(), [7])
    assert DigestCache(tmp_path / "d" / "digests.json").find(path) == found
    assert cache.digest(path, seen.append) == found
    assert seen == [7]
    os.utime(path, (1, 1))
    assert cache.find(path) is None
    path.unlink()
    assert cache.find(path) is None


def test_damaged_cache_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "digests.json").write_bytes(b"\xff{")
    cache, path = DigestCache(tmp_path / "digests.json"), tmp_path / "file"
    path.write_bytes(b"x")
    assert cache.digest(path, lambda at: None) == cache.find(path)
