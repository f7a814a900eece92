"""Folders of other programs in which to look for models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ingle.models.places.found_model import Place
from ingle.models.places.known_places import known_places, plain_places

from ..settings.config import Config


def model_places(config: Config, environ: Mapping[str, str]) -> list[Place]:
    """Return the places that the settings allow."""
    home = Path(environ.get("HOME") or Path.home())
    known = known_places(environ, home) if config.import_models else []
    return known + plain_places(config.model_folders)
