"""Routing policy and egress ledger under `/ingle/v1/`: what may leave this machine, what did."""

from __future__ import annotations

import asyncio
import re
from functools import partial

import msgspec
from starlette.requests import Request

from ingle.backends.base.conversation import ChatMessage
from ingle.backends.base.requests import GenerateRequest

from ...client.routing_types import (
    Explanation,
    LedgerTotals,
    RoutingProvider,
    RoutingRoute,
    RoutingState,
)
from ...errors import Conflict, InvalidBody
from ...generations.generation_registry import new_generation_id
from ...http.bodies import translate
from ...http.route_access import ADMIN, INFERENCE, READ
from ...http.route_spec import Parameter
from ...routing.ledger.egress_ledger import Ledger
from ...routing.ledger.ledger_entries import LedgerEntry
from ...routing.ledger.ledger_totals import ledger_totals, this_month
from ...routing.ledger.ledger_verification import LedgerCheck, verify
from ...routing.policy.mask_edits import MaskEdits
from ...routing.policy.policy import Policy
from ...routing.policy.policy_file import PolicyError
from ...routing.routing_explanation import explain
from ..ingle_options import PRIVATE_HEADER, origin_of, routing_preference_of
from ..services_api import ServicesApi
from .native_api import native_route
from .requests import generation_request
from .types import ExplainRequest, WordsRequest

MOST_ENTRIES = 10_000
MONTH = Parameter("month", "query", str, 'A month (UTC), such as "2026-11".')
_MONTH = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])")


class LedgerEntries(msgspec.Struct, frozen=True):
    """Entries of outbound requests, oldest first; `left_out` even older ones are omitted."""

    entries: list[LedgerEntry]
    left_out: int


class RoutingApi(ServicesApi):
    """Routes about routing, and about the record of outbound requests."""

    @native_route("GET", "/ingle/v1/routing", access=READ)
    async def state(self) -> RoutingState:
        """What may leave this machine: the policy, the routes and the providers."""
        router, config = self._services.router, self._services.config
        trouble = ""
        try:
            policy = router.policy.current()
        except PolicyError as error:
            policy, trouble = Policy(), error.message
        providers = [
            RoutingProvider(
                name=provider.name,
                kind=provider.kind,
                own=provider.own,
                models=list(provider.models),
                ready=not (why := router.egress.trouble(provider)),
                trouble=why,
            )
            for provider in router.providers()
        ]
        routes = [
            RoutingRoute(
                name=route.name,
                local=self._services.canonical(target.local),
                remote="" if trouble else target.remote,
                prefer=route.prefer,
                escalate=list(route.escalate),
                redact=route.redact,
                description=route.description,
            )
            for route in policy.routes.values()
            for target in [router.target(route.name)]
        ]
        return RoutingState(
            offline=config.offline,
            enabled=not trouble and any(provider.ready for provider in providers),
            policy=str(router.policy.path),
            policy_exists=router.policy.path.exists(),
            policy_trouble=trouble,
            providers=providers,
            routes=routes,
            classes={kind: cls.value for kind, cls in policy.classes.items()},
        )

    @native_route(
        "POST",
        "/ingle/v1/routing/explain",
        access=INFERENCE,
        parameters=(PRIVATE_HEADER,),
        errors=(409, 413, 422),
    )
    async def explain(self, request: Request, body: ExplainRequest) -> Explanation:
        """What is sensitive in a text or a generation, and where it would be answered."""
        asked = await translate(request, partial(_asked, body, request))
        try:
            self._services.router.policy.current()
        except PolicyError as error:
            raise Conflict(error.message, hint=error.hint, code="policy_is_wrong") from error
        name = self._services.routed_name(body.model or "auto")
        return await explain(
            self._services.router,
            name,
            asked,
            preference=routing_preference_of(body.ingle or body),
            override=body.override is not None,
            edits=_edits(body),
        )

    @native_route("POST", "/ingle/v1/routing/words", access=ADMIN, errors=(409, 413, 422))
    async def teach(self, body: WordsRequest) -> RoutingState:
        """Add words of the owner, which keep a text here, or public words, to the policy."""
        from ...routing.policy.taught_words import teach

        path = self._services.router.policy.path
        try:
            await asyncio.to_thread(teach, path, words=body.words, public=body.public)
        except PolicyError as error:
            raise Conflict(error.message, hint=error.hint, code="policy_is_wrong") from error
        return await self.state()

    @native_route("GET", "/ingle/v1/ledger", access=READ, parameters=(MONTH,), errors=(400,))
    async def entries(self, request: Request) -> LedgerEntries:
        """What left this machine, without the content."""
        month = _month(request)
        found = await asyncio.to_thread(self._entries, month)
        kept = found[-MOST_ENTRIES:]
        return LedgerEntries(kept, len(found) - len(kept))

    @native_route("GET", "/ingle/v1/ledger/totals", access=READ, parameters=(MONTH,), errors=(400,))
    async def totals(self, request: Request) -> LedgerTotals:
        """Requests, bytes, tokens and cost of one month, by provider, and costs of answers here."""
        month = _month(request) or this_month()
        totals = ledger_totals(month, await asyncio.to_thread(self._entries, month))
        local = await asyncio.to_thread(self._services.local_costs)
        return msgspec.structs.replace(totals, local=local)

    @native_route("GET", "/ingle/v1/ledger/verify", access=READ)
    async def verify_ledger(self) -> LedgerCheck:
        """Whether the ledger is unchanged, as far as its hash chain can show."""
        return await asyncio.to_thread(lambda: verify(self._ledger()))

    def _entries(self, month: str | None) -> list[LedgerEntry]:
        return self._ledger().entries(month)

    def _ledger(self) -> Ledger:
        """Return the ledger with all entries on disk; blocks."""
        egress = self._services.egress
        egress.flush()
        return egress.ledger


def _month(request: Request) -> str | None:
    month = request.query_params.get("month")
    if month is not None and not _MONTH.fullmatch(month):
        raise InvalidBody("'month' is not a month.", hint='Write it as "2026-11".', param="month")
    return month


def _edits(body: ExplainRequest) -> MaskEdits | None:
    if body.hide is None and body.show is None:
        return None
    return MaskEdits(body.hide or (), body.show or ())


def _asked(body: ExplainRequest, request: Request) -> GenerateRequest:
    """Return the request to explain; raises `InvalidBody`."""
    origin = origin_of(request, body.ingle or body)
    if body.text is None:
        return generation_request(body, origin)
    if body.messages is not None or body.prompt is not None:
        raise InvalidBody("Either 'text' or the body of a generation is explained.", param="text")
    return GenerateRequest(
        id=new_generation_id(),
        messages=[ChatMessage("user", body.text)],
        conversation=origin.conversation,
        private=origin.private,
    )
