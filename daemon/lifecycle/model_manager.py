"""Leases models to requests: queues them, loads and replaces models, retries after crashes."""

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
from ingle.backends.base.requests import Priority
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import ModelTask

from ..client.model_types import LoadedModel
from ..errors import Conflict, ShuttingDown
from ..event_hub import EventHub
from ..load_planning.load_planner import LoadOptions, Preparer
from ..machine.memory_reader import MemoryReader, MemorySnapshot
from ..memory.memory_allocator import AllocationTimes
from ..model_process.loaded_model import loaded_model
from ..model_process.model_run import ModelRun
from .keep_alive_rules import KeepAliveRule, KeepAliveRules
from .lease import Lease
from .model_runs import ABANDON_SECONDS, AUTOMATIC, ModelRuns, process_key
from .owner_limits import OwnerLimits
from .request_queue import QueueSlot, RequestQueue
from .retrying_backend import RetryingBackend, RetryQueue

log = logging.getLogger("ingle.daemon")


class ModelManager(ModelRuns):
    """Leases the runs of models to requests."""

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
        """`slots` is the number of requests that may run if the model is not loaded yet; up to
        `max_queue` more may wait. For the rest see `ModelRuns`.
        """
        super().__init__(
            resolve=resolve,
            prepare=prepare,
            create_backend=create_backend,
            hub=hub,
            keep_alive=keep_alive,
            limits=limits,
            memory=memory,
            abandon_after=abandon_after,
            allocation_times=allocation_times,
            hold_memory=hold_memory,
        )
        self._rules = rules or KeepAliveRules()
        self._retry_queues: dict[str, RetryQueue] = {}
        self._slots = slots
        self._max_queue = max_queue
        self._queues: dict[str, RequestQueue] = {}
        self._names: dict[str, str] = {}

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
            run, may_retry = await self._first_run(model, obtain, priority)
            while self._replace_if_context_short(model, options.context):
                run.release()  # a start was already under way, for a request with a smaller context
                run = await obtain()
            self._keep(run, keep_alive, rule)
            held = AsyncExitStack()
            try:
                assert run.backend is not None
                assert run.info is not None
                retrying = self._with_retry(run, obtain, held, whole=whole) if may_retry else None
                yield Lease(run.model, retrying or run.backend, run.info)
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

    async def _first_run(
        self, model: StoredModel, obtain: Callable[[], Awaitable[ModelRun]], priority: Priority
    ) -> tuple[ModelRun, bool]:
        """Return a run and whether the request may still be retried; retries a first failure."""
        may_retry = priority is Priority.INTERACTIVE
        try:
            return await obtain(), may_retry
        except WorkerDied as error:
            if not may_retry:
                raise
            self._record_retry(model, error)
            return await obtain(), False

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
        run = self._runs.get(process_key(model))
        if context is None or run is None or run.info is None or not run.accepts:
            return False
        requested = run.options.context or run.options.least_context or 0
        if max(run.info.context, requested) >= min(context, model.context or context):
            return False
        self._replace(run)
        return True

    def _replace_if_options_differ(self, model: StoredModel, options: LoadOptions) -> None:
        """End a run that has other options; raises `Conflict` if it is in use."""
        run = self._runs.get(process_key(model))
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
        run = self._runs.get(process_key(model))
        slots = run.info.slots if run is not None and run.info is not None else self._slots
        queue = self._queues.setdefault(process_key(model), RequestQueue())
        self._names[process_key(model)] = model.name
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
        return loaded_model(run)

    def requests(self) -> dict[str, int]:
        """Return the number of requests of each model by name, including those that wait for it to
        load.
        """
        queues = list(self._queues.items())
        return {self._names[key]: queue.answers for key, queue in queues}
