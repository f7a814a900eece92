"""Models come when they are asked for, share the memory, and go when nobody uses them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from msgspec.structs import replace

from ingle.backends.base import Backend, Gauges, LoadProgress, LoadSpec, ModelInfo, Priority
from ingle.backends.errors import LoadFailed, WorkerDied, WrongTask
from ingle.models.errors import ModelNotFound
from ingle.models.store import StoredModel
from ingle.models.task import ModelTask

from .crash_record import CrashRecord
from .errors import (
    Conflict,
    MemoryBusy,
    MemoryExhausted,
    ModelQuarantined,
    ShuttingDown,
)
from .events import EventHub
from .limits import Limits
from .loaded_model import LoadedModel
from .memory import MIB, MemoryReader, MemorySnapshot, ProcessMemory, wait_for_release
from .model_run import ModelRun, ModelState
from .page_watch import PageWatch
from .placement import Demand, Occupant, Placement, plan
from .preparation import LoadOptions, Preparer
from .request_queue import Place, RequestQueue

log = logging.getLogger("ingle.daemon")

ABANDON_SECONDS = 10.0
AUTOMATIC = LoadOptions()
_TRIM_SECONDS = 1.0


@dataclass(frozen=True)
class Lease:
    """The right to use a loaded model; it stays loaded until the lease is given back."""

    model: StoredModel
    backend: Backend
    info: ModelInfo


class ModelManager:
    """Owns every loaded model: at most one process each, shared by all who lease it."""

    def __init__(
        self,
        *,
        resolve: Callable[[str], StoredModel],
        prepare: Preparer,
        create_backend: Callable[[LoadSpec], Backend],
        hub: EventHub,
        keep_alive: float,
        slots: int = 8,
        max_queue: int = 64,
        limits: Limits | None = None,
        memory: MemoryReader = MemorySnapshot.read,
        abandon_after: float = ABANDON_SECONDS,
    ) -> None:
        """`slots` counts where a model is not loaded yet; beyond it, `max_queue` may wait."""
        self._resolve = resolve
        self._prepare = prepare
        self._create_backend = create_backend
        self._hub = hub
        self._limits = limits or Limits()
        self._keep_alive = self._limits.keep_alive(keep_alive)
        self._memory = memory
        self._abandon_after = abandon_after
        self._runs: dict[str, ModelRun] = {}
        self._crashes: dict[str, CrashRecord] = {}
        self._slots = slots
        self._max_queue = max_queue
        self._queues: dict[str, RequestQueue] = {}
        self._placing = asyncio.Lock()
        self.pages = PageWatch(hub, self.find)
        self._closing = False

    @asynccontextmanager
    async def lease(
        self,
        reference: str,
        *,
        task: ModelTask | None = ModelTask.GENERATE,
        priority: Priority = Priority.INTERACTIVE,
        answers: int = 1,
        place: Place | None = None,
        options: LoadOptions = AUTOMATIC,
        keep_alive: float | None = None,
        on_progress: LoadProgress | None = None,
    ) -> AsyncGenerator[Lease]:
        """Use a model for so many `answers`, loading it first where needed.

        One that has less than the context in `options` is loaded anew once it is idle, if it can
        have more; the rest of them counts only where it is not loaded. `keep_alive` is how many
        seconds it stays after its last use from now on.

        `task` None stands for whatever the model does. Who has a `place` from `enter` brings it,
        and it is left at the end. Raises `ModelNotFound`, `WrongTask` before anything is loaded,
        `QueueFull`, whatever the start failed with, `ModelQuarantined`, `MemoryBusy`,
        `MemoryExhausted`, `ShuttingDown`.
        """
        model = await asyncio.to_thread(self._resolve, reference)
        if task is not None and model.task is not task:
            if place is not None:
                place.leave()
            raise WrongTask(model.task, task, name=model.name)
        options = replace(options, context=self._limits.context(options.context))
        with place or self.enter(model, priority, answers):
            self._make_way_for_context(model, options.context)
            # Whoever comes next may need more than this request does.
            least = replace(options, context=None, least_context=options.context)
            run = await self._obtain(model, least, on_progress=on_progress)
            if keep_alive is not None:
                run.keep(self._limits.keep_alive(keep_alive))
            try:
                assert run.backend is not None
                assert run.info is not None
                yield Lease(run.model, run.backend, run.info)
            except WorkerDied as error:
                if not self._closing:
                    raise
                raise ShuttingDown(
                    "The daemon was stopped before the answer was complete.",
                    hint="Start it again, and ask again.",
                ) from error
            finally:
                run.release()

    def _make_way_for_context(self, model: StoredModel, context: int | None) -> None:
        """End a run that has less context than is asked for, unless it got all it could."""
        run = self._runs.get(_key(model))
        if context is None or run is None or run.info is None or not run.accepts:
            return
        asked = run.options.context or run.options.least_context or 0
        if max(run.info.context, asked) < min(context, model.context or context):
            run.request_stop()

    def enter(self, model: StoredModel, priority: Priority, answers: int = 1) -> Place:
        """A place among the model's requests; raises `QueueFull`."""
        run = self._runs.get(_key(model))
        slots = run.info.slots if run is not None and run.info is not None else self._slots
        queue = self._queues.setdefault(_key(model), RequestQueue())
        return queue.enter(model.name, priority, answers, slots=slots, max_waiting=self._max_queue)

    async def load(
        self,
        reference: str,
        options: LoadOptions = AUTOMATIC,
        *,
        keep_alive: float | None = None,
    ) -> LoadedModel:
        """Load a model and keep it `keep_alive` seconds after its last use.

        Other options than it has mean a new start; raises `Conflict` while it is in use.
        """
        options = replace(options, context=self._limits.context(options.context))
        model = await asyncio.to_thread(self._resolve, reference)
        run = self._runs.get(_key(model))
        if run is not None and run.accepts and not _fits(run, options):
            if run.busy:
                raise Conflict(
                    f"The model '{model.name}' is answering with other options.",
                    hint="Try again when it is done, or unload it first.",
                    code="model_busy",
                )
            run.request_stop()
        run = await self._obtain(model, options)
        try:
            if keep_alive is not None:
                run.keep(self._limits.keep_alive(keep_alive))
        finally:
            run.release()
        return LoadedModel.of(run)

    async def unload(self, reference: str | None = None) -> list[str]:
        """Let answers finish, then end the process; without a name, of every model.

        Also forgets failures, and with them the wait after too many deaths.
        """
        if reference is None:
            keys = list(self._runs)
            self._crashes.clear()
        else:
            key = await self._key_of(reference)
            keys = [key] if key in self._runs else []
            self._crashes.pop(key, None)
        runs = [self._runs[key] for key in keys]
        for run in runs:
            run.request_stop()
        await asyncio.gather(*(run.until_ended() for run in runs))
        for run in runs:
            self._forget(run)
        return [run.model.name for run in runs]

    async def _key_of(self, reference: str) -> str:
        """The key of a model, also where its file has been moved away from under its process."""
        for key, run in self._runs.items():
            if run.model.name == reference:
                return key
        return _key(await asyncio.to_thread(self._resolve, reference))

    def loaded(self) -> list[LoadedModel]:
        """Every model with a process, and those whose last one failed."""
        return [LoadedModel.of(run) for run in self._runs.values()]

    def models(self) -> list[StoredModel]:
        """The models that have a process or get one, for any thread."""
        runs = tuple(self._runs.values())
        return [run.model for run in runs if run.state is not ModelState.FAILED]

    def gauges(self) -> dict[str, Gauges]:
        """What each model with a process last reported, by name."""
        return {
            run.model.name: run.backend.gauges
            for run in self._runs.values()
            if run.backend is not None
        }

    def find(self, model: StoredModel) -> ModelRun | None:
        """The model's present run, for looking at."""
        return self._runs.get(_key(model))

    @property
    def in_motion(self) -> bool:
        """Whether something changes now: a model starts, ends or answers."""
        return any(
            run.leases > 0 or run.state not in (ModelState.READY, ModelState.FAILED)
            for run in self._runs.values()
        )

    async def close(self, grace: float) -> None:
        """Take no new work, let answers finish within `grace` seconds, end every process."""
        self._closing = True
        runs = list(self._runs.values())
        for run in runs:
            run.request_stop(drain=grace)
        await asyncio.gather(*(run.until_ended() for run in runs))

    async def _obtain(
        self,
        model: StoredModel,
        options: LoadOptions = AUTOMATIC,
        *,
        on_progress: LoadProgress | None = None,
    ) -> ModelRun:
        """An acquired run. One start serves all who want the model, and fails them all alike."""
        while True:
            if self._closing:
                raise ShuttingDown("The daemon is shutting down.", hint="Start it again.")
            run = self._runs.get(_key(model))
            if run is not None and run.leaving:
                await run.until_ended()
                continue
            if run is None or run.state is ModelState.FAILED:
                run = self._begin(model, options)
            with run.waiting(on_progress):
                await run.until_started()
            if run.accepts:
                run.acquire()
                return run

    def _begin(self, model: StoredModel, options: LoadOptions) -> ModelRun:
        record = self._crashes.get(_key(model))
        if record is not None and (left := record.quarantine_left()) > 0:
            raise ModelQuarantined(
                f"The model '{model.name}' died three times within a minute "
                f"and is left alone for {left:.0f} more seconds.",
                hint=f"`ingle unload {model.name}` lifts the ban; the log may say why it died.",
                headers={"retry-after": f"{left:.0f}"},
            )
        run = ModelRun(
            model,
            options=options,
            keep_alive=self._keep_alive,
            abandon_after=self._abandon_after,
            open_backend=self._open,
            on_change=self._changed,
        )
        self._runs[_key(model)] = run
        return run

    async def _open(self, run: ModelRun) -> ModelInfo:
        async with self._placing:
            spec = await self._make_room(run)
        run.backend = self._limits.apply(self._create_backend(spec))
        try:
            return await run.backend.start(run.progressed)
        except LoadFailed as error:
            path = run.model.path
            if await asyncio.to_thread(path.exists):
                raise
            raise ModelNotFound(
                f"The file of '{run.model.name}' was removed while it was being loaded: {path}.",
                hint="Pull the model again.",
            ) from error

    async def _make_room(self, run: ModelRun) -> LoadSpec:
        others = [other for other in self._runs.values() if other is not run and other.size]
        idle = sum(other.size for other in others if not other.busy)
        prepared = await asyncio.to_thread(
            self._prepare, run.model, run.options, available=self._free() + idle
        )
        await self._trim(prepared.size)
        occupants = [
            Occupant(_key(other.model), other.size, other.busy, other.last_used)
            for other in self._runs.values()
            if other is not run and other.state is not ModelState.FAILED
        ]
        placement = plan(Demand(run.model.name, prepared.size), occupants, self._free())
        if not placement.fits:
            raise self._no_room(run, prepared.size, placement)
        leaving = [self._runs[key] for key in placement.evict]
        for other in leaving:
            log.info("Unloading %s to make room for %s", other.model.name, run.model.name)
            other.request_stop()
        await asyncio.gather(*(other.until_ended() for other in leaving))
        if not await wait_for_release(prepared.size, self._free):
            raise self._no_room(run, prepared.size, placement)
        run.size, run.spec = prepared.size, prepared.spec
        return prepared.spec

    def available(self) -> int:
        """Bytes of the machine's memory that a model could have when idle ones give way."""
        idle = sum(run.size for run in list(self._runs.values()) if run.size and not run.busy)
        return max(0, self._free() + idle)

    async def _trim(self, needed: int) -> None:
        """Before anybody has to go, take back memory that workers only keep to compute less."""
        backends = [run.backend for run in self._runs.values() if run.backend is not None]
        holders = [backend for backend in backends if backend.gauges.kv_memory_bytes]
        if holders and self._free() < needed:
            for backend in holders:
                backend.trim()
            await wait_for_release(needed, self._free, patience=_TRIM_SECONDS)

    def _free(self) -> int:
        """Bytes for models, less what those already placed have not touched yet.

        Weights that a worker maps from the file look available to the system; taking them back
        would leave that model reading its file again for every token.
        """
        untouched = 0
        for run in list(self._runs.values()):  # a copy: the list of models asks in a thread
            if run.size and run.state is not ModelState.FAILED:
                touched = 0
                if (backend := run.backend) is not None:
                    private = ProcessMemory.read(backend.pid).private
                    touched = private - backend.gauges.kv_memory_bytes  # not part of the size
                untouched += max(0, run.size - touched)
        return self._memory().usable - untouched

    def _no_room(self, run: ModelRun, size: int, placement: Placement) -> Exception:
        numbers = (
            f"The model '{run.model.name}' needs {size // MIB} MiB of memory, "
            f"and {max(0, placement.free_after) // MIB} MiB can be freed now"
        )
        if placement.blockers:
            names = ", ".join(f"'{self._runs[key].model.name}'" for key in placement.blockers)
            return MemoryBusy(
                f"{numbers}, because {names} cannot be unloaded while in use.",
                hint="Try again when it is done.",
                headers={"retry-after": "5"},
            )
        return MemoryExhausted(
            f"{numbers}.", hint="Choose a smaller model or context, or close other programs."
        )

    def _changed(self, run: ModelRun) -> None:
        if run.state is ModelState.FAILED:
            failure = run.failure
            log.warning("Model %s failed: %s", run.model.name, run.error)
            if isinstance(failure, WorkerDied):
                if failure.stderr_tail:
                    log.warning("The worker's last words:\n%s", failure.stderr_tail)
                self._crashes.setdefault(_key(run.model), CrashRecord()).add()
        else:
            log.info("Model %s is %s", run.model.name, run.state)
        if run.state is ModelState.STOPPED:
            self._forget(run)
        if self._hub.listeners:
            self._hub.publish("model", LoadedModel.of(run))
            self.pages.changed(run)

    def _forget(self, run: ModelRun) -> None:
        if self._runs.get(_key(run.model)) is run:
            del self._runs[_key(run.model)]


def _key(model: StoredModel) -> str:
    """One file is one process, whatever names lead to it."""
    return str(model.path)


def _fits(run: ModelRun, options: LoadOptions) -> bool:
    """Whether the run was asked for the same, or has what is asked for now."""
    info = run.info
    contexts = (None, run.options.context, info.context if info else None)
    kv_types = (None, run.options.kv_type, info.kv_type if info else None)
    engines = (None, run.options.engine, info.engine if info else None)
    quantized = (None, run.options.quantize, run.spec.quantize if run.spec else None)
    drafts = (None, run.options.draft)
    poolings = (None, run.options.pooling)
    return (
        options.context in contexts
        and options.kv_type in kv_types
        and options.engine in engines
        and options.quantize in quantized
        and options.draft in drafts
        and options.pooling in poolings
    )
