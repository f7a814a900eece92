"""A home with nothing in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingle.daemon.connect.connect_target import Places, Target


@pytest.fixture
def places(tmp_path: Path) -> Places:
    home = tmp_path / "home"
    home.mkdir()
    return Places(home, {}, "linux")


@pytest.fixture
def target() -> Target:
    return Target(url="http://127.0.0.1:4645", model="qwen2.5-coder:1.5b", context=32768)
