from __future__ import annotations

import os
from pathlib import Path

import pytest

from ingle.models.errors import InvalidModel, ModelNotFound
from ingle.models.weights.mapped_file import map_file


def test_mapping_has_the_bytes_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)))
    mapped = map_file(path)
    path.unlink()  # the mapping outlives the name
    assert mapped.numpy().tobytes() == bytes(range(256))


def test_large_file_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.touch()
    os.truncate(path, 1 << 40)  # sparse, and larger than any test machine's memory
    mapped = map_file(path)
    assert mapped.numel() == 1 << 40
    assert mapped[1 << 39].item() == 0


def test_path_that_is_not_a_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="There is no file"):
        map_file(tmp_path / "absent")
    with pytest.raises(InvalidModel, match="not a regular file"):
        map_file(tmp_path)
    (tmp_path / "empty").touch()
    with pytest.raises(InvalidModel, match="is empty"):
        map_file(tmp_path / "empty")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_fifo_is_rejected_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(InvalidModel, match="not a regular file"):
        map_file(tmp_path / "fifo")
