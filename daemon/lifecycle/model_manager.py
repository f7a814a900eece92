"""Leases models to requests: queues them, loads and replaces models, retries after crashes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from functools import partial

from msgspec.structs import replace

from ingle.backends.base.backend import LoadProgress, RequestBackend
from ingle.backends.base.errors import ContextExceeded, WorkerDied, WrongTask
from ingle.backends.base.model_info import ModelInfo
from ingle.backends.base.requests import Priority
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import ModelTask

from ..client.model_types import LoadedModel
from ..error_status import describe
from ..errors import Conflict, ShuttingDown
from ..load_planning.load_planner import LoadOptions
from ..model_process.loaded_model import loaded_model
from ..model_process.model_run import ModelRun
from .keep_alive_rules import KeepAliveRule
from .lease import Lease
from .model_runs import AUTOMATIC, ModelRuns, process_key
from .retrying_backend import RetryingBackend

log = logging.getLogger("ingle.daemon")


class ModelManager(ModelRuns):
    """Leases the runs of models to requests."""

    @asynccontextmanager
    async def lease(
        self,
        reference: str,
        *,
        task: ModelTask | None = ModelTask.GENERATE,
        priority: Priority = Priority.INTERACTIVE,
        answers: int = 1,
        slot: ExitStack | None = None,
        options: LoadOptions = AUTOMATIC,
        keep_alive: float | None = None,
        on_queued: Callable[[], None] = lambda: None,
        on_progress: LoadProgress | None = None,
        whole: bool = False,
    ) -> AsyncGenerator[Lease]:
        """Lease a model for `answers` answers, loading it first if needed.

        If `options` want a larger context than the model has, it is reloaded once it is idle, if a
        larger one is possible; the other options apply only if it is not loaded. `keep_alive` is
        the number of seconds that it stays loaded after its last use from now on.

        `task` None accepts any task. `on_queued` is called when the queue has admitted the request,
        before it waits for the model. A `slot` from `enter` is released at the end. If the process
        dies before the client has received any part of an answer (with `whole`: before the answer
        is complete), the request is retried once on a new process (`RetryingBackend`); batch
        requests are retried by their batch.

        Raises `ModelNotFound`, `WrongTask` before anything is loaded, `QueueFull`, any load error,
        `ModelQuarantined`, `MemoryBusy`, `MemoryExhausted`, `ShuttingDown`.
        """
        model = await self._find(reference)
        if task is not None and model.task is not task:
            if slot is not None:
                slot.close()
            raise WrongTask(model.task, task, name=model.name)
        options = replace(options, context=self._config.bounded_context(options.context))
        with slot or self.enter(model, priority, answers):
            # The next request may need a larger context than this one does.
            least = replace(options, context=None, least_context=options.context)
            rule = await asyncio.to_thread(self._find_rule, reference, model)
            self._replace_if_context_short(model, options.context)
            obtain = partial(self._obtain, model, least, rule, on_progress=on_progress)
            on_queued()
            run, may_retry = await self._first_run(model, obtain, priority, options.context)
            self._keep(run, keep_alive, rule)
            held = AsyncExitStack()
            try:
                assert run.backend is not None
                assert run.info is not None
                retrying = self._with_retry(run, obtain, held, whole=whole) if may_retry else None
                with self._explained(run.info), self._metered(run.model.name, lambda: run.gauges):
                    yield Lease(run.model, retrying or run.backend, run.info)
            finally:
                run.release()
                await held.aclose()

    @contextmanager
    def _explained(self, info: ModelInfo) -> Generator[None]:
        """Add to errors of the request's model what its worker does not know."""
        try:
            yield
        except ContextExceeded as error:
            error.suggest_context(info.trained_context)
            raise
        except WorkerDied as error:
            if not self._closing:
                raise
            raise ShuttingDown(
                "The daemon was stopped before the answer was complete.",
                hint="Start it again and repeat the request.",
            ) from error

    async def _first_run(
        self,
        model: StoredModel,
        obtain: Callable[[], Awaitable[ModelRun]],
        priority: Priority,
        context: int | None,
    ) -> tuple[ModelRun, bool]:
        """Return a run with at least this context, and whether the request may still be retried.

        Retries a first failure.
        """
        may_retry = priority is Priority.INTERACTIVE
        try:
            run = await obtain()
        except WorkerDied as error:
            if not may_retry:
                raise
            self._record_retry(model, error)
            run, may_retry = await obtain(), False
        while self._replace_if_context_short(model, context):
            run.release()  # a start was already under way, for a request with a smaller context
            run = await obtain()
        return run, may_retry

    def _with_retry(
        self,
        run: ModelRun,
        obtain: Callable[[], Awaitable[ModelRun]],
        held: AsyncExitStack,
        *,
        whole: bool,
    ) -> RetryingBackend:
        """Return the run's backend with one retry on a new run, which `held` releases."""

        async def next_backend(error: WorkerDied) -> RequestBackend:
            self._record_retry(run.model, error)
            other = await obtain()
            held.callback(other.release)
            assert other.backend is not None
            return other.backend

        assert run.backend is not None
        retry_queue = self._record(run.model).retry_queue
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
            run.keep(self._config.bounded_keep_alive(seconds))

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
        self._record(run.model).replaced = run
        run.request_stop()

    def enter(self, model: StoredModel, priority: Priority, answers: int = 1) -> ExitStack:
        """Reserve a slot in the model's request queue; raises `QueueFull`."""
        run = self._runs.get(process_key(model))
        slots = run.info.slots if run is not None and run.info is not None else self._config.slots
        record = self._record(model)
        record.name = model.name
        return record.queue.enter(
            model.name, priority, answers, slots=slots, max_waiting=self._config.max_queue
        )

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
        options = replace(options, context=self._config.bounded_context(options.context))
        model = await self._find(reference)
        rule = await asyncio.to_thread(self._find_rule, reference, model)
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
        return {record.name: record.queue.answers for record in list(self._records.values())}

    async def preload(self, names: Iterable[str]) -> None:
        """Load models one after another; a failure is logged and does not stop the others."""
        for name in names:
            try:
                await self.load(name)
            except Exception as error:  # the daemon is useful without it
                described = describe(error)
                hint = f" {described.hint}" if described.hint else ""
                log.warning("%s could not be preloaded: %s%s", name, described.message, hint)
