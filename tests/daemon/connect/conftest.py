"""An empty home directory and a connection target."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingle.daemon.connect.connect_target import ConnectTarget, ProgramFolders


@pytest.fixture
def places(tmp_path: Path) -> ProgramFolders:
    home = tmp_path / "home"
    home.mkdir()
    return ProgramFolders(home, {}, "linux")


@pytest.fixture
def target() -> ConnectTarget:
    return ConnectTarget(url="http://127.0.0.1:4645", model="qwen2.5-coder:1.5b", context=32768)
