"""The list of engines: what is installed, what an installation would bring, what to offer."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from ingle.backends.base.child_process import find_module
from ingle.backends.hardware.machine import Gpu
from ingle.backends.hardware.read_cpu import read_cpu
from ingle.backends.hardware.read_machine import read_gpus
from ingle.backends.packages.engine_packages import SPEECH, EnginePackages, all_engine_packages
from ingle.backends.packages.engine_store import EngineStore
from ingle.backends.registry.engines import get_engine
from ingle.models.json_cache import read_json_cache, write_json_cache

from ..client.engine_types import EngineEntries, EngineEntry, EngineOffer
from ..settings.config import Config
from .engine_installs import EngineInstalls
from .engine_offer import choose_offer, why_limited, why_useless
from .engine_paths import distribution_version

_DECLINED = "declined-engines.json"


def list_engines(installs: EngineInstalls, config: Config) -> EngineEntries:
    """Return all engines of this machine, and the one to offer; blocking."""
    gpus = read_gpus(read_cpu())
    engines = [_entry(packages, installs, gpus) for packages in all_engine_packages().values()]
    ready = [entry.name for entry in engines if entry.state != "missing"]
    return EngineEntries(engines, _choose(gpus, ready, config))


def find_offer(store: EngineStore, config: Config) -> EngineOffer | None:
    """Return the engine to offer, as long as it is neither installed nor declined; blocking."""
    ready = [
        packages.name
        for packages in all_engine_packages().values()
        if store.find(packages.name) is not None or _is_beside_ingle(packages)
    ]
    return _choose(read_gpus(read_cpu()), ready, config)


def _choose(gpus: Sequence[Gpu], ready: Sequence[str], config: Config) -> EngineOffer | None:
    offer = choose_offer(
        gpus,
        [each.tool for each in all_engine_packages().values() if shutil.which(each.tool)],
        ready,
        has_index=bool(config.engine_index),
        system=platform.system(),
    )
    return None if offer is not None and offer.name in _declined(config) else offer


def decline_engine(name: str, config: Config) -> None:
    """Record that the engine is not to be offered again; it can be installed all the same."""
    path = config.paths.state / _DECLINED
    write_json_cache(path, sorted({*_declined(config), name}), folder_mode=0o700)


def _declined(config: Config) -> list[str]:
    return read_json_cache(config.paths.state / _DECLINED, list[str]) or []


def _entry(packages: EnginePackages, installs: EngineInstalls, gpus: Sequence[Gpu]) -> EngineEntry:
    store = installs.store
    folder, record = store.find(packages.name), store.record(packages.name)
    progress = installs.progress(packages.name)
    beside = folder is None and _is_beside_ingle(packages)
    return EngineEntry(
        name=packages.name,
        engine=packages.engine,
        title=packages.title,
        state="installing" if progress else "installed" if folder or beside else "missing",
        version=_version(packages, folder) if folder or beside else "",
        place=str(folder) if folder else "",
        bytes=record.bytes if record else 0,
        download_bytes=packages.download_bytes,
        outdated=folder is not None and not store.is_current(packages.name),
        useless=why_useless(packages, gpus, system=platform.system()),
        limited=why_limited(packages, gpus),
        progress=progress,
    )


def _is_beside_ingle(packages: EnginePackages) -> bool:
    """Whether the packages lie in ingle's own environment, which only the plain ones may."""
    plain = [each for each in all_engine_packages().values() if each.engine == packages.engine][-1]
    if packages.engine == SPEECH:
        return find_module(packages.module) is not None
    return packages is plain and get_engine(packages.engine).is_importable(())


def _version(packages: EnginePackages, folder: Path | None) -> str:
    return distribution_version(packages, sys.path if folder is None else [str(folder)])
