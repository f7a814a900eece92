"""Leases models to requests: queues them, loads and replaces models, retries after crashes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from functools import partial

from msgspec.structs import replace

from ingle.backends.base.backend import LoadProgress, RequestBackend
from ingle.backends.base.errors import RequestRejected, WorkerDied, WrongTask
from ingle.backends.base.requests import Priority
from ingle.models.adapters.adapter_folder import without_adapter
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.kv_type import KVType
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import ModelTask

from ..client.model_types import LoadedModel
from ..error_status import describe
from ..errors import Conflict, ShuttingDown
from ..load_planning.load_options import LoadOptions
from ..model_process.loaded_model import loaded_model
from ..model_process.model_run import ModelRun
from ..pictures.seeing_backend import SeeingBackend
from .growing_backend import GrowingBackend
from .keep_alive_rules import KeepAliveRule
from .lease import Lease
from .model_runs import AUTOMATIC, ModelRuns, process_key
from .retrying_backend import RetryingBackend

log = logging.getLogger("ingle.daemon")

Obtain = Callable[[], Awaitable[ModelRun]]
_CONTEXT_STEP = 256


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
        sees: bool = False,
    ) -> AsyncGenerator[Lease]:
        """Lease a model for `answers` answers, loading it first if needed.

        If `options` want a larger context, or a prompt does not fit (`GrowingBackend`), it is
        reloaded once it is idle, if that is possible; the other options apply only if it is not
        loaded. It stays loaded for `keep_alive` seconds after its last use from now on. `task`
        None accepts any task; one that `sees` has pictures.
        `on_queued` is called when the queue has admitted the request. A `slot` from `enter` is
        released at the end. If the process dies before any part of the answer was sent (with
        `whole`: all of it) the request is retried once; those of batches by their batch.
        Raises `ModelNotFound`, `WrongTask`, `RequestRejected`, `QueueFull`, any load error,
        `ModelQuarantined`, `MemoryBusy`, `MemoryExhausted`, `ShuttingDown`.
        """
        model = without_adapter(wanted := await self._find_for(task, reference, slot, sees=sees))
        options = replace(options, context=self._config.bounded_context(options.context))
        with slot or self.enter(model, priority, answers):
            # The next request may need a larger context.
            least = replace(options, context=None, least_context=options.context)
            rule = await asyncio.to_thread(self._find_rule, reference, model)
            self._replace_if_context_short(model, options.context)
            obtain = partial(self._obtain, model, least, rule, on_progress=on_progress)
            on_queued()
            run, may_retry = await self._first_run(model, obtain, priority, options.context)
            self._keep(run, keep_alive, rule)
            held = AsyncExitStack()  # the runs of retries

            def open_backend(run: ModelRun, obtain: Obtain) -> RequestBackend:
                assert run.backend is not None
                retrying = self._with_retry(run, obtain, held, whole=whole) if may_retry else None
                return retrying or run.backend

            async def enlarge(run: ModelRun, context: int) -> tuple[ModelRun, RequestBackend]:
                larger = replace(run.options, context=None, least_context=context)
                obtain = partial(self._obtain, model, larger, rule, on_progress=on_progress)
                run = await self._enlarge(run, context, obtain, priority)
                return run, open_backend(run, obtain)

            backend = open_backend(run, obtain)
            growing = GrowingBackend(run, backend, self._choose_context, enlarge, model=wanted)
            growing.lease.backend = SeeingBackend(growing, self.pictures)
            try:
                with self._explained(), self._metered(run.model.name, lambda: growing.gauges):
                    yield growing.lease
            finally:
                growing.release()
                await held.aclose()

    async def _find_for(
        self, task: ModelTask | None, reference: str, slot: ExitStack | None, *, sees: bool
    ) -> StoredModel:
        """Resolve `reference`; releases the slot and raises if it cannot do what is wanted."""
        model = await self._find(reference)
        suits = task is None or model.task is task
        if suits and (model.projector is not None or not sees):
            return model
        if slot is not None:
            slot.close()
        if task is None or suits:
            raise await asyncio.to_thread(self._blind, model)
        raise WrongTask(model.task, task, name=model.name)

    def _blind(self, model: StoredModel) -> RequestRejected:
        """Return the error for a picture to a model that cannot see; reads the store."""
        other = self._find_seeing()
        return RequestRejected(
            f"{model.name} reads text only, and the conversation has a picture.",
            hint=f"{other.name} sees pictures: choose that model."
            if other is not None
            else "Pull a model that sees: one whose repository has an mmproj file beside it.",
            code="no_vision",
            param="messages",
        )

    @contextmanager
    def _explained(self) -> Generator[None]:
        """Replace the error of a worker that ends with the daemon."""
        try:
            yield
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
        obtain: Obtain,
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
        obtain: Obtain,
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

    async def _enlarge(
        self, run: ModelRun, context: int, obtain: Obtain, priority: Priority
    ) -> ModelRun:
        """Release a run, and return another one of its model with at least this context."""
        self._replace_if_context_short(run.model, context)
        run.release()
        larger, _ = await self._first_run(run.model, obtain, priority, context)
        return larger

    async def _choose_context(self, run: ModelRun, prompt: int, space: int) -> int | str:
        """Return the context to load the run's model with for a prompt, in tokens.

        It is twice the present one, or enough for the prompt and `space` for an answer; a hint for
        the user if no context that holds the prompt is possible.
        """
        info = run.info
        assert info is not None
        # The file may say less than the engine, and is not loaded with more.
        known = [tokens for tokens in (info.trained_context, run.model.context) if tokens]
        trained = min(known, default=prompt + space)
        most = self._config.bounded_context(trained) or trained
        if prompt >= trained:
            return ""
        if prompt >= most:
            return (
                "Shorten the prompt, or raise `max_context` in the configuration "
                f"to more than {prompt}."
            )
        shortage = ""
        for tokens in (max(prompt + space, 2 * info.context), prompt + space, prompt + 1):
            context = min(most, -(-tokens // _CONTEXT_STEP) * _CONTEXT_STEP)
            if context <= info.context:
                break
            options = replace(run.options, context=None, least_context=context)
            plan, available = await asyncio.to_thread(self.allocator.plan_instead, run, options)
            if plan.needs.fits_in(available) and plan.spec.context >= context:
                log.info("%s is loaded with more context, for %d tokens", run.model.name, prompt)
                return context
            shortage = _shortage(run, context, plan.needs, available)
        return shortage

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
        self._record(model).wanted_context = context
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
        model = without_adapter(await self._find(reference))
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


def _shortage(run: ModelRun, context: int, needs: MemoryNeeds, available: MemoryNeeds) -> str:
    """Return what the user can do if there is too little memory for a context, in a sentence."""
    short, name = needs.shortage_in(available), run.model.name
    smaller = f", or try `ingle load {name} --context {context} --kv-type q4_0`"
    return (
        f"Shorten the prompt, or free {short.kind}: a context of {context} tokens needs "
        f"{short.needed / 1e9:.1f} GB, and {short.free / 1e9:.1f} GB can be had. `ingle ps` shows "
        f"the loaded models, `ingle unload NAME` ends one"
        f"{smaller if run.info is not None and run.info.kv_type is not KVType.Q4_0 else ''}."
    )
