"""Installations of engines, owned by the daemon: one an engine, shared by all that wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from ingle.backends.packages.engine_packages import EnginePackages, all_engine_packages
from ingle.backends.packages.engine_store import EngineStore, InstalledPackages
from ingle.backends.packages.package_source import ClientProgress, OnProgress, PackageSource
from ingle.backends.registry.engines import DEFAULT_ENGINE, get_engine

from ..background_job import BackgroundJob, JobTable
from ..client.engine_types import InstallProgress
from ..error_status import describe
from ..event_hub import EventHub

if TYPE_CHECKING:
    from ingle.backends.base.load_spec import LoadSpec

Installer = Callable[
    [EnginePackages, EngineStore, PackageSource, OnProgress, Callable[[], bool]], InstalledPackages
]
"""Installs packages: blocks, and calls both callbacks in its thread."""
Installation = BackgroundJob[InstallProgress, InstalledPackages]


def _install(
    packages: EnginePackages,
    store: EngineStore,
    source: PackageSource,
    on_progress: OnProgress,
    cancelled: Callable[[], bool],
) -> InstalledPackages:
    # Imported here: it takes part of the daemon's start.
    from ingle.backends.packages.engine_installer import install_engine

    return install_engine(packages, store, source, on_progress, cancelled)


class EngineInstalls:
    """The installed engines, and the running installations."""

    def __init__(
        self,
        store: EngineStore,
        source: PackageSource,
        hub: EventHub,
        *,
        install: Installer = _install,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_change` is called when an engine was installed or removed."""
        self.store = store
        self.on_change = on_change
        self._source = source
        self._hub = hub
        self._install = install
        self._jobs: JobTable[InstallProgress, InstalledPackages] = JobTable()

    async def close(self) -> None:
        """Stop all installations, and remove versions that were replaced; models have ended."""
        await self._jobs.close()
        await asyncio.to_thread(self.store.remove_replaced)

    def join(self, name: str, source: str | None = None) -> Installation:
        """Return the running installation of these packages, or start one.

        `source` is an index or a folder of wheels, in place of the configured one.
        """
        return self._jobs.join(name, lambda: self._start(all_engine_packages()[name], source))

    def progress(self, name: str) -> InstallProgress | None:
        """Return the progress of the running installation; None if there is none."""
        running = self._jobs.find(name)
        return None if running is None else running.progress

    def cancel(self, name: str) -> bool:
        """Cancel a running installation; False if there is none."""
        running = self._jobs.find(name)
        if running is not None:
            running.cancelled = True
        return running is not None

    def is_available(self, engine: str) -> bool:
        """Whether the engine is installed, here or in ingle's own environment."""
        return get_engine(engine).is_importable(self.store.import_path([engine]))

    def begin_default(self) -> None:
        """Start to install the default engine in the background, if it is missing."""
        if not self.is_available(DEFAULT_ENGINE):
            self.join(DEFAULT_ENGINE)

    async def prepare(
        self, spec: LoadSpec, on_progress: Callable[[InstallProgress], None]
    ) -> LoadSpec:
        """Return the spec with the folders of its engine's packages.

        Missing ones that are fetched without a question are installed first; raises
        `InstallFailed`.
        """
        engines = get_engine(spec.engine).imports
        for engine in engines:
            if self.is_available(engine):
                continue
            for packages in all_engine_packages().values():
                if packages.engine == engine and packages.unasked:
                    job = self.join(packages.name)
                    async for progress in job.follow():
                        on_progress(progress)
                    await job.result()
        return msgspec.structs.replace(spec, import_path=self.store.import_path(engines))

    def _start(self, packages: EnginePackages, source: str | None) -> Installation:
        where = self._source if source is None else replace(self._source, index=source)
        first = InstallProgress(engine=packages.name, title=packages.title)

        def work(
            on_progress: Callable[[InstallProgress], None], cancelled: Callable[[], bool]
        ) -> InstalledPackages:
            def report(progress: ClientProgress) -> None:
                on_progress(
                    msgspec.structs.replace(
                        first,
                        step=progress.step,
                        done=progress.done,
                        total=progress.total,
                        detail=progress.detail,
                    )
                )

            return self._install(packages, self.store, where, report, cancelled)

        def publish(progress: InstallProgress, ended: bool) -> None:
            if ended:
                self.on_change()
            self._hub.publish("engine", progress, replaces=None if ended else packages.name)

        return BackgroundJob(
            f"install {packages.name}",
            first,
            work,
            at_once=lambda last, progress: progress.step != last.step,
            ended=_last_progress,
            on_progress=publish,
        )


def _last_progress(progress: InstallProgress, error: Exception | None) -> InstallProgress:
    if error is None:
        return msgspec.structs.replace(progress, step="done", detail="")
    return msgspec.structs.replace(progress, step="failed", error=describe(error).message)
