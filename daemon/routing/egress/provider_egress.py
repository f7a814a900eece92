"""Sends cleared requests to providers, with key, budget and ledger."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from msgspec import structs

from ingle.backends.base.requests import GenerateRequest
from ingle.backends.remote.clearance import Clearance
from ingle.backends.remote.errors import ProviderRefused, RemoteForbidden
from ingle.backends.remote.providers import Provider
from ingle.backends.remote.receipt import Outcome, Receipt, TokenUsage

from ...settings.config import Config
from ..ledger.egress_ledger import BudgetReservation, Ledger
from ..ledger.ledger_entries import LedgerIntent
from ..ledger.ledger_totals import this_month
from ..ledger.provider_history import ProviderHistory
from ..providers.provider_errors import BudgetExceeded, NoKey, ProviderError
from ..providers.provider_keys import ProviderKeys
from ..providers.provider_store import ProviderStore
from ..providers.token_prices import Price

if TYPE_CHECKING:
    from ingle.backends.remote.remote_backend import RemoteBackend
    from ingle.backends.remote.served_models import ServedModel

log = logging.getLogger("ingle.daemon")


class ProviderEgress:
    """Creates remote backends that reserve, record, send and settle; none if offline."""

    def __init__(self, config: Config) -> None:
        self.offline = config.offline
        self.store = ProviderStore(config.paths.config)
        self.keys = ProviderKeys(config.paths.state)
        self.ledger = Ledger(config.paths.ledger, config.paths.ledger_head)
        self.history = ProviderHistory(self.ledger)
        # One thread for receipts keeps them in order, and the event loop from waiting for disks.
        self._settling = ThreadPoolExecutor(1, thread_name_prefix="ledger")

    def providers(self) -> list[Provider]:
        """Return the providers, none if offline; raises `ProviderError` for an invalid file."""
        return [] if self.offline else self.store.providers()

    def trouble(self, provider: Provider) -> str:
        """Return why it cannot be used now, in a sentence; "" if it can."""
        if self.offline:
            return "ingle is offline."
        try:
            self.store.prices(provider)
            if provider.needs_key and self.keys.place(provider.name) is None:
                return _no_key(provider).message
        except ProviderError as error:
            return error.message
        return ""

    async def backend(
        self, clearance: Clearance, request: GenerateRequest, *, retried: bool = True
    ) -> RemoteBackend:
        """Return a backend for this request only; budget and ledger are used when it runs.

        Unless `retried`, it tries once, whatever the provider's `retries`.

        Raises `RemoteForbidden` if offline, `NotCleared`, and `ProviderError`.
        """
        from ingle.backends.remote.remote_backend_factory import RemoteBackends

        backends = RemoteBackends(offline=self.offline)
        provider = self.store.find(clearance.provider)
        if not retried:
            provider = structs.replace(provider, retries=0)
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
        outbound = OutboundCall(self, provider, clearance, price)

        async def depart(size: int) -> None:
            await outbound.begin(worst_case(provider, request, size, price, prices.currency))

        made = backends.make(
            provider, clearance.model, key, clearance, outbound.settle, before_send=depart
        )
        made.check(request)
        return made

    async def depart(self, sender: str, destination: str, rule: str) -> LedgerIntent:
        """Record a request that goes to no provider; nothing may leave if this fails.

        Raises `RemoteForbidden` if offline, and `LedgerUnwritable`.
        """
        if self.offline:
            raise RemoteForbidden(
                "The setting `offline` keeps everything on this machine.",
                hint="Set `offline = false` in config.toml, and restart the daemon.",
            )
        clearance = Clearance(
            digest="", provider=sender, model=destination, verdict="ask", rule=rule
        )
        nothing = BudgetReservation(tokens=0, cost=0.0, currency=self.store.currency())
        return await asyncio.to_thread(self.ledger.intend, clearance, nothing)

    async def served_models(self, provider: Provider) -> list[ServedModel]:
        """Ask the provider for its models, which the ledger records like any request.

        Raises `RemoteForbidden` if offline, `RemoteError` and `ProviderError`.
        """
        from ingle.backends.remote.metered_connection import Meter
        from ingle.backends.remote.remote_backend_factory import RemoteBackends

        backends = RemoteBackends(offline=self.offline)
        key = await asyncio.to_thread(self.keys.get, provider.name)
        clearance = Clearance(
            digest="", provider=provider.name, model="", verdict="cloud", rule="the list of models"
        )
        call = OutboundCall(self, provider, clearance, Price(input=0.0, output=0.0))
        await call.begin(BudgetReservation(tokens=0, cost=0.0, currency=self.store.currency()))
        meter, began, outcome, status = Meter(), time.monotonic(), Outcome.FAILED, 0
        try:
            found = await backends.served_models(provider, key, meter)
            outcome, status = Outcome.COMPLETE, 200
            return found
        except ProviderRefused as error:
            outcome, status = Outcome.REFUSED, error.status
            raise
        finally:
            call.settle(
                Receipt(
                    bytes_sent=meter.sent,
                    bytes_received=meter.received,
                    seconds=time.monotonic() - began,
                    outcome=outcome,
                    status=status,
                    attempts=1,
                    digests=(meter.digest.hexdigest(),) if meter.sent else (),
                )
            )

    def settle(self, intent: LedgerIntent, receipt: Receipt, cost: float | None) -> None:
        """Record the outcome in the background."""
        self._settling.submit(self._settle, intent, receipt, cost)

    def flush(self) -> None:
        """Wait until all receipts are written; blocks."""
        self._settling.submit(lambda: None).result()

    def _settle(self, intent: LedgerIntent, receipt: Receipt, cost: float | None) -> None:
        try:
            self.ledger.settle(intent, receipt, cost)
        except ProviderError as error:
            log.warning("A receipt will be written later: %s", error.message)


class OutboundCall:
    """One outgoing request, from the intent to the receipt."""

    def __init__(
        self, egress: ProviderEgress, provider: Provider, clearance: Clearance, price: Price | None
    ) -> None:
        self._egress = egress
        self._provider = provider
        self._clearance = clearance
        self._price = price
        self._intent: LedgerIntent | None = None

    async def begin(self, reserved: BudgetReservation) -> None:
        """Reserve and record it; if cancelled meanwhile, a receipt records that nothing was
        sent.
        """
        booking = asyncio.ensure_future(asyncio.to_thread(self._reserve, reserved))
        try:
            await asyncio.shield(booking)
        except asyncio.CancelledError:
            booking.add_done_callback(self._abandon)
            raise

    def _abandon(self, booking: asyncio.Future[None]) -> None:
        if not booking.cancelled() and booking.exception() is None:
            self.settle(
                Receipt(bytes_sent=0, bytes_received=0, seconds=0.0, outcome=Outcome.CANCELLED)
            )

    def _reserve(self, reserved: BudgetReservation) -> None:
        """Check the budget and write the intent atomically; blocks."""
        ledger = self._egress.ledger
        with ledger.exclusive():
            check_budget(ledger, self._provider, reserved)
            self._intent = ledger.intend(self._clearance, reserved)

    def settle(self, receipt: Receipt) -> None:
        """Record the receipt in the background."""
        assert self._intent is not None, "nothing is received before it is recorded"
        cost: float | None = None
        if receipt.bytes_sent == 0:
            cost = 0.0
        elif self._price is not None and (receipt.usage is not None or self._price.is_free):
            cost = self._price.of(receipt.usage or TokenUsage())
        self._egress.settle(self._intent, receipt, cost)


def _no_key(provider: Provider) -> NoKey:
    return NoKey(
        f"The provider '{provider.name}' has no key.",
        hint=f"Set one with `ingle provider key {provider.name}`.",
    )


def worst_case(
    provider: Provider, request: GenerateRequest, size: int, price: Price | None, currency: str
) -> BudgetReservation:
    """Return the upper limit of the request: a token is at least one of the `size` bytes sent."""
    answer = request.max_tokens or provider.max_tokens
    usage = TokenUsage(prompt=size, completion=request.n * answer)
    cost = price.of(usage) if price is not None else None
    return BudgetReservation(tokens=usage.prompt + usage.completion, cost=cost, currency=currency)


def check_budget(ledger: Ledger, provider: Provider, wanted: BudgetReservation) -> None:
    """Raise `BudgetExceeded` if this month's budget may not cover what is wanted.

    Reads the month in the ledger, in which unfinished requests count with their upper limit. The
    caller holds the ledger's lock until the intent is written.
    """
    if provider.budget_money is None and provider.budget_tokens is None:
        return
    name, month = provider.name, this_month()
    entries = [entry for entry in ledger.entries(month) if entry.provider == name]
    if provider.budget_tokens is not None:
        spent = sum(entry.tokens_at_most for entry in entries)
        if spent + wanted.tokens > provider.budget_tokens:
            raise _exceeded(
                name,
                f"{provider.budget_tokens:,} tokens",
                f"{spent:,} are spent or reserved",
                f"{wanted.tokens:,} more",
            )
    if provider.budget_money is not None:
        unknown = any(entry.cost_at_most is None for entry in entries)
        if wanted.cost is None or unknown:
            raise BudgetExceeded(
                f"The price of a model of '{name}' is unknown, so its budget in money "
                "cannot be kept.",
                hint="Write the price into prices.toml, or set budget_tokens instead.",
            )
        money = sum(entry.cost_at_most or 0.0 for entry in entries)
        if money + wanted.cost > provider.budget_money:
            currency = wanted.currency
            raise _exceeded(
                name,
                f"{provider.budget_money:g} {currency}",
                f"{money:.4f} {currency} are spent or reserved",
                f"{wanted.cost:.4f} {currency} more",
            )


def _exceeded(name: str, budget: str, spent: str, wanted: str) -> BudgetExceeded:
    return BudgetExceeded(
        f"This month's budget of '{name}' is {budget}: {spent}, and this request could take "
        f"{wanted}.",
        hint="Raise the budget in providers.toml, or ask for a shorter answer (max_tokens).",
    )
