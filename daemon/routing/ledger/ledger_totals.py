"""Monthly totals of what left, by provider."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec.structs import asdict, replace

from ...client.routing_types import LedgerTotals, ProviderTotal
from .ledger_entries import LedgerEntry


def ledger_totals(month: str, entries: Iterable[LedgerEntry]) -> LedgerTotals:
    """Return the sums of these ledger entries."""
    whole = ProviderTotal(name="")
    each: dict[str, ProviderTotal] = {}
    currencies: set[str] = set()
    for entry in entries:
        name = entry.provider
        whole = _plus(whole, entry)
        each[name] = _plus(each.get(name, ProviderTotal(name=name)), entry)
        currencies.add(entry.currency)
    if len(currencies) > 1:
        whole = replace(whole, cost=None)  # money of two kinds has no sum
    sums = asdict(_priced(whole))
    del sums["name"]
    return LedgerTotals(
        month=month,
        currency=currencies.pop() if len(currencies) == 1 else "",
        providers=sorted(map(_priced, each.values()), key=lambda total: total.name),
        **sums,
    )


def _plus(total: ProviderTotal, entry: LedgerEntry) -> ProviderTotal:
    cost = total.cost if entry.cost is None else round((total.cost or 0.0) + entry.cost, 9)
    return ProviderTotal(
        name=total.name,
        requests=total.requests + 1,
        bytes_out=total.bytes_out + (entry.bytes_out or 0),
        bytes_in=total.bytes_in + (entry.bytes_in or 0),
        prompt_tokens=total.prompt_tokens + (entry.prompt_tokens or 0),
        completion_tokens=total.completion_tokens + (entry.completion_tokens or 0),
        cost=cost,
        unknown_costs=total.unknown_costs + (entry.cost is None),
        unknown_outcomes=total.unknown_outcomes + (entry.outcome == "unknown"),
    )


def _priced(total: ProviderTotal) -> ProviderTotal:
    """Return the total with the cost of a million tokens, unless a cost is not known."""
    tokens = total.prompt_tokens + total.completion_tokens
    if total.cost is None or total.unknown_costs or not tokens:
        return total
    return replace(total, per_million=round(total.cost / tokens * 1e6, 6))


def this_month() -> str:
    """Return the current month as the ledger names it, "2026-11"."""
    return datetime.now(UTC).strftime("%Y-%m")
