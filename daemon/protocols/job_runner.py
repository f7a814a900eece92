"""Runs checked jobs of all protocols: leases the model and passes its events on."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Protocol

from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.backend import LoadProgress
from ingle.backends.base.conversation import ChatMessage
from ingle.backends.base.errors import RequestRejected
from ingle.backends.base.events import Event
from ingle.backends.base.requests import GenerateRequest, TokenizeRequest

from ..access.permission import current_permission
from ..diet.diet_rules import diet_of
from ..diet.disclosure import Disclosure, disclose, may_disclose
from ..diet.own_rounds import run_rounds
from ..diet.slim_tools import prompt_characters, slim_tool
from ..http.bodies import JSONResponse, run_until_disconnect
from ..http.off_loop import off_loop
from ..http.sse_writer import EventStream, EventWriter, StreamStyle
from ..lifecycle.lease import Lease
from ..load_planning.load_options import LoadOptions
from ..routing.route_header import RouteRecord, current_route_record
from ..routing.routed_backend import REMOTE, OpenLocal, open_route
from ..services import Services
from ..warming.known_prefix import stable
from .job import AnswerBuilder, Job
from .request_options import resampled
from .services_api import ServicesApi

QUIET_LOADING = 0.25
"""Seconds of loading after which a stream begins; earlier failures still get their status.

They count from the admission to the queue, so a full queue always has its status.
"""

LOADING_PAUSE = 0.5
"""Seconds between two notices of the loading progress."""


class AnswerEncoder(Protocol):
    """Encodes the events of one job as one protocol's stream."""

    def feed(self, prompt: int, events: list[Event]) -> bytes:
        """The frames of the events of one prompt; may be empty."""
        ...

    def end(self) -> bytes:
        """The frames after the last event."""
        ...


