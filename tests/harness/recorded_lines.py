"""Compares what a test observed, line by line, with a file beside it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import pytest


def assert_recorded(path: Path, lines: Iterable[str]) -> None:
    """Compare the lines with the file; without the file, write it and fail.

    Equal lines in a row are one line of the file, with their number.
    """
    counted = ((line, len(list(equal))) for line, equal in groupby(lines))
    found = [line if count == 1 else f"{line} x{count}" for line, count in counted]
    if not path.exists():
        path.write_text("".join(f"{line}\n" for line in found), "utf-8")
        pytest.fail(f"{path.name} was missing, and is recorded now")
    assert found == path.read_text("utf-8").splitlines()
