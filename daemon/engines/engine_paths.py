"""Where the packages of the installed engines are imported from."""

from __future__ import annotations

from ingle.backends.packages.engine_store import EngineStore
from ingle.backends.registry.engines import ENGINES

from ..settings.paths import Paths


def engine_import_path(paths: Paths) -> list[str]:
    """Return the folders of all installed engines, for children that look for any of them."""
    return EngineStore(paths.engines).import_path(ENGINES)
