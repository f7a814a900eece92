"""Preloading of configured models at startup."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from ingle.backends.base.errors import LoadFailed

if TYPE_CHECKING:
    from ..conftest import ManagerHarness

    MakeManager = Callable[..., ManagerHarness]


async def test_failed_preload_does_not_stop_the_others(
    make_manager: MakeManager, caplog: pytest.LogCaptureFixture
) -> None:
    harness = make_manager()
    harness.plans["b"].start_error = LoadFailed("The file is damaged.", hint="Pull it again.")
    with caplog.at_level(logging.WARNING, "ingle.daemon"):
        await harness.manager.preload(["nobody", "b", "c"])
    assert harness.states() == {"b": "failed", "c": "ready"}
    assert "nobody could not be preloaded: No such model." in caplog.text
    assert "b could not be preloaded: The file is damaged. Pull it again." in caplog.text
