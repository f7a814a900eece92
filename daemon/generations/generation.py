"""Generations that belong to the daemon: they run without a client, and clients can reconnect."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal

import msgspec

from ingle.backends.base.conversation import ToolCall
from ingle.backends.base.events import (
    Delta,
    Event,
    Finished,
    PromptAdvanced,
    ReasoningDelta,
    Started,
    ToolCallDelta,
    ToolCallStarted,
)
from ingle.backends.base.requests import GenerateRequest, shows_pictures

from ..client.error_types import ErrorDetail
from ..client.generation_types import (
    ArgumentsEvent,
    DeltaEvent,
    ErrorEvent,
    FinishedEvent,
    LoadingEvent,
    PrefillEvent,
    StartedEvent,
    ToolCallEvent,
)
from ..error_status import describe
from .run_registry import GenerationLog

if TYPE_CHECKING:
    from contextlib import ExitStack

    from ..lifecycle.lease import Lease
    from ..lifecycle.model_manager import ModelManager
    from ..routing.route_header import RouteRecord
    from ..routing.routed_backend import OpenLocal
    from .request_watch import RequestWatch

GenerationState = Literal["running", "finished", "failed"]

UNFOLLOWED_SECONDS = 10.0
"""Seconds that an attached generation runs without a follower; clients reconnect within four."""


class GenerationStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A generation as it is now; `events` is the number of its newest event."""

    id: str
    model: str
    state: GenerationState
    text: str
    reasoning: str
    tool_calls: list[ToolCall]
    events: int
    finished: FinishedEvent | None
    error: ErrorDetail | None


class GenerationRoute(msgspec.Struct, frozen=True):
    """The route of a generation: `open` makes its lease, `note` records where it is answered."""

    note: RouteRecord
    open: Callable[[OpenLocal], AbstractAsyncContextManager[Lease]]


