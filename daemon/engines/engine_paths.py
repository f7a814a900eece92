"""Where the packages of the installed engines are imported from, and their versions."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import distributions

from ingle.backends.packages.engine_packages import EnginePackages, all_engine_packages
from ingle.backends.packages.engine_store import EngineStore
from ingle.backends.registry.engines import ENGINES

from ..settings.paths import Paths


def engine_import_path(paths: Paths) -> list[str]:
    """Return the folders of all installed engines, for children that look for any of them."""
    return EngineStore(paths.engines).import_path(ENGINES)


def engine_versions(paths: Paths) -> dict[str, str]:
    """Return the versions of the installed engines, by the names that `ingle engine list` shows."""
    store = EngineStore(paths.engines)
    found = {name: store.find(name) for name in all_engine_packages()}
    return {
        name: distribution_version(all_engine_packages()[name], [str(folder)])
        for name, folder in found.items()
        if folder is not None
    }


def distribution_version(packages: EnginePackages, folders: Sequence[str]) -> str:
    """Return the version of the packages' main distribution in the folders; "" for none."""
    found = next(iter(distributions(name=packages.distribution, path=list(folders))), None)
    return "" if found is None else found.version
