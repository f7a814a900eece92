"""Loads models on demand, shares memory among them and unloads idle ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from msgspec.structs import replace

from ingle.backends.base.backend import Backend, LoadProgress
from ingle.backends.base.errors import WorkerDied, WrongTask
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.model_info import Gauges
from ingle.backends.base.requests import Priority
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import ModelTask

from ..access.permission import current_permission
from ..errors import Conflict, ModelQuarantined, ModelStopped, ShuttingDown
from ..event_hub import EventHub
from ..load_planning.load_planner import LoadOptions, Preparer
from ..machine.memory_reader import MemoryReader, MemorySnapshot
from ..memory.memory_allocator import AllocationTimes, MemoryAllocator
from ..memory.memory_watch import MemoryWatch
from ..model_process.crash_record import CrashCounts, CrashRecord
from ..model_process.gpu_resume import may_have_lost_gpu, still_computes
from ..model_process.kv_map_watch import KVMapWatch
from ..model_process.loaded_model import LoadedModel
from ..model_process.model_run import ModelRun, ModelState
from ..model_process.usage_record import UsageRecord
from .keep_alive_rules import NO_RULE, KeepAliveRule, KeepAliveRules
from .lease import Lease
from .model_starter import ModelStarter
from .owner_limits import OwnerLimits
from .request_queue import QueueSlot, RequestQueue
from .retrying_backend import RetryingBackend, RetryQueue

log = logging.getLogger("ingle.daemon")

ABANDON_SECONDS = 10.0
AUTOMATIC = LoadOptions()


class ModelManager:
    """Owns every loaded model: at most one process per model, shared by all its leases."""

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
        limits: OwnerLimits | None = None,
        memory: MemoryReader = MemorySnapshot.read,
        abandon_after: float = ABANDON_SECONDS,
        allocation_times: AllocationTimes | None = None,
        rules: KeepAliveRules | None = None,
        hold_memory: Callable[[bool], None] | None = None,
    ) -> None:
        """`hold_memory` is called with whether any model has a process, so that memory readings go
        on.

        `slots` is the number of requests that may run if the model is not loaded yet; up to
        `max_queue` more may wait.
        """
        self._resolve = resolve
        self._hub = hub
        self._limits = limits or OwnerLimits()
        self._keep_alive = self._limits.keep_alive(keep_alive)
        self._rules = rules or KeepAliveRules()
        self._hold_memory = hold_memory
        self._abandon_after = abandon_after
        self._runs: dict[str, ModelRun] = {}
        self._crashes: dict[str, CrashRecord] = {}
        self._retry_queues: dict[str, RetryQueue] = {}
        self.failures = CrashCounts()
        self._slots = slots
        self._max_queue = max_queue
        self._queues: dict[str, RequestQueue] = {}
        self._names: dict[str, str] = {}
        self._uses: dict[str, UsageRecord] = {}
        self._replaced: dict[str, ModelRun] = {}
        self.allocator = MemoryAllocator(
            lambda: list(self._runs.values()),  # a copy: the list of models reads it from a thread
            prepare,
            memory,
            limit=self._limits.memory,
            times=allocation_times or AllocationTimes(),
        )
        self._starter = ModelStarter(self.allocator, create_backend, self._limits)
        self._watch = MemoryWatch(self.allocator, on_resume=self.resumed)
        self.pages = KVMapWatch(hub, self.find)
        self._closing = False

    @asynccontextmanager
    async def lease(
        self,
        reference: str,
        *,
        task: ModelTask | None = ModelTask.GENERATE,
        priority: Priority = Priority.INTERACTIVE,
        answers: int = 1,
        slot: QueueSlot | None = None,
        options: LoadOptions = AUTOMATIC,
        keep_alive: float | None = None,
        on_progress: LoadProgress | None = None,
        whole: bool = False,
    ) -> AsyncGenerator[Lease]:
        """Lease a model for `answers` answers, loading it first if needed.

        If `options` want a larger context than the model has, it is reloaded once it is idle, if a
        larger one is possible; the other options apply only if it is not loaded. `keep_alive` is
        the number of seconds that it stays loaded after its last use from now on.

        `task` None accepts any task. A `slot` from `enter` is released at the end. If the process
        dies before the client has received any part of an answer (with `whole`: before the answer
        is complete), the request is retried once on a new process (`RetryingBackend`); batch
        requests are retried by their batch.

        Raises `ModelNotFound`, `WrongTask` before anything is loaded, `QueueFull`, any load error,
        `ModelQuarantined`, `MemoryBusy`, `MemoryExhausted`, `ShuttingDown`.
        """
        model = await self._find(reference)
        if task is not None and model.task is not task:
            if slot is not None:
                slot.leave()
            raise WrongTask(model.task, task, name=model.name)
        options = replace(options, context=self._limits.context(options.context))
        with slot or self.enter(model, priority, answers):
            # The next request may need a larger context than this one does.
            least = replace(options, context=None, least_context=options.context)
            rule = await asyncio.to_thread(self._rules.of, reference, model)
            self._replace_if_context_short(model, options.context)
            obtain = partial(self._obtain, model, least, rule, on_progress=on_progress)
            may_retry = priority is Priority.INTERACTIVE
            try:
                run = await obtain()
            except WorkerDied as error:
                if not may_retry:
                    raise
                may_retry = False
                self._record_retry(model, error)
                run = await obtain()
            while self._replace_if_context_short(model, options.context):
                run.release()  # a start was already under way, for a request with a smaller context
                run = await obtain()
            self._keep(run, keep_alive, rule)
            held = AsyncExitStack()
            try:
                assert run.backend is not None
                assert run.info is not None
                backend = run.backend
                if may_retry:
                    backend = self._with_retry(run, obtain, held, whole=whole)
                yield Lease(run.model, backend, run.info)
            except WorkerDied as error:
                if not self._closing:
                    raise
                raise ShuttingDown(
                    "The daemon was stopped before the answer was complete.",
                    hint="Start it again and repeat the request.",
                ) from error
            finally:
                run.release()
                await held.aclose()

    def _with_retry(
        self,
        run: ModelRun,
        obtain: Callable[[], Awaitable[ModelRun]],
        held: AsyncExitStack,
        *,
        whole: bool,
    ) -> RetryingBackend:
        """Return the run's backend with one retry on a new run, which `held` releases."""

        async def next_backend(error: WorkerDied) -> Backend:
            self._record_retry(run.model, error)
            other = await obtain()
            held.callback(other.release)
            assert other.backend is not None
            return other.backend

        assert run.backend is not None
        retry_queue = self._retry_queues.setdefault(run.key, RetryQueue())
        return RetryingBackend(
            run.backend, next_backend=next_backend, retry_queue=retry_queue, whole=whole
        )

    def _record_retry(self, model: StoredModel, error: WorkerDied) -> None:
        self.failures.retries[model.name] += 1
        log.warning("Retrying a request to %s. %s", model.name, error.message)

    def _keep(self, run: ModelRun, requested: float | None, rule: KeepAliveRule) -> None:
        """Set the keep-alive of the request, else of the rule for this name; else leave it
        unchanged.
        """
        seconds = rule.keep_alive if requested is None else requested
        if seconds is not None:
            run.keep(self._limits.keep_alive(seconds))

    def _replace_if_context_short(self, model: StoredModel, context: int | None) -> bool:
        """End a run whose context is too small, unless a reload would not make it larger; return
        whether it ends.

        A run with a larger context than requested is kept and shared.
        """
        run = self._runs.get(_key(model))
        if context is None or run is None or run.info is None or not run.accepts:
            return False
        requested = run.options.context or run.options.least_context or 0
        if max(run.info.context, requested) >= min(context, model.context or context):
            return False
        self._replace(run)
        return True

    def _replace_if_options_differ(self, model: StoredModel, options: LoadOptions) -> None:
        """End a run that has other options; raises `Conflict` if it is in use."""
        run = self._runs.get(_key(model))
        if run is None or not run.accepts or run.satisfies(options):
            return
        if run.busy:
            raise Conflict(
                f"The model '{model.name}' is answering with other options.",
                hint="Try again when it has finished, or unload it first.",
                code="model_busy",
            )
        self._replace(run)

    def _replace(self, run: ModelRun) -> None:
        """End a run so that one with other options replaces it and inherits its keep-alive."""
        self._replaced[run.key] = run
        run.request_stop()

    def enter(self, model: StoredModel, priority: Priority, answers: int = 1) -> QueueSlot:
        """Reserve a slot in the model's request queue; raises `QueueFull`."""
        run = self._runs.get(_key(model))
        slots = run.info.slots if run is not None and run.info is not None else self._slots
        queue = self._queues.setdefault(_key(model), RequestQueue())
        self._names[_key(model)] = model.name
        return queue.enter(model.name, priority, answers, slots=slots, max_waiting=self._max_queue)

    async def load(
        self,
        reference: str,
        options: LoadOptions = AUTOMATIC,
        *,
        keep_alive: float | None = None,
        pin: bool | None = None,
    ) -> LoadedModel:
        """Load a model and keep it until `keep_alive` seconds after its last use, or while it is
        pinned.

        Restarts it if its options differ; raises `Conflict` if it is in use then.
        """
        options = replace(options, context=self._limits.context(options.context))
        model = await self._find(reference)
        rule = await asyncio.to_thread(self._rules.of, reference, model)
        self._replace_if_options_differ(model, options)
        run = await self._obtain(model, options, rule)
        while not run.satisfies(options):
            run.release()  # a start with other options was already under way
            self._replace_if_options_differ(model, options)
            run = await self._obtain(model, options, rule)
        try:
            self._keep(run, keep_alive, rule)
            if pin is not None:
                run.pin(pin)
        finally:
            run.release()
        return LoadedModel.of(run)

    async def unload(self, reference: str | None = None) -> list[str]:
        """Let running answers finish, then end the process; without a name, of every model.

        Clears recorded failures, and with them any quarantine.
        """
        if reference is None:
            current_permission().check_unrestricted()
            keys = list(self._runs)
            cleared = list(self._crashes.values())
            self._replaced.clear()
        else:
            key = await self._key_of(reference)
            keys = [key] if key in self._runs else []
            cleared = [self._crashes[key]] if key in self._crashes else []
            self._replaced.pop(key, None)
        for record in cleared:
            record.clear()
        runs = [self._runs[key] for key in keys]
        for run in runs:
            run.request_stop("Unloaded on request.")
        await asyncio.gather(*(run.until_ended() for run in runs))
        for run in runs:
            self._forget(run)
        return [run.model.name for run in runs]

    async def _key_of(self, reference: str) -> str:
        """Return the key of a model, even if its file has been moved since it was loaded."""
        for key, run in self._runs.items():
            if run.model.name == reference:
                current_permission().check_model(reference)
                return key
        return _key(await self._find(reference))

    async def _find(self, reference: str) -> StoredModel:
        """Resolve `reference`; raises unless the request's sender may use the model."""
        model = await asyncio.to_thread(self._resolve, reference)
        current_permission().check_model(model.name)
        return model

    def loaded(self) -> list[LoadedModel]:
        """Return every model that has a process or whose last process failed."""
        return [LoadedModel.of(run) for run in list(self._runs.values())]

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

    def requests(self) -> dict[str, int]:
        """Return the number of requests of each model by name, including those that wait for it to
        load.
        """
        queues = list(self._queues.items())
        return {self._names[key]: queue.answers for key, queue in queues}

    def find(self, model: StoredModel) -> ModelRun | None:
        """Return the model's present run for inspection, or None."""
        return self._runs.get(_key(model))

    @property
    def in_motion(self) -> bool:
        """Whether a model is starting, stopping or answering."""
        return any(
            run.leases > 0 or run.state not in (ModelState.READY, ModelState.FAILED)
            for run in self._runs.values()
        )

    async def close(self, grace: float) -> None:
        """Refuse new requests and end every process once it is idle or after `grace` seconds."""
        self._closing = True
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
            run = self._runs.get(_key(model))
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
        record = self._crashes.setdefault(_key(model), CrashRecord())
        if (left := record.quarantine_left()) > 0:
            raise ModelQuarantined(
                f"The model '{model.name}' died three times within a minute "
                f"and is quarantined for {left:.0f} more seconds.",
                hint=f"`ingle unload {model.name}` lifts the quarantine; the log may show why.",
                headers={"retry-after": f"{left:.0f}"},
            )
        run = ModelRun(
            model,
            options=options,
            keep_alive=self._keep_alive,
            abandon_after=self._abandon_after,
            uses=self._uses.setdefault(_key(model), UsageRecord()),
            crashes=record,
            open_backend=self._starter.open,
            on_change=self._changed,
            on_note=self._publish,
            on_idle=self.allocator.notify,
        )
        before = self._replaced.pop(_key(model), None) or self._runs.get(_key(model))
        if before is not None:  # the previous run failed, which keeps its pin
            run.copy_keep_alive(before)
        self._runs[_key(model)] = run
        self._watch.follow(True)
        if self._hold_memory is not None:
            self._hold_memory(True)
        return run

    def available(self) -> MemoryNeeds:
        """Return the memory that a model could have with idle ones evicted; safe in any thread."""
        return self.allocator.available()

    async def resumed(self) -> None:
        """Handle a resume from sleep: keep-alives may have expired and GPU memory may be lost."""
        runs = list(self._runs.values())
        for run in runs:
            run.recheck_timers()
        for run in filter(may_have_lost_gpu, runs):
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
            if self._hold_memory is not None:
                self._hold_memory(False)
        self._publish(run)
        self.pages.changed(run)

    def _publish(self, run: ModelRun) -> None:
        if self._hub.listeners:
            self._hub.publish("model", LoadedModel.of(run))

    def _forget(self, run: ModelRun) -> None:
        if self._runs.get(_key(run.model)) is run:
            del self._runs[_key(run.model)]


def _key(model: StoredModel) -> str:
    """Return the process key of a model: its file, so that all its names share one process."""
    return str(model.path)
