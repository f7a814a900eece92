"""Models come when they are asked for, share the memory, and go when nobody uses them."""

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
from .retrying_backend import RetryingBackend, Turns

log = logging.getLogger("ingle.daemon")

ABANDON_SECONDS = 10.0
AUTOMATIC = LoadOptions()


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
        limits: OwnerLimits | None = None,
        memory: MemoryReader = MemorySnapshot.read,
        abandon_after: float = ABANDON_SECONDS,
        room_times: AllocationTimes | None = None,
        rules: KeepAliveRules | None = None,
        hold_memory: Callable[[bool], None] | None = None,
    ) -> None:
        """`hold_memory` is told whether there are models, so that more readings are to come.

        `slots` counts where a model is not loaded yet; beyond it, `max_queue` may wait."""
        self._resolve = resolve
        self._hub = hub
        self._limits = limits or OwnerLimits()
        self._keep_alive = self._limits.keep_alive(keep_alive)
        self._rules = rules or KeepAliveRules()
        self._hold_memory = hold_memory
        self._abandon_after = abandon_after
        self._runs: dict[str, ModelRun] = {}
        self._crashes: dict[str, CrashRecord] = {}
        self._turns: dict[str, Turns] = {}
        self.faults = CrashCounts()
        self._slots = slots
        self._max_queue = max_queue
        self._queues: dict[str, RequestQueue] = {}
        self._names: dict[str, str] = {}
        self._uses: dict[str, UsageRecord] = {}
        self._replaced: dict[str, ModelRun] = {}
        self.room = MemoryAllocator(
            lambda: list(self._runs.values()),  # a copy: the list of models asks in a thread
            prepare,
            memory,
            limit=self._limits.memory,
            times=room_times or AllocationTimes(),
        )
        self._starter = ModelStarter(self.room, create_backend, self._limits)
        self._watch = MemoryWatch(self.room, on_resume=self.resumed)
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
        place: QueueSlot | None = None,
        options: LoadOptions = AUTOMATIC,
        keep_alive: float | None = None,
        on_progress: LoadProgress | None = None,
        whole: bool = False,
    ) -> AsyncGenerator[Lease]:
        """Use a model for so many `answers`, loading it first where needed.

        One that has less than the context in `options` is loaded anew once it is idle, if it can
        have more; the rest of them counts only where it is not loaded. `keep_alive` is how many
        seconds it stays after its last use from now on.

        `task` None stands for whatever the model does. Who has a `place` from `enter` brings it,
        and it is left at the end. Where the process dies under the request before its client has
        seen anything of an answer, which with `whole` is until its end, it is asked once more of
        another (`RetryingBackend`); a batch has its own way.

        Raises `ModelNotFound`, `WrongTask` before anything is loaded, `QueueFull`, whatever the
        start failed with, `ModelQuarantined`, `MemoryBusy`, `MemoryExhausted`, `ShuttingDown`.
        """
        model = await self._find(reference)
        if task is not None and model.task is not task:
            if place is not None:
                place.leave()
            raise WrongTask(model.task, task, name=model.name)
        options = replace(options, context=self._limits.context(options.context))
        with place or self.enter(model, priority, answers):
            # Whoever comes next may need more than this request does.
            least = replace(options, context=None, least_context=options.context)
            rule = await asyncio.to_thread(self._rules.of, reference, model)
            self._make_way_for_context(model, options.context)
            obtain = partial(self._obtain, model, least, rule, on_progress=on_progress)
            tries_again = priority is Priority.INTERACTIVE
            try:
                run = await obtain()
            except WorkerDied as error:
                if not tries_again:
                    raise
                tries_again = False
                self._note_second_try(model, error)
                run = await obtain()
            while self._make_way_for_context(model, options.context):
                run.release()  # it was on its way already, for somebody who asked for less
                run = await obtain()
            self._keep(run, keep_alive, rule)
            held = AsyncExitStack()
            try:
                assert run.backend is not None
                assert run.info is not None
                backend = run.backend
                if tries_again:
                    backend = self._second_try(run, obtain, held, whole=whole)
                yield Lease(run.model, backend, run.info)
            except WorkerDied as error:
                if not self._closing:
                    raise
                raise ShuttingDown(
                    "The daemon was stopped before the answer was complete.",
                    hint="Start it again, and ask again.",
                ) from error
            finally:
                run.release()
                await held.aclose()

    def _second_try(
        self,
        run: ModelRun,
        obtain: Callable[[], Awaitable[ModelRun]],
        held: AsyncExitStack,
        *,
        whole: bool,
    ) -> RetryingBackend:
        """The run's backend, in whose place another process may come, which `held` lets go."""

        async def again(error: WorkerDied) -> Backend:
            self._note_second_try(run.model, error)
            other = await obtain()
            held.callback(other.release)
            assert other.backend is not None
            return other.backend

        assert run.backend is not None
        turns = self._turns.setdefault(run.key, Turns())
        return RetryingBackend(run.backend, again=again, turns=turns, whole=whole)

    def _note_second_try(self, model: StoredModel, error: WorkerDied) -> None:
        self.faults.second_tries[model.name] += 1
        log.warning("A request to %s is asked once more. %s", model.name, error.message)

    def _keep(self, run: ModelRun, asked: float | None, rule: KeepAliveRule) -> None:
        """The request's own wish, else the owner's for this name; else it stays as it is."""
        seconds = rule.keep_alive if asked is None else asked
        if seconds is not None:
            run.keep(self._limits.keep_alive(seconds))

    def _make_way_for_context(self, model: StoredModel, context: int | None) -> bool:
        """End a run that has less context than is asked for, unless it got all it could.

        It never ends one that has more: who asks for less shares that.
        """
        run = self._runs.get(_key(model))
        if context is None or run is None or run.info is None or not run.accepts:
            return False
        asked = run.options.context or run.options.least_context or 0
        if max(run.info.context, asked) >= min(context, model.context or context):
            return False
        self._replace(run)
        return True

    def _make_way_for_options(self, model: StoredModel, options: LoadOptions) -> None:
        """End a run that has other options; raises `Conflict` where it is in use."""
        run = self._runs.get(_key(model))
        if run is None or not run.accepts or run.meets(options):
            return
        if run.busy:
            raise Conflict(
                f"The model '{model.name}' is answering with other options.",
                hint="Try again when it is done, or unload it first.",
                code="model_busy",
            )
        self._replace(run)

    def _replace(self, run: ModelRun) -> None:
        """End a run for one with other options, which stays as long as this one was to."""
        self._replaced[run.key] = run
        run.request_stop()

    def enter(self, model: StoredModel, priority: Priority, answers: int = 1) -> QueueSlot:
        """A place among the model's requests; raises `QueueFull`."""
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
        """Load a model and keep it `keep_alive` seconds after its last use, or while it is pinned.

        Other options than it has mean a new start; raises `Conflict` while it is in use.
        """
        options = replace(options, context=self._limits.context(options.context))
        model = await self._find(reference)
        rule = await asyncio.to_thread(self._rules.of, reference, model)
        self._make_way_for_options(model, options)
        run = await self._obtain(model, options, rule)
        while not run.meets(options):
            run.release()  # it was on its way already, as somebody else wanted it
            self._make_way_for_options(model, options)
            run = await self._obtain(model, options, rule)
        try:
            self._keep(run, keep_alive, rule)
            if pin is not None:
                run.pin(pin)
        finally:
            run.release()
        return LoadedModel.of(run)

    async def unload(self, reference: str | None = None) -> list[str]:
        """Let answers finish, then end the process; without a name, of every model.

        Also forgets failures, and with them the wait after too many deaths.
        """
        if reference is None:
            current_permission().check_unrestricted()
            keys = list(self._runs)
            forgiven = list(self._crashes.values())
            self._replaced.clear()
        else:
            key = await self._key_of(reference)
            keys = [key] if key in self._runs else []
            forgiven = [self._crashes[key]] if key in self._crashes else []
            self._replaced.pop(key, None)
        for record in forgiven:
            record.forgive()
        runs = [self._runs[key] for key in keys]
        for run in runs:
            run.request_stop("Unloaded as somebody asked.")
        await asyncio.gather(*(run.until_ended() for run in runs))
        for run in runs:
            self._forget(run)
        return [run.model.name for run in runs]

    async def _key_of(self, reference: str) -> str:
        """The key of a model, also where its file has been moved away from under its process."""
        for key, run in self._runs.items():
            if run.model.name == reference:
                current_permission().check_model(reference)
                return key
        return _key(await self._find(reference))

    async def _find(self, reference: str) -> StoredModel:
        """The model that is meant, where the request's sender may use it."""
        model = await asyncio.to_thread(self._resolve, reference)
        current_permission().check_model(model.name)
        return model

    def loaded(self) -> list[LoadedModel]:
        """Every model with a process, and those whose last one failed."""
        return [LoadedModel.of(run) for run in list(self._runs.values())]

    def models(self) -> list[StoredModel]:
        """The models that have a process or get one, for any thread."""
        runs = tuple(self._runs.values())
        return [run.model for run in runs if run.state is not ModelState.FAILED]

    def gauges(self) -> dict[str, Gauges]:
        """What each model with a process last reported, by name."""
        return {
            run.model.name: run.backend.gauges
            for run in list(self._runs.values())
            if run.backend is not None
        }

    def requests(self) -> dict[str, int]:
        """The requests each model has, those that wait for it to be loaded included, by name."""
        queues = list(self._queues.items())
        return {self._names[key]: queue.answers for key, queue in queues}

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
            run.request_stop("The daemon ends.", drain=grace)
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
                f"and is left alone for {left:.0f} more seconds.",
                hint=f"`ingle unload {model.name}` lifts the ban; the log may say why it died.",
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
            on_idle=self.room.stir,
        )
        before = self._replaced.pop(_key(model), None) or self._runs.get(_key(model))
        if before is not None:  # the other one failed, which lets go of no pin
            run.stay_like(before)
        self._runs[_key(model)] = run
        self._watch.follow(True)
        if self._hold_memory is not None:
            self._hold_memory(True)
        return run

    def available(self) -> MemoryNeeds:
        """The memory that a model could have when idle ones give way; for any thread."""
        return self.room.available()

    async def resumed(self) -> None:
        """The machine slept: keep-alives may be over, and what a GPU held may be gone."""
        runs = list(self._runs.values())
        for run in runs:
            run.look_again()
        for run in filter(may_have_lost_gpu, runs):
            assert run.backend is not None
            if not await still_computes(run.backend):
                await self._restart(run, "Its GPU forgot it while the machine slept.")

    async def _restart(self, run: ModelRun, why: str) -> None:
        """Load it anew as it was, once."""
        log.warning("Model %s is loaded again. %s", run.model.name, why)
        run.request_stop(why, drain=0)
        await run.until_ended()
        try:
            again = await self._obtain(run.model, run.options)
        except Exception as error:  # whoever asks for the model next is told the same
            log.warning("Model %s did not come back: %s", run.model.name, error)
            return
        again.stay_like(run)
        again.release()

    def _changed(self, run: ModelRun) -> None:
        if run.state is ModelState.FAILED:
            failure = run.failure
            log.warning("Model %s failed: %s", run.model.name, run.error)
            if isinstance(failure, WorkerDied):
                if failure.stderr_tail:
                    log.warning("The worker's last words:\n%s", failure.stderr_tail)
                run.crashes.add()
                self.faults.deaths[run.model.name] += 1
        else:
            log.info("Model %s is %s. %s", run.model.name, run.state, run.reason)
        if run.state is ModelState.STOPPED:
            self._forget(run)
        if run.state in (ModelState.STOPPED, ModelState.FAILED):
            self.room.ended()
        self.room.stir()
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
    """One file is one process, whatever names lead to it."""
    return str(model.path)