class JobRunner:
    """Runs jobs for one client's request, and ends them when the client leaves."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def stream(
        self,
        job: Job,
        translate: Callable[[AnswerBuilder], AnswerEncoder],
        style: StreamStyle,
        before_end: Callable[[], Awaitable[None]] | None = None,
    ) -> Response:
        """A stream; `translate` gets an empty `AnswerBuilder` that only it fills.

        `before_end` is waited for before the translation's `end` is sent.
        """
        return EventStream(partial(self._produce, job, translate, style, before_end), style=style)

    async def whole(
        self, request: Request, job: Job, finish: Callable[[AnswerBuilder], object]
    ) -> Response:
        """The answer in one piece, as `finish` makes it."""
        answer = await run_until_disconnect(request.receive, self.collect(job))
        return JSONResponse(finish(answer))

    async def collect(self, job: Job) -> AnswerBuilder:
        """The answer itself."""
        async with self.lease(job, whole=True) as (lease, load_seconds):
            collected = AnswerBuilder(job, lease, load_seconds=load_seconds)
            await self.run(job, lease, collected.take)
        return collected

    async def count_tokens(self, job: Job) -> int:
        """The tokens of a chat's prompt for the local model; raises `RequestRejected`."""
        async with self.lease(job, routed=False) as (lease, _):
            job, _ = await self._on_diet(job, lease)
            asked = TokenizeRequest(id=job.id, generate=job.request)
            try:
                return len((await lease.backend.tokenize(asked)).token_ids)
            except RequestRejected as error:
                raise _renamed(error, job) from None

    @asynccontextmanager
    async def lease(
        self,
        job: Job,
        on_progress: LoadProgress | None = None,
        *,
        on_queued: Callable[[], None] = lambda: None,
        whole: bool = False,
        routed: bool = True,
    ) -> AsyncGenerator[tuple[Lease, float]]:
        """The lease of the job's model, and the seconds until it was granted.

        A route's name leads to the target that the policy chooses, or to its local model unless
        the job is `routed`. With `whole` the answer is sent in one piece; `on_queued` is called
        before the wait for a local model; see `ModelManager.lease`. Raises `RouteRefused`.
        """
        began = time.monotonic()

        def open_local(name: str) -> AbstractAsyncContextManager[Lease]:
            return self._services.manager.lease(
                name,
                priority=job.request.priority,
                answers=job.answers,
                options=LoadOptions(context=job.context),
                keep_alive=job.keep_alive,
                on_queued=on_queued,
                on_progress=on_progress,
                whole=whole,
                sees=job.has_pictures,
            )

        wanted = job.model or self._services.config.default_model
        name = self._services.routed_name(wanted)
        if routed and self._services.router.concerns(name, job.preference):
            leasing = self._routed(job, name, open_local)
        else:
            if job.request.private:
                await self._services.router.taint_private(job.requests({}))
            leasing = open_local(wanted)
        async with leasing as lease:
            yield lease, time.monotonic() - began

    @asynccontextmanager
    async def _routed(self, job: Job, name: str, open_local: OpenLocal) -> AsyncGenerator[Lease]:
        """The lease of a route; the record of the request says which model answers."""
        router = self._services.router
        plan = await router.plan(
            name, job.requests({}), preference=job.preference, opaque=job.opaque
        )
        note = current_route_record.get() or RouteRecord()
        async with open_route(
            router, plan, note, open_local=open_local, resample=partial(resampled, job.options)
        ) as lease:
            yield lease

    async def run(self, job: Job, lease: Lease, take: Callable[[int, list[Event]], None]) -> None:
        """Pass on the events of all the job's prompts, each with its prompt's number.

        The first failure ends all of them.
        """
        job = _with_system(job, lease)
        if self._services.config.stable_prompts and lease.info.engine != REMOTE:
            job = replace(job, request=stable(job.request))
        before = prompt_characters(job.request)
        job, own = await self._on_diet(job, lease)
        slimmed = max(0, before - prompt_characters(job.request))
        if job.fit is not None and lease.info.engine != REMOTE:
            job = await job.fit(job, lease)
        requests = job.requests(lease.model.sampling)
        if lease.info.engine != REMOTE:
            record = current_route_record.get() or RouteRecord()
            self._services.warmer.saw(lease.model, requests[0], record.agent)
            if job.slot >= 0:
                key = current_permission().key or ""
                self._services.slots.note(key, lease.model.name, job.slot, requests[0])
        watch = self._services.generations.watch
        try:
            async with asyncio.TaskGroup() as group:
                for prompt, request in enumerate(requests):
                    sink = partial(take, prompt)
                    run = partial(watch.run, lease, slimmed=slimmed)
                    group.create_task(run_rounds(run, request, sink, own))
        except ExceptionGroup as failures:
            error = failures.exceptions[0]
            raise _renamed(error, job) from None

    async def _on_diet(self, job: Job, lease: Lease) -> tuple[Job, Disclosure | None]:
        """The job as the diet of its model or key has it, and what is disclosed on demand."""
        names = (job.model, lease.model.name)
        diet = diet_of(self._services.config, names, current_permission().key)
        tools = job.request.tools
        if not tools or diet == "off" or lease.info.engine == REMOTE:
            return job, None

        def prepare() -> tuple[GenerateRequest, Disclosure | None]:
            request = structs.replace(job.request, tools=[slim_tool(tool) for tool in tools])
            if diet != "lazy" or not may_disclose(request):
                return request, None
            context = min(lease.context, request.max_context or lease.context)
            return disclose(request, context)

        request, own = await off_loop(prompt_characters(job.request), prepare)
        return replace(job, request=request), own

    async def _produce(
        self,
        job: Job,
        translate: Callable[[AnswerBuilder], AnswerEncoder],
        style: StreamStyle,
        before_end: Callable[[], Awaitable[None]] | None,
        out: EventWriter,
    ) -> None:
        notice = _LoadingNotice(out, style)
        try:
            async with self.lease(job, notice.progressed, on_queued=notice.begin) as (
                lease,
                load_seconds,
            ):
                notice.end()
                translation = translate(AnswerBuilder(job, lease, load_seconds=load_seconds))

                def take(prompt: int, events: list[Event]) -> None:
                    if frames := translation.feed(prompt, events):
                        out.write(frames)

                await self.run(job, lease, take)
        finally:
            notice.end()
        if before_end is not None:
            await before_end()
        out.write(translation.end())


class JobApi(ServicesApi):
    """Routes that run jobs."""

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._runner = JobRunner(services)


def _renamed(error: Exception, job: Job) -> Exception:
    """The error with the protocol's name for the conversation."""
    if isinstance(error, RequestRejected) and error.param == "messages":
        error.param = "prompt" if job.request.messages is None else job.messages_field
    return error


def _with_system(job: Job, lease: Lease) -> Job:
    """The job with its model's system prompt, if it has none of its own."""
    messages, system = job.request.messages, lease.model.system
    if system and messages and messages[0].role != "system":
        messages = [ChatMessage("system", system), *messages]
        job = replace(job, request=structs.replace(job.request, messages=messages))
    return job


class _LoadingNotice:
    """Sends the progress of loading to a stream, once it takes longer than a moment."""

    def __init__(self, out: EventWriter, style: StreamStyle) -> None:
        self._out = out
        self._style = style
        self._fraction = 0.0
        self._sent_at = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Start the timer, now that the job waits for a local model."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(QUIET_LOADING, self._send)

    def progressed(self, fraction: float) -> None:
        """Note how much is loaded, and send it at intervals."""
        self._fraction = fraction
        if time.monotonic() - self._sent_at >= LOADING_PAUSE:
            self._send()

    def end(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _send(self) -> None:
        self._sent_at = time.monotonic()
        self._out.write(self._style.loading(self._fraction))
