"""Monthly budgets: the upper limit of a request is reserved before it leaves."""

from __future__ import annotations

from ingle.backends.base.requests import GenerateRequest
from ingle.backends.remote.providers import Provider
from ingle.backends.remote.receipt import TokenUsage

from ..ledger.egress_ledger import BudgetReservation, Ledger
from ..ledger.ledger_totals import this_month
from ..providers.provider_errors import BudgetExceeded
from ..providers.token_prices import Price


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
