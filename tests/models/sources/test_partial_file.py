from __future__ import annotations

import hashlib
import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ingle.models.errors import DiskFull, PullFailed
from ingle.models.sources.partial_file import PartialFile, PartialNotes

pytestmark = pytest.mark.quick


@contextmanager
def largest_file(size: int) -> Generator[None]:
    """Limit the file size, which is close to a full disk without being root."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_bytes_and_metadata_are_kept_for_the_next_attempt(tmp_path: Path) -> None:
    path = tmp_path / "f.partial"
    with PartialFile(path) as partial:
        partial.append(b"abc")
        partial.notes = PartialNotes("here", '"v1"', [3])
        partial.save_notes()
        partial.append(b"def")
    with PartialFile(path) as partial:
        assert partial.size == 6
        assert partial.notes == PartialNotes("here", '"v1"', [3])
        partial.truncate(3)
        partial.append(b"xyz")
    assert path.read_bytes() == b"abcxyz"


def test_damaged_metadata_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text('{"parts": "many"}')
    with PartialFile(tmp_path / "f") as partial:
        assert partial.notes == PartialNotes()


def test_publish_leaves_only_the_file(tmp_path: Path) -> None:
    with PartialFile(tmp_path / "f.partial") as partial:
        partial.append(b"abc")
        partial.save_notes()
        positions: list[int] = []
        assert partial.sha256(positions.append) == hashlib.sha256(b"abc").hexdigest()
        assert positions == [3]
        partial.publish(tmp_path / "f")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["f"]


def test_discard_removes_all_files(tmp_path: Path) -> None:
    with PartialFile(tmp_path / "f.partial") as partial:
        partial.append(b"abc")
        partial.save_notes()
        partial.discard()
    assert [path for path in tmp_path.iterdir() if path.is_file()] == []


def test_full_disk_is_an_error(tmp_path: Path) -> None:
    with (
        PartialFile(tmp_path / "f") as partial,
        largest_file(100_000),
        pytest.raises(DiskFull, match="no room") as caught,
    ):
        partial.append(bytes(200_000))
    assert caught.value.hint


def test_symlink_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "f.partial").symlink_to(tmp_path / "precious")
    with pytest.raises(PullFailed):
        PartialFile(tmp_path / "f.partial")
    assert (tmp_path / "precious").read_text() == "mine"


def test_removed_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PullFailed, match="cannot be written"):
        PartialFile(tmp_path / "none" / "f")
