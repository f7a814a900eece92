"""Fake file systems (`/proc`, `/sys`) of other machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

WriteFiles = Callable[[Mapping[str, object]], Path]


@pytest.fixture
def write_files(tmp_path: Path) -> WriteFiles:
    """Write the files of a machine below a temporary root."""

    def write(files: Mapping[str, object]) -> Path:
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{content}\n")
        return tmp_path

    return write
