from __future__ import annotations

from pathlib import Path

import pytest

from ingle.models.places.model_folders import files_below


def test_missing_folder_is_empty(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(files_below(tmp_path / "missing", 1))


def test_depth_and_order(tmp_path: Path) -> None:
    for name in ("b/x", "a", "b/c/y"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = [path.relative_to(tmp_path).as_posix() for path in files_below(tmp_path, 1)]
    assert found == ["a", "b/x"]


def test_walk_of_a_huge_folder_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        (tmp_path / str(number)).touch()
    monkeypatch.setattr("ingle.models.places.model_folders._MOST", 10)
    assert len(list(files_below(tmp_path, 1))) == 10
