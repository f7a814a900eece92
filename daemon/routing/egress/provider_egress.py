"""The one way out: provider, key, budget and ledger brought together for one cleared request."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from ingle.backends.base.requests import GenerateRequest
from ingle.backends.remote.clearance import Clearance
from ingle.backends.remote.providers import Provider
from ingle.backends.remote.receipt import Outcome, Receipt, TokenUsage
from ingle.backends.remote.remote_backend import RemoteBackend
from ingle.backends.remote.remote_backend_factory import RemoteBackends

from ...settings.config import Config
from ..ledger.egress_ledger import BudgetReservation, Ledger
from ..ledger.ledger_entries import LedgerIntent
from ..providers.provider_errors import NoKey, ProviderError
from ..providers.provider_keys import ProviderKeys
from ..providers.provider_store import ProviderStore
from ..providers.token_prices import Price
from .egress_budget import check_budget, worst_case

log = logging.getLogger("ingle.daemon")


class ProviderEgress:
    """Makes remote backends that reserve, write down, send and settle; none where offline."""

    def __init__(self, config: Config) -> None:
        self.offline = config.offline
        self.store = ProviderStore(config.paths.config)
        self.keys = ProviderKeys(config.paths.state)
        self.ledger = Ledger(config.paths.ledger, config.paths.ledger_head)
        # Receipts are written one after the other, and off the loop, which must not wait for disks.
        self._settling = ThreadPoolExecutor(1, thread_name_prefix="ledger")

    def providers(self) -> list[Provider]:
        """All that the owner listed; raises `ProviderError` for a file that is wrong."""
        return self.store.providers()

    def find(self, name: str) -> Provider:
        """The provider of that name; raises `UnknownProvider`."""
        return self.store.find(name)

    def trouble(self, provider: Provider) -> str:
        """Why it cannot be asked now, in a sentence; "" where it can."""
        if self.offline:
            return "ingle is offline."
        try:
            self.store.prices(provider)
            if provider.needs_key and self.keys.place(provider.name) is None:
                return _no_key(provider).message
        except ProviderError as error:
            return error.message
        return ""

    async def backend(self, clearance: Clearance, request: GenerateRequest) -> RemoteBackend:
        """A backend for this request alone; budget and ledger act when it is run.

        Raises `RemoteForbidden` where offline, `NotCleared`, and `ProviderError`.
        """
        backends = RemoteBackends(offline=self.offline)
        provider = self.find(clearance.provider)
        if provider.models and clearance.model not in provider.models:
            raise ProviderError(
                f"'{provider.name}' has no model '{clearance.model}' in providers.toml.",
                hint=f"It lists {', '.join(provider.models)}.",
            )
        key = await asyncio.to_thread(self.keys.get, provider.name)
        if key is None and provider.needs_key:
            raise _no_key(provider)
        prices = self.store.prices(provider)
        price = prices.find(provider, clearance.model)
        departure = _Departure(self, provider, clearance, price)

        async def depart(size: int) -> None:
            await departure.begin(worst_case(provider, request, size, price, prices.currency))

        made = backends.make(
            provider, clearance.model, key, clearance, departure.settle, on_departure=depart
        )
        made.check(request)
        return made

    def settle(self, intent: LedgerIntent, receipt: Receipt, cost: float | None) -> None:
        """Have what came of it written down soon."""
        self._settling.submit(self._settle, intent, receipt, cost)

    def flush(self) -> None:
        """Wait until all receipts are written; blocks."""
        self._settling.submit(lambda: None).result()

    def _settle(self, intent: LedgerIntent, receipt: Receipt, cost: float | None) -> None:
        try:
            self.ledger.settle(intent, receipt, cost)
        except ProviderError as error:
            log.warning("A receipt is written later: %s", error.message)


class _Departure:
    """One request on its way, from the intent to the receipt."""

    def __init__(
        self, egress: ProviderEgress, provider: Provider, clearance: Clearance, price: Price | None
    ) -> None:
        self._egress = egress
        self._provider = provider
        self._clearance = clearance
        self._price = price
        self._intent: LedgerIntent | None = None

    async def begin(self, reserved: BudgetReservation) -> None:
        """Book it; who leaves meanwhile leaves a receipt that says that nothing was sent."""
        booking = asyncio.ensure_future(asyncio.to_thread(self._book, reserved))
        try:
            await asyncio.shield(booking)
        except asyncio.CancelledError:
            booking.add_done_callback(self._give_up)
            raise

    def _give_up(self, booking: asyncio.Future[None]) -> None:
        if not booking.cancelled() and booking.exception() is None:
            self.settle(
                Receipt(bytes_sent=0, bytes_received=0, seconds=0.0, outcome=Outcome.CANCELLED)
            )

    def _book(self, reserved: BudgetReservation) -> None:
        """Check the budget and write the intent, in one step; blocks."""
        ledger = self._egress.ledger
        with ledger.exclusive():
            check_budget(ledger, self._provider, reserved)
            self._intent = ledger.intend(self._clearance, reserved)

    def settle(self, receipt: Receipt) -> None:
        """Have the receipt written."""
        assert self._intent is not None, "nothing is received before it is booked"
        cost: float | None = None
        if receipt.bytes_sent == 0:
            cost = 0.0
        elif self._price is not None and (receipt.usage is not None or self._price.is_free):
            cost = self._price.of(receipt.usage or TokenUsage())
        self._egress.settle(self._intent, receipt, cost)


def _no_key(provider: Provider) -> NoKey:
    return NoKey(
        f"The provider '{provider.name}' has no key.",
        hint=f"`ingle provider key {provider.name}` asks for one.",
    )
