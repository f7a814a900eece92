"""`POST /ingle/v1/ledger`: records what a tool host sends. No route here can run anything."""

from __future__ import annotations

from starlette.requests import Request

from ingle.backends.remote.receipt import Outcome, Receipt

from ...client.routing_types import RecordedDeparture
from ...errors import NotFound
from ...http.route_access import ADMIN
from ...routing.ledger.ledger_entries import LedgerIntent
from ...services import Services
from ..services_api import ServicesApi
from .native_api import native_route
from .types import ToolDeparture, ToolReceipt

_MOST_OPEN = 1_000


class ToolEgressApi(ServicesApi):
    """Entries of the ledger for requests that tools send with the user's consent."""

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._open: dict[str, LedgerIntent] = {}

    @native_route("POST", "/ingle/v1/ledger", access=ADMIN, errors=(403, 413, 422))
    async def depart(self, body: ToolDeparture) -> RecordedDeparture:
        """Record that a tool is about to send something; nothing may leave if this fails."""
        intent = await self._services.egress.depart(
            f"tool:{body.tool}", body.destination, "consent to a tool's call"
        )
        if len(self._open) >= _MOST_OPEN:
            self._open.pop(next(iter(self._open)))
        self._open[str(intent.seq)] = intent
        return RecordedDeparture(entry=intent.seq)

    @native_route("POST", "/ingle/v1/ledger/{entry}", access=ADMIN, errors=(404, 413, 422))
    async def settle(self, request: Request, body: ToolReceipt) -> RecordedDeparture:
        """Record the outcome of such a request."""
        intent = self._open.pop(request.path_params["entry"], None)
        if intent is None:
            raise NotFound("No open entry of a tool has this number.", param="entry")
        receipt = Receipt(
            bytes_sent=body.bytes_out,
            bytes_received=body.bytes_in,
            seconds=body.seconds,
            outcome=Outcome(body.outcome),
            attempts=1,
        )
        self._services.egress.settle(intent, receipt, 0.0)
        return RecordedDeparture(entry=intent.seq)
