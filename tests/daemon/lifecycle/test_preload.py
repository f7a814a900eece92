"""Tests of the models that are there from the start."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from ingle.backends.base.errors import LoadFailed

if TYPE_CHECKING:
    from ..conftest import ManagerHarness

    MakeManager = Callable[..., ManagerHarness]


async def test_each_is_loaded_and_one_that_cannot_be_stops_no_other(
    make_manager: MakeManager, caplog: pytest.LogCaptureFixture
) -> None:
    harness = make_manager()
    harness.plans["b"].start_error = LoadFailed("The file is damaged.", hint="Pull it again.")
    with caplog.at_level(logging.WARNING, "ingle.daemon"):
        await harness.manager.preload(["nobody", "b", "c"])
    assert harness.states() == {"b": "failed", "c": "ready"}
    assert "nobody could not be preloaded: No such model." in caplog.text
    assert "b could not be preloaded: The file is damaged. Pull it again." in caplog.text
