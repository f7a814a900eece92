"""One life of one model's process, and the task that owns it from start to end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import Any

from ingle.backends.base.backend import Backend, LoadProgress
from ingle.backends.base.errors import WorkerDied
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.model_info import ModelInfo
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.metadata.stored_model import StoredModel

from ..error_status import describe
from ..errors import ModelStopped
from ..load_planning.load_planner import LoadOptions
from ..machine.boot_clock import boot_time
from .crash_record import CrashRecord
from .usage_record import UsageRecord

STOP_GRACE = 5.0
HURRIED_GRACE = 1.0


class ModelState(StrEnum):
    """Where a model's process is in its life."""

    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    STOPPING = "stopping"
    FAILED = "failed"


class ModelRun:
    """starting → ready → draining → stopping → stopped, or failed from anywhere; never back.

    Only the owner task changes the state. Everybody else counts themselves in and out (`waiting`,
    `acquire`, `release`) or asks for the end (`request_stop`), and the owner looks again.

    A start goes on for `abandon_after` seconds when nobody waits for it any more: a client that
    tries again finds it further on, and one that gave up gets the machine back.
    """

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
        """`on_change` hears of each state, `on_note` of what changes within one.

        `on_idle` is called when somebody stops using it or waiting for it.
        """
        self.model = model
        self.uses = uses
        self.crashes = crashes
        self.options = options
        """What somebody asked for."""
        self.keep_alive = keep_alive
        self.kept = False
        """Whether somebody asked for its keep-alive, and it is not just the default."""
        self.pinned = False
        """Whether it stays whatever happens, until it is unloaded or let go."""
        self.state = ModelState.STARTING
        self.fraction = 0.0
        self.failure: Exception | None = None
        self.error: str | None = None
        """What went wrong, for people."""
        self.spec: LoadSpec | None = None
        """How it is loaded, once that is decided."""
        self.backend: Backend | None = None
        self.info: ModelInfo | None = None
        self.needs = MemoryNeeds()
        """What placement reckons with."""
        self.gpu_bytes = 0
        """What its process was last seen to hold of the GPU, where the driver tells."""
        self.reason = ""
        """Why it is loaded as it is, what it waits for, or why it ends; for people."""
        self.cuts: list[str] = []
        """What it has less of than was planned; one sentence each."""
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
        """One file is one process, whatever names lead to it."""
        return str(self.model.path)

    @property
    def accepts(self) -> bool:
        """Whether it can be leased now."""
        return self.state is ModelState.READY and not self.leaving

    @property
    def leaving(self) -> bool:
        """Whether it will end without taking anybody else; who wants the model waits for that."""
        if self._stop_wanted:
            return not self._ended.is_set()
        if self.state is ModelState.READY:
            # Between the death of a process and the owner's hearing of it.
            return self.backend is not None and self.backend.state != "ready"
        return self.state in (ModelState.DRAINING, ModelState.STOPPING)

    @property
    def busy(self) -> bool:
        """Whether somebody uses it or waits for it."""
        return self.leases > 0 or self.waiters > 0 or self.state is ModelState.STARTING

    @property
    def expires_in(self) -> float | None:
        """Seconds until it is unloaded, None while in use or kept for ever."""
        if self.state is not ModelState.READY or self.busy or self.pinned or self.keep_alive < 0:
            return None
        return max(0.0, self.last_used + self.keep_alive - boot_time())

    def meets(self, options: LoadOptions) -> bool:
        """Whether it was asked for the same, or has what these ask for."""
        info, spec, own = self.info, self.spec, self.options
        return (
            options.context in (None, own.context, info.context if info else None)
            and options.kv_type in (None, own.kv_type, info.kv_type if info else None)
            and options.engine in (None, own.engine, info.engine if info else None)
            and options.quantize in (None, own.quantize, spec.quantize if spec else None)
            and options.draft in (None, own.draft)
            and options.pooling in (None, own.pooling)
        )

    @contextmanager
    def waiting(self, on_progress: LoadProgress | None = None) -> Generator[None]:
        """Count as somebody who wants the model, and hear of its progress."""
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
        """Wait for the start's end; raises what made it fail."""
        await self._started.wait()
        if self.ready_since is None:
            assert self.failure is not None
            raise self.failure.with_traceback(None)

    async def until_ended(self) -> None:
        """Wait until the process and its memory are gone."""
        await self._ended.wait()

    def acquire(self) -> None:
        """Count one more user; only while `accepts`, with no await in between."""
        assert self.accepts
        self.leases += 1
        self.uses.add(boot_time())
        self._nudge.set()

    def release(self) -> None:
        """Count one user less; the keep-alive clock starts with the last."""
        self.leases -= 1
        self._used()

    def keep(self, keep_alive: float) -> None:
        """Change how long it stays after its last use, as somebody asks."""
        self.keep_alive = keep_alive
        self.kept = keep_alive != 0
        self._nudge.set()

    def stay_like(self, before: ModelRun) -> None:
        """Stay as long as another run of the same model was to."""
        self.keep_alive, self.kept, self.pinned = before.keep_alive, before.kept, before.pinned

    def pin(self, on: bool) -> None:
        """Keep it whatever happens, or no longer."""
        if on is not self.pinned:
            self.pinned = on
            self._nudge.set()
            self._on_note(self)

    def tell(self, reason: str) -> None:
        """Say why things are as they are."""
        if reason != self.reason:
            self.reason = reason
            self._on_note(self)

    def request_stop(self, why: str = "", *, drain: float | None = None) -> None:
        """End it once nobody uses it, at the latest in `drain` seconds; a start is broken off."""
        self._stop_wanted = True
        self.reason = why or self.reason
        if drain is not None:
            deadline = time.monotonic() + drain
            self._drain_deadline = min(deadline, self._drain_deadline or deadline)
        self._nudge.set()

    def look_again(self) -> None:
        """The clock went on while timers stood still."""
        self._nudge.set()

    def progressed(self, fraction: float) -> None:
        """Pass on how much is loaded."""
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
        # A start that was broken off on purpose is no failure of the model.
        failed = self.failure is not None and not isinstance(self.failure, ModelStopped)
        self._enter(ModelState.FAILED if failed else ModelState.STOPPING)
        self._started.set()
        if self.backend is not None:
            hurry = failed or self.leases > 0 or self.ready_since is None
            with suppress(Exception):  # it is gone either way, and the failure above stands
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
                        hint="Ask again to load it.",
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
        """Return when the process shall end; raises `WorkerDied` when it did by itself."""
        assert self.backend is not None
        death = asyncio.create_task(self.backend.wait_dead())
        try:
            while not (self._stop_wanted and self._drained()):
                if self._stop_wanted and self.state is not ModelState.DRAINING:
                    self._enter(ModelState.DRAINING)
                if not self._stop_wanted and self.expires_in == 0:
                    self._stop_wanted = True
                    self.reason = f"Unloaded after {self.keep_alive:g} seconds without use."
                    return
                await self._wait(death, self._time_left())
                if death.done():
                    raise WorkerDied(death.result())
        finally:
            death.cancel()
            await asyncio.gather(death, return_exceptions=True)

    def _drained(self) -> bool:
        late = self._drain_deadline is not None and time.monotonic() >= self._drain_deadline
        return self.leases == 0 or late

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
        """Until the task is done, somebody nudges, or the time is over."""
        nudge = asyncio.create_task(self._nudge.wait())
        try:
            await asyncio.wait({task, nudge}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            nudge.cancel()
            self._nudge.clear()

    def _enter(self, state: ModelState) -> None:
        self.state = state
        self._on_change(self)
