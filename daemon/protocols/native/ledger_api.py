"""`GET /ingle/v1/ledger`: what left this machine, its sums, and whether the record is whole."""

from __future__ import annotations

import asyncio
import re

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ...errors import InvalidBody
from ...http.error_format import NATIVE
from ...http.json_response import JSONResponse
from ...http.route_access import READ
from ...http.route_spec import Parameter, route
from ...routing.ledger.ledger_entries import LedgerEntry
from ...routing.ledger.ledger_totals import LedgerTotals, ledger_totals, this_month
from ...routing.ledger.ledger_verification import LedgerCheck, verify
from ...services import Services

MOST_ENTRIES = 10_000
MONTH = Parameter("month", "query", str, 'A month (UTC), such as "2026-11".')
_MONTH = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])")


class LedgerEntries(msgspec.Struct, frozen=True):
    """Departures, the oldest first; `left_out` older ones are not among them."""

    entries: list[LedgerEntry]
    left_out: int


class LedgerApi:
    """The routes about what left."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @route(
        "GET",
        "/ingle/v1/ledger",
        access=READ,
        error_format=NATIVE,
        parameters=(MONTH,),
        response=LedgerEntries,
        errors=(400,),
    )
    async def entries(self, request: Request) -> Response:
        """What left this machine, without its content."""
        month = _month(request)
        found = await asyncio.to_thread(self._entries, month)
        kept = found[-MOST_ENTRIES:]
        return JSONResponse(LedgerEntries(kept, len(found) - len(kept)))

    @route(
        "GET",
        "/ingle/v1/ledger/totals",
        access=READ,
        error_format=NATIVE,
        parameters=(MONTH,),
        response=LedgerTotals,
        errors=(400,),
    )
    async def totals(self, request: Request) -> Response:
        """Requests, bytes, tokens and cost of one month, by provider."""
        month = _month(request) or this_month()
        return JSONResponse(ledger_totals(month, await asyncio.to_thread(self._entries, month)))

    @route("GET", "/ingle/v1/ledger/verify", access=READ, error_format=NATIVE, response=LedgerCheck)
    async def verify(self, request: Request) -> Response:
        """Whether the ledger is what was written, as far as a chain can tell."""
        return JSONResponse(await asyncio.to_thread(self._verify))

    def _entries(self, month: str | None) -> list[LedgerEntry]:
        egress = self._services.egress
        egress.flush()
        return egress.ledger.entries(month)

    def _verify(self) -> LedgerCheck:
        egress = self._services.egress
        egress.flush()
        return verify(egress.ledger)


def _month(request: Request) -> str | None:
    month = request.query_params.get("month")
    if month is not None and not _MONTH.fullmatch(month):
        raise InvalidBody("'month' is not a month.", hint='Write it as "2026-11".', param="month")
    return month
