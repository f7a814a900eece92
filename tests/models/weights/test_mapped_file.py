from __future__ import annotations

import os
from pathlib import Path

import pytest

from ingle.models.errors import InvalidModel, ModelNotFound
from ingle.models.weights.mapped_file import map_file


def test_the_bytes_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)))
    mapped = map_file(path)
    path.unlink()  # the mapping outlives the name
    assert mapped.numpy().tobytes() == bytes(range(256))


def test_a_large_file_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.touch()
    os.truncate(path, 1 << 40)  # sparse, and more than any machine that runs tests has
    mapped = map_file(path)
    assert mapped.numel() == 1 << 40
    assert mapped[1 << 39].item() == 0


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="There is no file"):
        map_file(tmp_path / "absent")
    with pytest.raises(InvalidModel, match="not a regular file"):
        map_file(tmp_path)
    (tmp_path / "empty").touch()
    with pytest.raises(InvalidModel, match="is empty"):
        map_file(tmp_path / "empty")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_a_fifo_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(InvalidModel, match="not a regular file"):
        map_file(tmp_path / "fifo")
