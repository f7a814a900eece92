"""The table of engines."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ..base.errors import LoadFailed

if TYPE_CHECKING:
    from .engine_descriptor import EngineDescriptor

ENGINES = {
    "cuda": "ingle.backends.cuda.descriptor",
    "llama.cpp": "ingle.backends.llama_cpp.descriptor",
}
"""Modules with an `ENGINE`, by the name that settings and requests use, the preferred one first."""
TEST_ENGINES = {"scripted": "ingle.backends.testing.descriptor"}
"""Engines that no setting can choose, and that only a checkout has."""
DEFAULT_ENGINE = "llama.cpp"
"""Runs every model for which no other engine is better."""


def get_engine(name: str) -> EngineDescriptor:
    """Return the engine of this name; raises `LoadFailed` if there is none."""
    module = ENGINES.get(name) or TEST_ENGINES.get(name)
    if module is None:
        raise LoadFailed(
            f"There is no engine called {name!r}.", hint=f"Choose one of {', '.join(ENGINES)}."
        )
    engine: EngineDescriptor = import_module(module).ENGINE
    return engine


def all_engines() -> list[EngineDescriptor]:
    """Return the engines that settings can choose, the preferred one first."""
    return [get_engine(name) for name in ENGINES]


def engine_choices() -> tuple[str, ...]:
    """Return the values of the setting `engine`."""
    return ("auto", *ENGINES)