class GenerationRun:
    """One generation: its task, and the log of its events, numbered from 1."""

    def __init__(
        self,
        manager: ModelManager,
        reference: str,
        name: str,
        request: GenerateRequest,
        place: ExitStack | None = None,
        route: GenerationRoute | None = None,
        *,
        watch: RequestWatch,
    ) -> None:
        self.id = request.id
        self.model = name
        self.state: GenerationState = "running"
        self.finished: FinishedEvent | None = None
        self.error: ErrorDetail | None = None
        self.ended_at: float | None = None
        self._text: list[str] = []
        self._reasoning_text: list[str] = []
        self._calls: list[tuple[ToolCallEvent, list[str]]] = []
        self.log = GenerationLog()
        self._encoder = msgspec.json.Encoder()
        self._loaded = -1.0
        self._prefilled = 0
        self._started: StartedEvent | None = None
        self._tokens = 0
        self._started_at: float | None = None
        self._first_at: float | None = None
        self._cancelled = False
        self._is_attached = False
        self._followers = 0
        self._unfollowed: asyncio.TimerHandle | None = None
        self._abandoning: asyncio.Task[None] | None = None
        self._route = route
        self._watch = watch
        self.task = asyncio.create_task(self._run(manager, reference, request, place))
        if place is not None:  # a task cancelled before its first step would not release it
            self.task.add_done_callback(lambda _: place.close())

    def status(self) -> GenerationStatus:
        """Return the present state."""
        return GenerationStatus(
            id=self.id,
            model=self.model,
            state=self.state,
            text="".join(self._text),
            reasoning="".join(self._reasoning_text),
            tool_calls=[
                ToolCall(call.id, call.name, "".join(arguments)) for call, arguments in self._calls
            ],
            events=len(self.log),
            finished=self.finished,
            error=self.error,
        )

    @property
    def size(self) -> int:
        """Its memory in bytes, as far as that grows with its answer."""
        texts = 0 if self.state == "running" else len(self._text[0]) + len(self._reasoning_text[0])
        return self.log.size + texts

    def attach(self) -> None:
        """Cancel it once no client has followed it for `UNFOLLOWED_SECONDS`."""
        self._is_attached = True
        self._expect_follower()

    @contextmanager
    def followed(self) -> Generator[None]:
        """Count the caller as a client that follows it."""
        self._followers += 1
        if self._unfollowed is not None:
            self._unfollowed.cancel()
        try:
            yield
        finally:
            self._followers -= 1
            self._expect_follower()

    def _expect_follower(self) -> None:
        if self._is_attached and not self._followers and self.state == "running":
            loop = asyncio.get_running_loop()
            self._unfollowed = loop.call_later(UNFOLLOWED_SECONDS, self._abandon)

    def _abandon(self) -> None:
        self._abandoning = asyncio.create_task(self.cancel())

    async def cancel(self) -> None:
        """Stop it between two tokens; does nothing if it has ended."""
        if self.state == "running":
            self._cancelled = True
            self.task.cancel()
            await asyncio.wait({self.task})
            # A task cancelled before its first step never runs its handler.
            self._finish(self._cancelled_event())

    async def _run(
        self,
        manager: ModelManager,
        reference: str,
        request: GenerateRequest,
        place: ExitStack | None,
    ) -> None:
        try:

            def open_local(name: str) -> AbstractAsyncContextManager[Lease]:
                return manager.lease(
                    name,
                    priority=request.priority,
                    slot=place,
                    on_progress=self._loading,
                    sees=shows_pictures(request),
                )

            leasing = self._route.open(open_local) if self._route else open_local(reference)
            async with leasing as lease:
                await self._watch.run(lease, request, partial(self._take, lease))
        except asyncio.CancelledError:
            if not self._cancelled:  # the daemon is shutting down
                raise
            self._finish(self._cancelled_event())
        except Exception as error:
            self._fail(error)

    def _take(self, lease: Lease, events: list[Event]) -> None:
        for event in events:
            if self.state != "running":
                return  # it was cancelled: its log is packed and complete
            match event:
                case PromptAdvanced():
                    self._prefill(event)
                case Started():
                    self._log_route()
                    context = lease.context
                    self._started_at, self._prefilled = time.monotonic(), 0
                    self._started = StartedEvent(event.prompt_tokens, event.cached_tokens, context)
                    self._append("started", self._started)
                case Delta() | ReasoningDelta() | ToolCallStarted() | ToolCallDelta():
                    self._first_at = self._first_at or time.monotonic()
                    self._tokens += len(event.token_ids)
                    self._take_piece(event, len(event.token_ids))
                case Finished():
                    self._finish(self._finished_event(event))

    def _log_route(self) -> None:
        """Append the route to the log; it can change until the first event."""
        if self._route is not None and self._route.note.taken is not None:
            self._append("route", self._route.note.taken)
            self._route = None

    def _take_piece(
        self, event: Delta | ReasoningDelta | ToolCallStarted | ToolCallDelta, tokens: int
    ) -> None:
        match event:
            case Delta():
                self._text.append(event.text)
                self._append("delta", DeltaEvent(event.text, tokens))
            case ReasoningDelta():
                self._reasoning_text.append(event.text)
                self._append("reasoning", DeltaEvent(event.text, tokens))
            case ToolCallStarted():
                call = ToolCallEvent(event.call, event.call_id, event.name, tokens)
                self._calls.append((call, []))
                self._append("tool_call", call)
            case ToolCallDelta():
                self._calls[event.call][1].append(event.arguments)
                piece = ArgumentsEvent(event.call, event.arguments, tokens)
                self._append("arguments", piece)

    def _loading(self, fraction: float) -> None:
        # A worker may report every tensor; a hundred steps are enough for a progress bar.
        if self.state != "running":
            return
        if fraction - self._loaded >= 0.01 or (fraction == 1.0 and self._loaded < 1.0):
            self._loaded = fraction
            self._append("loading", LoadingEvent(self.model, fraction))

    def _prefill(self, event: PromptAdvanced) -> None:
        """Append the progress of a prompt that takes several steps, in hundredths."""
        total, computed = event.prompt_tokens, event.computed_tokens
        if computed < total and computed - self._prefilled >= total / 100:
            self._prefilled = computed
            self._append("prefill", PrefillEvent(total, computed))

    def _finished_event(self, event: Finished) -> FinishedEvent:
        started = self._started or StartedEvent(0, 0, 0)
        return FinishedEvent(
            reason=event.reason.value,
            prompt_tokens=started.prompt_tokens + event.prompt_tokens,
            completion_tokens=event.completion_tokens,
            cached_tokens=started.cached_tokens + event.cached_tokens,
            context=started.context,
            queue_seconds=event.queue_seconds,
            prompt_seconds=event.prompt_seconds,
            decode_seconds=event.decode_seconds,
            drafted_tokens=event.drafted_tokens,
            accepted_tokens=event.accepted_tokens,
            reasoning_tokens=event.reasoning_tokens,
        )

    def _cancelled_event(self) -> FinishedEvent:
        """Return the last event of a cancelled generation, with times measured by the daemon."""
        started = self._started or StartedEvent(0, 0, 0)
        now = time.monotonic()
        began = self._started_at or now
        first = self._first_at or now
        return FinishedEvent(
            reason="cancelled",
            prompt_tokens=started.prompt_tokens,
            completion_tokens=self._tokens,
            cached_tokens=started.cached_tokens,
            context=started.context,
            prompt_seconds=first - began,
            decode_seconds=now - first,
        )

    def _finish(self, event: FinishedEvent) -> None:
        if self.state != "running":
            return
        self.finished = event
        self._end("finished", event)

    def _fail(self, error: Exception) -> None:
        if self.state != "running":
            return
        self._log_route()
        self.error = describe(error).native().error
        self._end("error", ErrorEvent(self.error))

    def _end(self, name: Literal["finished", "error"], event: FinishedEvent | ErrorEvent) -> None:
        self.state = "finished" if name == "finished" else "failed"
        self.ended_at = time.monotonic()
        self._append(name, event)
        self.log.pack()
        self._text, self._reasoning_text = ["".join(self._text)], ["".join(self._reasoning_text)]

    def _append(self, name: str, event: msgspec.Struct) -> None:
        self.log.append(name, self._encoder.encode(event))
