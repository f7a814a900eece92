"""The processes of loaded models: one per model, started, shared, restarted and ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from ingle.backends.base.backend import Backend, LoadProgress
from ingle.backends.base.errors import WorkerDied
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.model_info import Gauges
from ingle.backends.packages.engine_store import EngineStore
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.metadata.stored_model import StoredModel

from ..access.permission import current_permission
from ..client.model_types import LoadedModel
from ..engines.engine_failures import EngineFailures
from ..errors import ModelQuarantined, ModelStopped, ShuttingDown
from ..event_hub import EventHub
from ..load_planning.load_options import LoadOptions
from ..load_planning.load_planner import Preparer
from ..machine.memory_reader import MemoryReader, MemorySnapshot
from ..memory.memory_allocator import AllocationTimes, MemoryAllocator
from ..memory.memory_watch import MemoryWatch
from ..model_process.kv_map_watch import KVMapWatch
from ..model_process.loaded_model import loaded_model
from ..model_process.model_history import CrashCounts, CrashRecord, UsageRecord
from ..model_process.model_run import ModelRun, ModelState, still_computes
from ..pictures.picture_decoder import PictureDecoder
from ..settings.config import Config
from ..speech.speaker import Speaker
from ..speech.transcriber import Transcriber
from .keep_alive_rules import NO_RULE, KeepAliveRule, find_rule
from .model_starter import ModelStarter, PrepareEngine, leave_engine
from .request_queue import RequestQueue
from .retrying_backend import RetryQueue

log = logging.getLogger("ingle.daemon")

ABANDON_SECONDS = 10.0
AUTOMATIC = LoadOptions()
Metered = Callable[[str, Callable[[], Gauges]], AbstractContextManager[None]]
"""The context of one answer, by the model's name and its gauges."""


def _unmetered(model: str, gauges: Callable[[], Gauges]) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass
class ModelRecord:
    """The state of one model that outlasts its processes."""

    name: str
    queue: RequestQueue = field(default_factory=RequestQueue)
    retry_queue: RetryQueue = field(default_factory=RetryQueue)
    crashes: CrashRecord = field(default_factory=CrashRecord)
    uses: UsageRecord = field(default_factory=UsageRecord)
    replaced: ModelRun | None = None
    """The run that ended so that one with other options replaces it."""
    wanted_context: int = 0
    """The context, in tokens, for which a run was replaced."""


