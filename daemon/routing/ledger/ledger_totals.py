"""Monthly totals of what left, by provider."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from .ledger_entries import LedgerEntry


class ProviderTotal(msgspec.Struct, kw_only=True):
    """Totals of one provider; `cost` is the known part, None if nothing is known."""

    name: str
    requests: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    unknown_costs: int = 0
    unknown_outcomes: int = 0

    def add(self, entry: LedgerEntry) -> None:
        """Add one entry."""
        self.requests += 1
        self.bytes_out += entry.bytes_out or 0
        self.bytes_in += entry.bytes_in or 0
        self.prompt_tokens += entry.prompt_tokens or 0
        self.completion_tokens += entry.completion_tokens or 0
        self.unknown_outcomes += entry.outcome == "unknown"
        if entry.cost is None:
            self.unknown_costs += 1
        else:
            self.cost = round((self.cost or 0.0) + entry.cost, 9)


class LedgerTotals(msgspec.Struct, kw_only=True):
    """Totals of one month (UTC), overall and per provider."""

    month: str
    requests: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    unknown_costs: int = 0
    unknown_outcomes: int = 0
    currency: str = ""
    providers: list[ProviderTotal] = []

    @classmethod
    def of(cls, month: str, entries: Iterable[LedgerEntry]) -> LedgerTotals:
        """Return the totals of these entries."""
        whole = ProviderTotal(name="")
        each: dict[str, ProviderTotal] = {}
        currencies: set[str] = set()
        for entry in entries:
            whole.add(entry)
            each.setdefault(entry.provider, ProviderTotal(name=entry.provider)).add(entry)
            currencies.add(entry.currency)
        sums = msgspec.structs.asdict(whole)
        del sums["name"]
        if len(currencies) > 1:
            sums["cost"] = None  # different currencies have no sum
        return cls(
            month=month,
            currency=currencies.pop() if len(currencies) == 1 else "",
            providers=sorted(each.values(), key=lambda total: total.name),
            **sums,
        )


def this_month() -> str:
    """Return the current month as the ledger names it, "2026-11"."""
    return datetime.now(UTC).strftime("%Y-%m")
