"""Which model a chat opens with."""

from __future__ import annotations

from collections.abc import Sequence

from .api import ModelEntry


def choose_model(models: Sequence[ModelEntry], wanted: str | None) -> ModelEntry | None:
    """The wanted model, else the nearest: loaded, on disk, or to be fetched, the default first."""
    if wanted is not None:
        return find_model(models, wanted)
    candidates = [model for model in models if model.chat]
    return min(candidates, key=_distance, default=None)


def find_model(models: Sequence[ModelEntry], reference: str) -> ModelEntry | None:
    """The model of this name, or of this family, as in `smollm2` for `smollm2:135m`."""
    named = [model for model in models if model.name == reference]
    family = [model for model in models if model.name.partition(":")[0] == reference]
    return min(named or family, key=_distance, default=None)


def _distance(model: ModelEntry) -> tuple[bool, bool, bool]:
    """Smaller is nearer to an answer."""
    return not model.installed, model.state != "ready", not model.default
