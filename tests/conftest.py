"""Fixtures for all tests: a clean environment, and the real model file."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import platformdirs
import pytest

from ingle.models.catalog import Catalog
from ingle.models.errors import SourceUnavailable
from ingle.models.store import ModelStore

# Read before any fixture empties the environment.
_MODELS = os.environ.get("INGLE_TEST_MODELS")
_IN_CI = bool(os.environ.get("CI"))

Unavailable = Callable[[str], None]
FetchModel = Callable[[str], Path]


@pytest.fixture(autouse=True)
def ingle_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty INGLE_HOME for every test, and none of the developer's own settings."""
    for name in list(os.environ):
        if name.startswith("INGLE_"):
            monkeypatch.delenv(name)
    home = tmp_path / "ingle-home"
    monkeypatch.setenv("INGLE_HOME", str(home))
    return home


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Let tests send Ctrl-C to children, even where the run itself was started to ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def unavailable() -> Unavailable:
    """What to call when something outside cannot be had: skips, but fails in CI."""

    def end(reason: str) -> None:
        if _IN_CI:
            pytest.fail(reason)
        pytest.skip(reason)

    return end


@pytest.fixture(scope="session")
def fetch_model(unavailable: Unavailable) -> FetchModel:
    """Fetches a real model of the catalog once into a cache that outlives the test run."""
    root = Path(_MODELS) if _MODELS else platformdirs.user_cache_path("ingle") / "test-models"

    def fetch(name: str) -> Path:
        try:
            return ModelStore(root, Catalog.load()).pull(name).path
        except SourceUnavailable as error:
            unavailable(error.message)
            raise

    return fetch


@pytest.fixture(scope="session")
def smollm2_path(fetch_model: FetchModel) -> Path:
    """The real SmolLM2 file."""
    return fetch_model("smollm2")


@pytest.fixture(scope="session")
def gemma3_path(fetch_model: FetchModel) -> Path:
    """A real model with a sliding window, and heads of 256 elements."""
    return fetch_model("gemma3")
