"""Installs an engine: from wheels, from the user's cache of builds, or by compiling it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import platformdirs

from ingle.models.durable_folder import sync_disks
from ingle.models.file_lock import FileLock

from ..base.child_process import child_environment
from ..hardware.read_cpu import read_cpu
from .engine_packages import EnginePackages, digest_of
from .engine_store import EngineStore, InstalledPackages
from .errors import InstallCancelled, InstallFailed
from .package_client import (
    NO_SPACE,
    disk_full,
    has_compiler,
    install_packages,
    missing_compiler,
)
from .package_source import ClientProgress, OnProgress, PackageSource

WHEELS = Path(__file__).with_name("wheels")
"""What a platform's wheel of ingle brings along, see scripts/build-wheels."""
_SUBSET = Path(__file__).with_name("llama_cpp_subset.cmake")
_LOCK_POLL_SECONDS = 0.2
_CHECK_SECONDS = 120.0
_IMPORT = "import importlib, sys; importlib.import_module(sys.argv[1])"


def install_engine(
    packages: EnginePackages,
    store: EngineStore,
    source: PackageSource,
    on_progress: OnProgress = lambda progress: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> InstalledPackages:
    """Install the pinned versions, unless they are; blocking.

    They replace older ones in one step, after they were imported once in another process. Raises
    `InstallFailed` and `InstallCancelled`, which leave what was installed before.
    """
    try:
        with _locked(packages, store, cancelled):
            if not store.is_current(packages.name):
                _install(packages, store, source, on_progress, cancelled)
    except OSError as error:
        if NO_SPACE in str(error):  # also if several files could not be copied
            raise disk_full() from error
        raise InstallFailed(
            f"{store.folder} cannot be written: {error.strerror or error}.",
            hint="Free space there or change the permissions, then try again.",
        ) from error
    record = store.record(packages.name)
    assert record is not None
    return record


def _locked(
    packages: EnginePackages, store: EngineStore, cancelled: Callable[[], bool]
) -> FileLock:
    """Wait for the lock of these packages; raises `InstallCancelled`."""
    lock = store.lock(packages.name)
    while not lock.try_acquire():
        if cancelled():
            raise InstallCancelled
        time.sleep(_LOCK_POLL_SECONDS)
    return lock


def _install(
    packages: EnginePackages,
    store: EngineStore,
    source: PackageSource,
    on_progress: OnProgress,
    cancelled: Callable[[], bool],
) -> None:
    new = store.begin(packages)
    if packages.unasked and any(WHEELS.glob("*.whl")) and not source.index:
        source = PackageSource(str(WHEELS))
    try:
        cache = None if source.is_folder else build_cache(packages)
        if cache is not None and cache.exists():
            shutil.rmtree(new)
            _copy_tree(cache, new)
        else:
            install_packages(
                packages.pinned(),
                new,
                build_options=_build_options(packages, source),
                source=source,
                on_progress=on_progress,
                cancelled=cancelled,
            )
        on_progress(ClientProgress("checking"))
        _check_import(packages, new)
        if cache is not None and not cache.exists():
            _keep_build(new, cache)
        store.commit(packages, new)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _build_options(packages: EnginePackages, source: PackageSource) -> list[str]:
    """Return the CMake arguments; empty if nothing may be compiled."""
    if not packages.build or source.is_folder:
        return []
    if packages.tool and shutil.which(packages.tool) is None and not source.index:
        raise InstallFailed(
            f"{packages.title} has to be compiled, and `{packages.tool}` is missing.",
            hint="Install the GPU's toolkit, or set `engine_index` to an index with built wheels.",
        )
    if not has_compiler() and not source.index:
        raise missing_compiler()
    return [
        *(f"-D{name}={value}" for name, value in packages.build.items()),
        f"-DCMAKE_PROJECT_llama.cpp_INCLUDE={_SUBSET}",
        # Part of the key under which the client caches the build: it is for this processor.
        f"-DINGLE_PROCESSOR={processor_key()}",
    ]


def build_cache(packages: EnginePackages) -> Path | None:
    """Return the folder in the user's cache that keeps the build for all checkouts; None for
    packages that are not compiled.
    """
    if not packages.build:
        return None
    build = (repr(sorted(packages.build.items())), _SUBSET.read_text())
    digest = digest_of(*packages.pinned(), *build, processor_key(), sys.platform)
    return platformdirs.user_cache_path("ingle", appauthor=False) / "engines" / digest


def processor_key() -> str:
    """Return hexadecimal digits that differ between processors with other instructions."""
    cpu = read_cpu()
    return digest_of(cpu.model, repr(sorted(cpu.instruction_sets)))


def _keep_build(new: Path, cache: Path) -> None:
    """Copy a checked build into the user's cache; a failure costs another build at most."""
    temporary = cache.with_name(f".{cache.name}.{os.getpid()}")
    with suppress(OSError):
        cache.parent.mkdir(parents=True, exist_ok=True)
        _copy_tree(new, temporary)
        sync_disks()
        temporary.rename(cache)
    shutil.rmtree(temporary, ignore_errors=True)


def _copy_tree(origin: Path, target: Path) -> None:
    """Copy a folder by hard links where the file system has them."""
    try:
        shutil.copytree(origin, target, symlinks=True, copy_function=os.link)
    except (OSError, shutil.Error):
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(origin, target, symlinks=True)


def _check_import(packages: EnginePackages, folder: Path) -> None:
    """Raise `InstallFailed` unless the packages can be imported, which happens in a child."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _IMPORT, packages.module],
            env=child_environment(os.environ, [str(folder)]),
            cwd=folder,
            capture_output=True,
            timeout=_CHECK_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise InstallFailed(
            f"{packages.title} was fetched, but cannot be loaded within {_CHECK_SECONDS:.0f} s.",
            hint="Try again when the machine is less busy.",
        ) from error
    if done.returncode != 0:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise InstallFailed(
            f"{packages.title} was fetched, but cannot be loaded: {' '.join(last)}",
            hint="`ingle doctor` checks this machine.",
        )
