"""A `Lease` for routed requests, local or remote."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from msgspec import structs

from ingle.backends.base.errors import BackendError
from ingle.backends.base.events import (
    Delta,
    Embedded,
    Event,
    EventSink,
    Reranked,
    Tokenized,
)
from ingle.backends.base.model_info import ModelInfo
from ingle.backends.base.requests import (
    EmbedRequest,
    GenerateRequest,
    RerankRequest,
    TokenizeRequest,
)
from ingle.backends.remote.providers import Provider
from ingle.models.metadata.stored_model import StoredModel

from ..client.generation_types import RouteTaken
from ..errors import RequestError
from ..lifecycle.lease import Lease
from .held_events import FirstEvents, HeldBeginning
from .policy.policy import Verdict
from .policy.routing_plan import RoutingPlan, refused
from .route_header import RouteRecord
from .router import OutboundRequest, Router

log = logging.getLogger("ingle.daemon")

OpenLocal = Callable[[str], AbstractAsyncContextManager[Lease]]
Resample = Callable[[GenerateRequest, Mapping[str, float]], GenerateRequest]
"""Overrides the sampling defaults of another model with a request's own values."""

REMOTE = "remote"
"""Value of `engine` for a remote model."""

_KEPT_ANSWER = 2**18
"""Longest answer, in characters, that is kept for tainting."""


@asynccontextmanager
async def open_route(
    router: Router,
    plan: RoutingPlan,
    record: RouteRecord,
    *,
    open_local: OpenLocal,
    resample: Resample,
) -> AsyncGenerator[Lease]:
    """Yield a lease for the requests of a plan; `record` always has the current route.

    Raises what `open_local` raises; errors of a provider are raised by the lease's backend.
    """
    record.taken = local_route(plan.rule, plan.reason, plan.target.local)
    if plan.verdict is Verdict.LOCAL:
        async with open_local(plan.target.local) as lease:
            record.taken = local_route(plan.rule, plan.reason, lease.model.name)
            if plan.escalates or plan.taints is not None:
                backend = RoutedBackend(router, plan, record, lease, open_local, resample)
                lease = Lease(lease.model, backend, lease.info)
                backend.lease = lease
            yield lease
        return
    provider = router.provider(plan)
    model = remote_model(plan.target.provider, plan.target.model, provider.context)
    backend = RoutedBackend(router, plan, record, None, open_local, resample)
    lease = Lease(model, backend, _info(provider, plan.target.model))
    backend.lease = lease
    record.taken = _remote_route(plan, ())
    yield lease


def local_route(rule: str, reason: str, model: str) -> RouteTaken:
    """Return the route of an answer from this machine."""
    return RouteTaken(verdict=Verdict.LOCAL, rule=rule, reason=reason, provider="", model=model)


def remote_model(provider: str, model: str, context: int) -> StoredModel:
    """Return a stand-in `StoredModel` for a provider's model."""
    return StoredModel(
        name=f"{provider}/{model}",
        path=Path(),
        size=0,
        sha256=None,
        licence="",
        description="",
        parameters=0,
        quantization="",
        architecture="",
        context=context,
        chat=True,
        sampling={},
        source=provider,
    )


def _info(provider: Provider, model: str) -> ModelInfo:
    # Its HTTP client is imported only if it is used.
    from ingle.backends.remote.remote_backend import remote_info

    return remote_info(provider, model)


def _remote_route(plan: RoutingPlan, redacted: tuple[str, ...]) -> RouteTaken:
    assert plan.outbound_verdict is not None
    return RouteTaken(
        verdict=plan.outbound_verdict,
        rule=plan.rule,
        reason=plan.reason,
        provider=plan.target.provider,
        model=plan.target.model,
        redacted=redacted,
    )