class ModelRuns:
    """Owns the process of each loaded model, which all its requests share."""

    def __init__(
        self,
        config: Config,
        *,
        resolve: Callable[[str], StoredModel],
        prepare: Preparer,
        create_backend: Callable[[LoadSpec], Backend],
        hub: EventHub,
        memory: MemoryReader = MemorySnapshot.read,
        abandon_after: float = ABANDON_SECONDS,
        allocation_times: AllocationTimes | None = None,
        hold_memory: Callable[[bool], None] = lambda held: None,
        prepare_engine: PrepareEngine = leave_engine,
        engine_failures: EngineFailures | None = None,
        metered: Metered = _unmetered,
        find_seeing: Callable[[], StoredModel | None] = lambda: None,
        on_change: Callable[[ModelRun], None] = lambda run: None,
    ) -> None:
        """`hold_memory` is called with whether any model has a process, so that memory readings
        go on.

        `prepare_engine` installs what a spec's engine needs; models are kept off engines that
        failed on them by `engine_failures`. Each answer is given within `metered`. `find_seeing`
        finds a model on this machine that sees pictures; `on_change` is called for each state of a
        process.
        """
        self._find_seeing = find_seeing
        self._engine_failures = engine_failures
        self._metered = metered
        self._on_change = on_change
        self._config = config
        self._resolve = resolve
        self._hub = hub
        self._find_rule = partial(find_rule, config, resolve)
        self._hold_memory = hold_memory
        self._abandon_after = abandon_after
        self._runs: dict[str, ModelRun] = {}
        self._records: dict[str, ModelRecord] = {}
        self.failures = CrashCounts()
        self.speech = Transcriber(EngineStore(config.paths.engines), config.threads)
        self.voice = Speaker(EngineStore(config.paths.engines))
        self.allocator = MemoryAllocator(
            lambda: list(self._runs.values()),  # a copy: the list of models reads it from a thread
            prepare,
            memory,
            limit=MemoryNeeds(config.memory_limit, config.vram_limit),
            times=allocation_times or AllocationTimes(),
            speech=self.speech.memory,
            end_idle_speech=self.speech.end_if_idle,
        )
        self._starter = ModelStarter(
            self.allocator, create_backend, config, prepare_engine, engine_failures
        )
        self._watch = MemoryWatch(self.allocator, on_resume=self.resumed)
        self.pages = KVMapWatch(hub, self.find)
        self.pictures = PictureDecoder()
        self._closing = False

    async def unload(self, reference: str | None = None) -> list[str]:
        """Let running answers finish, then end the process; without a name, of every model.

        Clears recorded failures, and with them any quarantine.
        """
        if reference is None:
            current_permission().check_unrestricted()
            keys = list(self._records)
        else:
            keys = [await self._key_of(reference)]
        for record in (self._records[key] for key in keys if key in self._records):
            record.crashes.clear()
            record.replaced, record.wanted_context = None, 0
        if self._engine_failures is not None:
            for key in keys:
                await asyncio.to_thread(self._engine_failures.forget, key)
        runs = [self._runs[key] for key in keys if key in self._runs]
        for run in runs:
            run.request_stop("Unloaded on request.")
        await asyncio.gather(*(run.until_ended() for run in runs))
        for run in runs:
            self._forget(run)
        speech = await self.speech.unload(None if reference is None else keys[0])
        return [*(run.model.name for run in runs), *speech]

    def retry_engine(self, engine: str) -> None:
        """Forget on which models the engine failed, since it works now; blocking."""
        if self._engine_failures is not None:
            self._engine_failures.forget_engine(engine)

    async def _key_of(self, reference: str) -> str:
        """Return the key of a model, even if its file has been moved since it was loaded."""
        for key, run in self._runs.items():
            if run.model.name == reference:
                current_permission().check_model(reference)
                return key
        return process_key(await self._find(reference))

    async def _find(self, reference: str) -> StoredModel:
        """Resolve `reference`; raises unless the request's sender may use the model."""
        model = await asyncio.to_thread(self._resolve, reference)
        current_permission().check_model(model.name)
        return model

    def loaded(self) -> list[LoadedModel]:
        """Return every model that has a process or whose last process failed."""
        speech = self.speech.loaded()
        loaded = [loaded_model(run) for run in list(self._runs.values())]
        return loaded if speech is None else [*loaded, speech]

    def models(self) -> list[StoredModel]:
        """Return the models that have a process or are starting; safe in any thread."""
        runs = tuple(self._runs.values())
        return [run.model for run in runs if run.state is not ModelState.FAILED]

    def gauges(self) -> dict[str, Gauges]:
        """Return the last gauges of each model with a process, by name."""
        return {
            run.model.name: run.backend.gauges
            for run in list(self._runs.values())
            if run.backend is not None
        }

    def runs(self) -> list[ModelRun]:
        """Return the runs of all models, failed ones included."""
        return list(self._runs.values())

    def find(self, model: StoredModel) -> ModelRun | None:
        """Return the model's present run for inspection, or None."""
        return self._runs.get(process_key(model))

    @property
    def in_motion(self) -> bool:
        """Return whether a model is starting, stopping or answering."""
        return any(
            run.leases > 0 or run.state not in (ModelState.READY, ModelState.FAILED)
            for run in self._runs.values()
        )

    async def close(self, grace: float) -> None:
        """Refuse new requests and end every process once it is idle or after `grace` seconds."""
        self._closing = True
        self.pictures.close()
        self.speech.close()
        self.voice.close()
        runs = list(self._runs.values())
        for run in runs:
            run.request_stop("The daemon is shutting down.", drain=grace)
        self._watch.follow(False)
        await asyncio.gather(*(run.until_ended() for run in runs))

    async def _obtain(
        self,
        model: StoredModel,
        options: LoadOptions = AUTOMATIC,
        rule: KeepAliveRule = NO_RULE,
        *,
        on_progress: LoadProgress | None = None,
    ) -> ModelRun:
        """Return an acquired run. Concurrent requests share one start, and its failure."""
        while True:
            if self._closing:
                raise ShuttingDown("The daemon is shutting down.", hint="Start it again.")
            run = self._runs.get(process_key(model))
            if run is not None and run.is_ending:
                await run.until_ended()
                continue
            if run is None or run.state is ModelState.FAILED:
                run = self._begin(model, options)
                run.pinned = run.pinned or rule.pinned
            with run.waiting(on_progress):
                try:
                    await run.until_started()
                except ModelStopped:
                    if not self._closing:
                        raise
                    continue
            if run.accepts:
                run.acquire()
                return run

    def _begin(self, model: StoredModel, options: LoadOptions) -> ModelRun:
        record = self._record(model)
        if (left := record.crashes.quarantine_left()) > 0:
            raise ModelQuarantined(
                f"The model '{model.name}' died three times within a minute "
                f"and is quarantined for {left:.0f} more seconds.",
                hint=f"`ingle unload {model.name}` lifts the quarantine; the log may show why.",
                headers={"retry-after": f"{left:.0f}"},
            )
        if options.context is None:  # any request may be the first to start it anew
            least = max(options.least_context or 0, record.wanted_context)
            options = replace(options, least_context=least or None)
        run = ModelRun(
            model,
            options=options,
            keep_alive=self._config.bounded_keep_alive(self._config.keep_alive),
            abandon_after=self._abandon_after,
            uses=record.uses,
            crashes=record.crashes,
            open_backend=self._starter.open,
            on_change=self._changed,
            on_note=self._publish,
            on_idle=self.allocator.notify,
        )
        before = record.replaced or self._runs.get(process_key(model))
        record.replaced, record.wanted_context = None, 0
        if before is not None:  # the previous run failed, which keeps its pin
            run.copy_keep_alive(before)
        self._runs[process_key(model)] = run
        self._watch.follow(True)
        self._hold_memory(True)
        return run

    def _record(self, model: StoredModel) -> ModelRecord:
        return self._records.setdefault(process_key(model), ModelRecord(model.name))

    def available(self) -> MemoryNeeds:
        """Return the memory that a model could have with idle ones evicted; safe in any thread."""
        return self.allocator.available()

    async def resumed(self) -> None:
        """Handle a resume from sleep: keep-alives may have expired and GPU memory may be lost."""
        runs = list(self._runs.values())
        for run in runs:
            run.recheck_timers()
        for run in (run for run in runs if run.may_have_lost_gpu):
            assert run.backend is not None
            if not await still_computes(run.backend):
                await self._restart(run, "Its GPU memory was lost while the machine slept.")

    async def _restart(self, run: ModelRun, why: str) -> None:
        """Load the model again with the same options; one attempt."""
        log.warning("Reloading model %s. %s", run.model.name, why)
        run.request_stop(why, drain=0)
        await run.until_ended()
        try:
            next_backend = await self._obtain(run.model, run.options)
        except Exception as error:  # the next request for the model gets the same error
            log.warning("Model %s could not be reloaded: %s", run.model.name, error)
            return
        next_backend.copy_keep_alive(run)
        next_backend.release()

    def _changed(self, run: ModelRun) -> None:
        if run.state is ModelState.FAILED:
            failure = run.failure
            log.warning("Model %s failed: %s", run.model.name, run.error)
            if isinstance(failure, WorkerDied):
                if failure.stderr_tail:
                    log.warning("Last output of the worker:\n%s", failure.stderr_tail)
                run.crashes.add()
                self._starter.died(run, failure)
                self.failures.deaths[run.model.name] += 1
        else:
            log.info("Model %s is %s. %s", run.model.name, run.state, run.reason)
        if run.state is ModelState.STOPPED:
            self._forget(run)
        if run.state in (ModelState.STOPPED, ModelState.FAILED):
            self.allocator.ended()
        self.allocator.notify()
        if all(other.state is ModelState.FAILED for other in self._runs.values()):
            self._watch.follow(False)
            self._hold_memory(False)
        self._publish(run)
        self.pages.changed(run)
        self._on_change(run)

    def _publish(self, run: ModelRun) -> None:
        if self._hub.listeners:
            self._hub.publish("model", loaded_model(run))

    def _forget(self, run: ModelRun) -> None:
        if self._runs.get(run.key) is run:
            del self._runs[run.key]


def process_key(model: StoredModel) -> str:
    """Return the process key of a model: its file, so that all its names share one process."""
    return str(model.path)
