"""`GET /ingle/v1/ledger`: entries, totals and verification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingle.backends.remote.clearance import Clearance
from ingle.backends.remote.receipt import Outcome, Receipt, TokenUsage
from ingle.daemon.routing.ledger.egress_ledger import BudgetReservation, Ledger
from ingle.daemon.routing.ledger.ledger_totals import this_month

if TYPE_CHECKING:
    from ...conftest import RunningDaemon


def record_departure(daemon: RunningDaemon) -> None:
    paths = daemon.services.config.paths
    ledger = Ledger(paths.ledger, paths.ledger_head)
    clearance = Clearance(digest="0", provider="groq", model="m", verdict="cloud", rule="r")
    intent = ledger.intend(clearance, BudgetReservation(tokens=9, cost=None, currency="USD"))
    receipt = Receipt(
        bytes_sent=100,
        bytes_received=200,
        seconds=1.0,
        outcome=Outcome.COMPLETE,
        usage=TokenUsage(prompt=3, completion=4),
    )
    ledger.settle(intent, receipt, 0.5)


async def test_empty_ledger(daemon: RunningDaemon) -> None:
    assert (await daemon.unix.get("/ingle/v1/ledger")).json() == {"entries": [], "left_out": 0}
    totals = (await daemon.unix.get("/ingle/v1/ledger/totals")).json()
    assert (totals["requests"], totals["cost"], totals["providers"]) == (0, None, [])
    assert (await daemon.unix.get("/ingle/v1/ledger/verify")).json()["ok"]


async def test_entries_and_totals_of_a_month(daemon: RunningDaemon) -> None:
    record_departure(daemon)
    month = this_month()
    entries = (await daemon.unix.get("/ingle/v1/ledger", params={"month": month})).json()
    assert entries["entries"][0]["bytes_out"] == 100
    totals = (await daemon.unix.get("/ingle/v1/ledger/totals")).json()
    assert (totals["month"], totals["bytes_out"], totals["bytes_in"]) == (month, 100, 200)
    assert (totals["cost"], totals["currency"]) == (0.5, "USD")
    assert totals["providers"][0]["name"] == "groq"
    other = await daemon.unix.get("/ingle/v1/ledger", params={"month": "1999-01"})
    assert other.json()["entries"] == []


async def test_invalid_month_and_broken_chain(daemon: RunningDaemon) -> None:
    for month in ("2026-13", "x", "../../etc", "2026-11.jsonl"):
        refused = await daemon.unix.get("/ingle/v1/ledger", params={"month": month})
        assert refused.status_code == 400
    record_departure(daemon)
    folder = daemon.services.config.paths.ledger
    (path,) = folder.glob("*.jsonl")
    path.write_bytes(path.read_bytes().replace(b"groq", b"none"))
    assert not (await daemon.unix.get("/ingle/v1/ledger/verify")).json()["ok"]


async def test_tools_record_what_they_send_before_and_after(daemon: RunningDaemon) -> None:
    body = {"tool": "fetch_page", "destination": "example.org"}
    answer = await daemon.unix.post("/ingle/v1/ledger", json=body)
    number = answer.json()["entry"]
    (entry,) = (await daemon.unix.get("/ingle/v1/ledger")).json()["entries"]
    assert (entry["provider"], entry["model"]) == ("tool:fetch_page", "example.org")
    assert (entry["seq"], entry["outcome"]) == (number, "unknown")
    receipt = {"bytes_out": 70, "bytes_in": 900, "seconds": 0.5, "outcome": "complete"}
    done = await daemon.unix.post(f"/ingle/v1/ledger/{number}", json=receipt)
    assert done.status_code == 200
    (entry,) = (await daemon.unix.get("/ingle/v1/ledger")).json()["entries"]
    assert (entry["outcome"], entry["bytes_out"], entry["cost"]) == ("complete", 70, 0.0)
    assert (await daemon.unix.get("/ingle/v1/ledger/verify")).json()["ok"]
    for again in (number, "0", "-1", "x"):
        refused = await daemon.unix.post(f"/ingle/v1/ledger/{again}", json=receipt)
        assert refused.status_code == 404


async def test_tools_cannot_settle_the_entries_of_providers(daemon: RunningDaemon) -> None:
    record_departure(daemon)
    receipt = {"bytes_out": 0, "bytes_in": 0, "seconds": 0, "outcome": "complete"}
    assert (await daemon.unix.post("/ingle/v1/ledger/1", json=receipt)).status_code == 404
    for name in ("", "a b", "a\n", "a" * 300, "\x1b[31m"):
        body = {"tool": name, "destination": "example.org"}
        assert (await daemon.unix.post("/ingle/v1/ledger", json=body)).status_code in (400, 422)