class RoutedBackend:
    """Answers the requests of one plan: locally, remotely, or locally after a remote failure.

    Outgoing requests are inspected once more, and only inspected ones are sent. No failure makes
    anything leave that was to stay.
    """

    def __init__(
        self,
        router: Router,
        plan: RoutingPlan,
        record: RouteRecord,
        local: Lease | None,
        open_local: OpenLocal,
        resample: Resample,
    ) -> None:
        """`local` is the lease of the local model, if the answer begins there."""
        self._router = router
        self._plan = plan
        self._record = record
        self._local = local
        self._open_local = open_local
        self._resample = resample
        self.lease: Lease | None = None
        """The lease that protocols hold; updated with the model that finally answers."""

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        """See `RequestBackend.run`; raises `RemoteError` if the provider was chosen by name."""
        if self._plan.escalates:
            await self._judge(request, sink)
        elif self._plan.outbound_verdict is not None:
            await self._answer_remotely(request, sink)
        else:
            await self._answer_locally(request, sink)

    async def embed(self, request: EmbedRequest) -> Embedded:
        """Always local."""
        async with self._lease_here() as lease:
            return await lease.backend.embed(request)

    async def rerank(self, request: RerankRequest) -> Reranked:
        """Always local."""
        async with self._lease_here() as lease:
            return await lease.backend.rerank(request)

    async def tokenize(self, request: TokenizeRequest) -> Tokenized:
        """Always local: a provider would have to receive the text."""
        async with self._lease_here() as lease:
            return await lease.backend.tokenize(request)

    def _lease_here(self) -> AbstractAsyncContextManager[Lease]:
        if self._local is not None:
            return nullcontext(self._local)
        return self._open_local(self._plan.target.local)

    async def _answer_locally(self, request: GenerateRequest, sink: EventSink) -> None:
        """Answer on the leased local model, and taint the answer if required."""
        assert self._local is not None
        if self._plan.taints is None:
            await self._local.backend.run(request, sink)
            return
        pieces: list[str] = []
        length = 0

        def take(events: list[Event]) -> None:
            nonlocal length
            for event in events:
                if isinstance(event, Delta) and length < _KEPT_ANSWER:
                    pieces.append(event.text)
                    length += len(event.text)
            sink(events)

        try:
            await self._local.backend.run(request, take)
        finally:
            await self._router.taint_answer(self._plan, request, "".join(pieces))

    async def _fall_back(self, request: GenerateRequest, sink: EventSink, why: str) -> None:
        """Answer locally after the provider failed, and record the reason."""
        assert self.lease is not None
        async with self._lease_here() as lease:
            reason = f"{why} So it is answered here."
            self._record.taken = local_route("fallback", reason, lease.model.name)
            self.lease.model, self.lease.info = lease.model, lease.info
            if lease is not self._local:
                request = self._resample(request, lease.model.sampling)
            await lease.backend.run(request, sink)

    async def _answer_remotely(self, request: GenerateRequest, sink: EventSink) -> None:
        plan = self._plan
        outbound = await self._router.outbound(plan, request)
        if outbound is None:
            if plan.target.named:
                raise refused(plan.target.remote, plan)
            why = "The request could not be redacted for sending."
            await self._fall_back(request, sink, why)
            return
        first = FirstEvents(outbound, sink, self._record_remote_route)
        try:
            await self._router.send(outbound, first.take)
            first.end()
        except Exception as error:
            if first.begun or plan.target.named:
                raise
            if isinstance(error, BackendError | RequestError):
                reason = error.message
            else:
                log.exception("A request to a provider failed unexpectedly")
                reason = "an unexpected error occurred."
            await self._fall_back(
                request, sink, f"'{plan.target.provider}' did not answer: {reason}"
            )

    def _record_remote_route(self, outbound: OutboundRequest) -> None:
        """Record the route when the first event of a remote answer arrives."""
        target = self._plan.target
        self._record.taken = _remote_route(self._plan, outbound.clearance.redacted)
        provider = self._router.provider(self._plan)
        model = remote_model(target.provider, target.model, provider.context)
        assert self.lease is not None
        self.lease.model = model
        self.lease.info = _info(provider, target.model)

    async def _judge(self, request: GenerateRequest, sink: EventSink) -> None:
        """Hold back the start of the local answer, and escalate if it is too uncertain."""
        assert self._local is not None
        route = self._plan.target.route
        beginning = HeldBeginning(route.tokens, sink, wants_logprobs=request.logprobs is not None)
        watched = request
        if request.logprobs is None:
            watched = structs.replace(request, logprobs=0)
        running = asyncio.create_task(self._local.backend.run(watched, beginning.take))
        judging = asyncio.create_task(beginning.judged.wait())
        try:
            await asyncio.wait({running, judging}, return_when=asyncio.FIRST_COMPLETED)
            surprise = beginning.surprise.mean
            if surprise is None or surprise <= route.surprise:
                beginning.release()
                await running
                return
        finally:
            beginning.end()
            judging.cancel()
            if not running.done():
                running.cancel()
            await asyncio.wait({running})
        self._plan = _escalated(self._plan, surprise)
        await self._answer_remotely(request, sink)


def _escalated(plan: RoutingPlan, surprise: float) -> RoutingPlan:
    reason = (
        f"It may leave, and the local answer was uncertain: {surprise:.2f} nats per token, "
        f"more than {plan.target.route.surprise:g}."
    )
    return replace(plan, rule="uncertain", reason=reason, escalates=False)
