"""A fake daemon and a client connected to it."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ingle.daemon.client.async_client import AsyncDaemonClient
from tests.harness.fake_daemon import FakeDaemon


@pytest.fixture
async def fake_daemon() -> AsyncIterator[FakeDaemon]:
    # A short path, since a unix socket address is limited to about a hundred characters.
    with tempfile.TemporaryDirectory(prefix="ingle-") as folder:
        daemon = FakeDaemon(Path(folder) / "ingle.sock")
        await daemon.start()
        yield daemon
        daemon.gate.set()
        await daemon.stop()


@pytest.fixture
def client(fake_daemon: FakeDaemon) -> AsyncDaemonClient:
    return AsyncDaemonClient(str(fake_daemon.path))
