"""The life of one model process, and the task that owns it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import aclosing, contextmanager, suppress
from typing import Any

from ingle.backends.base.backend import Backend, LoadProgress, stream_events
from ingle.backends.base.errors import RequestRejected, WorkerDied
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.model_info import Gauges, ModelInfo
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import SamplingParams
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import ModelTask

from ..client.model_types import KnownAgent, ModelState
from ..error_status import describe
from ..errors import ModelStopped
from ..load_planning.load_options import LoadOptions
from ..machine.boot_clock import boot_time
from .model_history import CrashRecord, UsageRecord

STOP_GRACE = 5.0
RESUME_PATIENCE = 30.0
HURRIED_GRACE = 1.0


class ModelRun:
    """The states are starting, ready, draining, stopping, stopped, and failed from any of them;
    never back.

    Only the owner task changes the state. Others register (`waiting`, `acquire`, `release`) or ask
    for the end (`request_stop`), and wake the owner.

    A start that no request waits for any more goes on for `abandon_after` seconds: a client that
    retries soon benefits, and one that gave up does not occupy the machine for long.
    """

    reclaimable = 0
    """Predicted bytes of mapped files beside `needs`, which the system can take back."""
    known_agents: Sequence[KnownAgent] = ()
    """The agents whose prompts were computed ahead, or are; for display."""
    longest_context = 0
    """Tokens that it can be loaded with, as far as was known when it was; 0 if unknown."""

    def __init__(
        self,
        model: StoredModel,
        *,
        options: LoadOptions,
        keep_alive: float,
        abandon_after: float,
        uses: UsageRecord,
        crashes: CrashRecord,
        open_backend: Callable[[ModelRun], Awaitable[ModelInfo]],
        on_change: Callable[[ModelRun], None],
        on_note: Callable[[ModelRun], None],
        on_idle: Callable[[], None],
    ) -> None:
        """`on_change` is called for each state, `on_note` for changes within a state.

        `on_idle` is called when a request stops using it or waiting for it.
        """
        self.model = model
        self.uses = uses
        self.crashes = crashes
        self.options = options
        """The options that were requested."""
        self.keep_alive = keep_alive
        self.kept = False
        """Whether the keep-alive was requested, rather than the default."""
        self.pinned = False
        """Whether it stays loaded until it is unloaded or unpinned."""
        self.state = ModelState.STARTING
        self.fraction = 0.0
        self.failure: Exception | None = None
        self.error: str | None = None
        """The error, for display."""
        self.spec: LoadSpec | None = None
        """How it is loaded, once decided."""
        self.backend: Backend | None = None
        self.info: ModelInfo | None = None
        self.needs = MemoryNeeds()
        """Memory predicted by the load planner."""
        self.on_gpus = MemoryNeeds()
        """GPU memory its processes were last measured to hold, if the driver reports it."""
        self.reason = ""
        """Why it is loaded as it is, what it waits for, or why it ends; for display."""
        self.cuts: list[str] = []
        """What was reduced from the plan; one sentence each."""
        self.leases = 0
        self.waiters = 0
        self.last_used = boot_time()
        self.ready_since: float | None = None
        self._abandon_after = abandon_after
        self._on_change = on_change
        self._on_note = on_note
        self._on_idle = on_idle
        self._listeners: list[LoadProgress] = []
        self._stop_wanted = False
        self._drain_deadline: float | None = None
        self._nudge = asyncio.Event()
        self._started = asyncio.Event()
        self._ended = asyncio.Event()
        self._owner = asyncio.create_task(self._live(open_backend))

    @property
    def key(self) -> str:
        """Process key: its file, so that all names of a model share one process."""
        return str(self.model.path)

    @property
    def gauges(self) -> Gauges:
        """The gauges that its process reported last."""
        return self.backend.gauges if self.backend is not None else Gauges()

    @property
    def accepts(self) -> bool:
        """Return whether it can be leased now."""
        return self.state is ModelState.READY and not self.is_ending

    @property
    def is_ending(self) -> bool:
        """Whether it ends without accepting further requests; a request for the model waits for
        that.
        """
        if self._stop_wanted:
            return not self._ended.is_set()
        if self.state is ModelState.READY:
            # Covers the time between the death of a process and the owner's noticing it.
            return self.backend is not None and self.backend.state != "ready"
        return self.state in (ModelState.DRAINING, ModelState.STOPPING)

    @property
    def busy(self) -> bool:
        """Return whether a request uses it or waits for it."""
        return self.leases > 0 or self.waiters > 0 or self.state is ModelState.STARTING

    @property
    def expires_in(self) -> float | None:
        """Return the seconds until it is unloaded; None while in use or if kept for ever."""
        if self.state is not ModelState.READY or self.busy or self.pinned or self.keep_alive < 0:
            return None
        return max(0.0, self.last_used + self.keep_alive - boot_time())

    @property
    def may_have_lost_gpu(self) -> bool:
        """Return whether it is idle and uses a GPU, which drivers may reset during a sleep."""
        info = self.info
        return (
            self.state is ModelState.READY
            and not self.busy
            and info is not None
            and info.layers_on_gpu > 0
            and info.task is ModelTask.GENERATE
        )

    def satisfies(self, options: LoadOptions) -> bool:
        """Return whether it was started with these options, or has what they ask for."""
        info, spec, own = self.info, self.spec, self.options
        return (
            options.context in (None, own.context, info.context if info else None)
            and options.kv_type in (None, own.kv_type, info.kv_type if info else None)
            and options.engine in (None, own.engine, info.engine if info else None)
            and options.quantize in (None, own.quantize, spec.quantize if spec else None)
            and options.tensor_parallel
            in (None, own.tensor_parallel, spec.tensor_parallel if spec else None)
            and options.draft in (None, own.draft)
            and options.pooling in (None, own.pooling)
        )

    @contextmanager
    def waiting(self, on_progress: LoadProgress | None = None) -> Generator[None]:
        """Count as a waiting request, and receive load progress."""
        self.waiters += 1
        if on_progress is not None:
            self._listeners.append(on_progress)
        try:
            yield
        finally:
            self.waiters -= 1
            if on_progress is not None:
                self._listeners.remove(on_progress)
            self._used()

    async def until_started(self) -> None:
        """Wait until the start ends; raises the load error."""
        await self._started.wait()
        if self.ready_since is None:
            assert self.failure is not None
            raise self.failure.with_traceback(None)

    async def until_ended(self) -> None:
        """Wait until the process has ended and its memory is free."""
        await self._ended.wait()

    def acquire(self) -> None:
        """Increment the user count; only while `accepts`, with no await in between."""
        assert self.accepts
        self.leases += 1
        self.uses.add(boot_time())
        self._nudge.set()

    def release(self) -> None:
        """Decrement the user count; the keep-alive timer starts with the last user."""
        self.leases -= 1
        self._used()

    def keep(self, keep_alive: float) -> None:
        """Change the requested keep-alive."""
        self.keep_alive = keep_alive
        self.kept = keep_alive != 0
        self._nudge.set()

    def copy_keep_alive(self, before: ModelRun) -> None:
        """Copy the keep-alive and pin of another run of the same model."""
        self.keep_alive, self.kept, self.pinned = before.keep_alive, before.kept, before.pinned

    def pin(self, on: bool) -> None:
        """Pin or unpin it."""
        if on is not self.pinned:
            self.pinned = on
            self._nudge.set()
            self._on_note(self)

    def set_reason(self, reason: str) -> None:
        """Set the reason that is displayed."""
        if reason != self.reason:
            self.reason = reason
            self._on_note(self)

    def show_agents(self, agents: Sequence[KnownAgent]) -> None:
        """Set the agents that are displayed."""
        if agents != self.known_agents:
            self.known_agents = agents
            self._on_note(self)

    def request_stop(self, why: str = "", *, drain: float | None = None) -> None:
        """End it once it is idle, or in `drain` seconds at the latest; a start is cancelled."""
        self._stop_wanted = True
        self.reason = why or self.reason
        if drain is not None:
            deadline = time.monotonic() + drain
            self._drain_deadline = min(deadline, self._drain_deadline or deadline)
        self._nudge.set()

    def recheck_timers(self) -> None:
        """Recompute timers, since the clock went on while they stood still."""
        self._nudge.set()

    def progressed(self, fraction: float) -> None:
        """Report the fraction that is loaded."""
        self.fraction = fraction
        for listener in tuple(self._listeners):
            listener(fraction)

    def _used(self) -> None:
        self.last_used = boot_time()
        self._nudge.set()
        self._on_idle()

    async def _live(self, open_backend: Callable[[ModelRun], Awaitable[ModelInfo]]) -> None:
        try:
            await self._start(open_backend)
            await self._serve()
        except Exception as error:
            self.failure = error
            self.error, self.reason = describe(error).message, ""
        # A start that was cancelled on purpose does not count as a failure of the model.
        failed = self.failure is not None and not isinstance(self.failure, ModelStopped)
        self._enter(ModelState.FAILED if failed else ModelState.STOPPING)
        self._started.set()
        if self.backend is not None:
            hurry = failed or self.leases > 0 or self.ready_since is None
            with suppress(
                Exception
            ):  # it is gone either way, and the failure above is what is reported
                await self.backend.stop(HURRIED_GRACE if hurry else STOP_GRACE)
        self._ended.set()
        if not failed:
            self._enter(ModelState.STOPPED)

    async def _start(self, open_backend: Callable[[ModelRun], Awaitable[ModelInfo]]) -> None:
        self._on_change(self)
        opening = asyncio.ensure_future(open_backend(self))
        try:
            while not opening.done():
                await self._wait(opening, self._time_to_abandon())
                if not opening.done() and (self._stop_wanted or self._time_to_abandon() == 0):
                    raise ModelStopped(
                        f"The model '{self.model.name}' was unloaded while it was starting.",
                        hint="Repeat the request to load it.",
                    )
            self.info = opening.result()
        finally:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
        self.fraction = 1.0
        self.ready_since = time.monotonic()
        self._enter(ModelState.READY)
        self._started.set()

    async def _serve(self) -> None:
        """Return when the process shall end; raises `WorkerDied` if it died."""
        assert self.backend is not None
        death = asyncio.create_task(self.backend.wait_dead())
        try:
            while not (self._stop_wanted and (self.leases == 0 or self._time_left() == 0)):
                if self._stop_wanted and self.state is not ModelState.DRAINING:
                    self._enter(ModelState.DRAINING)
                if not self._stop_wanted and self.expires_in == 0:
                    self._stop_wanted = True
                    self.reason = f"Unloaded after {self.keep_alive:g} seconds without use."
                    return
                await self._wait(death, self._time_left())
                if death.done():
                    raise death.result()
        finally:
            death.cancel()
            await asyncio.gather(death, return_exceptions=True)

    def _time_left(self) -> float | None:
        if not self._stop_wanted:
            return self.expires_in
        if self._drain_deadline is None:
            return None
        return max(0.0, self._drain_deadline - time.monotonic())

    def _time_to_abandon(self) -> float | None:
        if self.waiters > 0:
            return None
        return max(0.0, self.last_used + self._abandon_after - boot_time())

    async def _wait(self, task: asyncio.Future[Any], timeout: float | None) -> None:  # noqa: ASYNC109 - None must mean for ever
        """Wait until the task is done, the owner is woken, or the time is over."""
        nudge = asyncio.create_task(self._nudge.wait())
        try:
            await asyncio.wait({task, nudge}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            nudge.cancel()
            self._nudge.clear()

    def _enter(self, state: ModelState) -> None:
        self.state = state
        self._on_change(self)


async def still_computes(backend: Backend, patience: float = RESUME_PATIENCE) -> bool:
    """Generate one token; return False if the process dies or does not answer within `patience`
    seconds.
    """
    request = GenerateRequest(
        id="after-resume",
        prompt="a",
        max_tokens=1,
        private=True,
        sampling=SamplingParams(temperature=0.0),
    )
    try:
        async with asyncio.timeout(patience), aclosing(stream_events(backend, request)) as events:
            async for _ in events:
                pass
    except (WorkerDied, TimeoutError):
        return False
    except RequestRejected:
        return True  # it answers
    return True
