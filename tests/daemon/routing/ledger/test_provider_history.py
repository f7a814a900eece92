"""Speed and cost of providers' answers, from the ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingle.backends.remote.clearance import Clearance
from ingle.backends.remote.receipt import Outcome, Receipt, TokenUsage
from ingle.daemon.client.routing_types import AnswerCost
from ingle.daemon.routing.ledger.egress_ledger import BudgetReservation, Ledger
from ingle.daemon.routing.ledger.provider_history import KEPT, ProviderHistory


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger", tmp_path / "head.json")


def record(
    ledger: Ledger,
    seconds: float,
    usage: TokenUsage | None,
    *,
    outcome: Outcome = Outcome.COMPLETE,
    cost: float | None = 0.01,
) -> None:
    clearance = Clearance(digest="0", provider="groq", model="m", verdict="cloud", rule="r")
    intent = ledger.intend(clearance, BudgetReservation(tokens=9, cost=None, currency="USD"))
    receipt = Receipt(
        bytes_sent=1,
        bytes_received=1,
        seconds=seconds,
        first_seconds=0.5,
        outcome=outcome,
        usage=usage,
    )
    ledger.settle(intent, receipt, cost)


def test_speed_and_cost_continue_after_a_restart(ledger: Ledger) -> None:
    history = ProviderHistory(ledger)
    assert history.seconds("groq/m", 100) is None
    record(ledger, 2.5, TokenUsage(prompt=60, completion=20))
    record(ledger, 99.0, TokenUsage(prompt=1, completion=1), outcome=Outcome.CANCELLED)
    restarted = ProviderHistory(Ledger(ledger.folder, ledger.head_path))
    for each in (history, restarted):
        assert each.seconds("groq/m", 100) == (0.5, pytest.approx(10.5))
        assert each.answer_tokens("groq/m") == 20
        assert each.costs() == [
            AnswerCost(
                name="groq/m",
                remote=True,
                tokens=80,
                cost=0.01,
                per_million=125.0,
                currency="USD",
            )
        ]


def test_only_the_latest_answers_count(ledger: Ledger) -> None:
    history = ProviderHistory(ledger)
    record(ledger, 1000.5, TokenUsage(prompt=1, completion=1))
    history.costs()
    for _ in range(KEPT):
        record(ledger, 1.5, TokenUsage(prompt=1, completion=10), cost=0.0)
    assert history.seconds("groq/m", 10) == (0.5, pytest.approx(1.5))
    assert history.costs()[0].cost == 0.0


def test_provider_without_token_counts(ledger: Ledger) -> None:
    record(ledger, 3.5, None, cost=None)
    history = ProviderHistory(ledger)
    assert history.seconds("groq/m", 10) == (0.5, 3.5)
    assert (history.answer_tokens("groq/m"), history.costs()) == (None, [])
