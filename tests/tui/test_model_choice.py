from __future__ import annotations

import pytest

from ingle.tui.api import ModelEntry
from ingle.tui.model_choice import choose_model


def _entry(name: str, state: str, *, default: bool = False, chat: bool = True) -> ModelEntry:
    installed = state not in ("available", "downloading")
    return ModelEntry(name=name, installed=installed, state=state, default=default, chat=chat)


DEFAULT = _entry("small:1b", "available", default=True)
DISK = _entry("disk:3b", "stopped")
WARM = _entry("warm:7b", "ready")
BASE = _entry("base:1b", "ready", chat=False)


@pytest.mark.parametrize(
    ("models", "wanted", "chosen"),
    [
        ([DEFAULT, DISK, WARM, BASE], None, WARM),
        ([DEFAULT, DISK], None, DISK),
        ([DEFAULT, _entry("other", "available")], None, DEFAULT),
        ([BASE], None, None),
        ([DEFAULT, DISK], "disk:3b", DISK),
        ([DEFAULT, DISK], "small", DEFAULT),
        ([DEFAULT, DISK], "unknown", None),
        ([], None, None),
    ],
)
def test_the_nearest_model_is_chosen(
    models: list[ModelEntry], wanted: str | None, chosen: ModelEntry | None
) -> None:
    assert choose_model(models, wanted) == chosen
