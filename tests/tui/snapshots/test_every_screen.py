"""Every screen class has a scene with snapshots."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from textual.screen import Screen

from ingle.tui import screens

BASES = {"ChoiceDialog", "Dialog", "FilteredChoice", "FilteredTable", "PromptScreen"}
"""Base classes, which are never shown themselves."""


def screen_classes() -> Iterator[str]:
    for module in pkgutil.iter_modules(screens.__path__):
        loaded = importlib.import_module(f"{screens.__name__}.{module.name}")
        for value in vars(loaded).values():
            own = isinstance(value, type) and value.__module__ == loaded.__name__
            if own and issubclass(value, Screen) and not value.__name__.startswith("_"):
                yield value.__name__


def test_every_screen_has_a_scene(scenes: dict[str, str]) -> None:
    assert set(screen_classes()) - BASES - set(scenes.values()) == set()
