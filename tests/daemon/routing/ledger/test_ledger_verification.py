"""What `verify` says of each change of a ledger, word for word, and sums of random entries."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ingle.backends.remote.clearance import Clearance
from ingle.backends.remote.receipt import Outcome, Receipt
from ingle.daemon.routing.ledger import egress_ledger
from ingle.daemon.routing.ledger.egress_ledger import BudgetReservation, Ledger, LedgerHead
from ingle.daemon.routing.ledger.ledger_entries import (
    GENESIS,
    LedgerEntry,
    LedgerNote,
    encode,
    line_digest,
)
from ingle.daemon.routing.ledger.ledger_totals import ledger_totals
from ingle.daemon.routing.ledger.ledger_verification import LedgerCheck, verify

Lines = list[bytes]

CHANGES: dict[str, tuple[Callable[[Lines], Lines], list[str]]] = {
    "unchanged": (lambda lines: lines, []),
    "changed": (
        lambda lines: [lines[0].replace(b"groq", b"none"), *lines[1:]],
        ["{file} line 2 does not follow: the line before it was changed, removed or moved."],
    ),
    "last changed": (
        lambda lines: [*lines[:-1], lines[-1].replace(b":100", b":1")],
        ["Line 6 is not the one whose digest was stored."],
    ),
    "removed": (
        lambda lines: [*lines[:2], *lines[3:]],
        ["{file} line 3 does not follow: the line before it was changed, removed or moved."],
    ),
    "number changed": (
        lambda lines: [*lines[:-1], lines[-1].replace(b'"seq":6', b'"seq":7')],
        ["{file} line 6 has the number 7 after 5."],
    ),
    "unreadable": (
        lambda lines: [*lines[:3], b"x\n", *lines[4:]],
        [
            "{file} line 4 cannot be read: JSON is malformed: invalid character (byte 0).",
            "{file} line 5 does not follow: the line before it was changed, removed or moved.",
        ],
    ),
    "last unreadable": (  # which is damage, and no line is missing
        lambda lines: [*lines[:-1], b"x\n"],
        ["{file} line 6 cannot be read: JSON is malformed: invalid character (byte 0)."],
    ),
    "end missing": (lambda lines: lines[:-2], ["The last 2 lines are missing."]),
    "beginning missing": (
        lambda lines: lines[2:],
        ["The 2 lines before {file} line 1 are missing."],
    ),
    "all missing": (lambda _: [], ["The last 6 lines are missing."]),
    "torn": (lambda lines: [*lines, b"{torn"], []),
}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger", tmp_path / "head.json")


def depart(ledger: Ledger, *, settles: bool = True) -> None:
    clearance = Clearance(digest="0", provider="groq", model="m", verdict="cloud", rule="r")
    intent = ledger.intend(clearance, BudgetReservation(tokens=1, cost=None, currency="USD"))
    if settles:
        answer = Receipt(bytes_sent=100, bytes_received=2, seconds=0, outcome=Outcome.COMPLETE)
        ledger.settle(intent, answer, None)


@pytest.mark.parametrize("name", CHANGES)
def test_change_is_reported(ledger: Ledger, name: str) -> None:
    change, problems = CHANGES[name]
    for _ in range(3):
        depart(ledger)
    (path,) = ledger.files()
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    found = verify(ledger)
    assert found.problems == [text.format(file=path.name) for text in problems]
    assert found.ok is not problems
    torn = f"{path.name} ends in a torn line of 5 bytes, after a crash."
    assert [note for note in found.notes if "unknown" not in note] == [torn] * (name == "torn")


def test_open_requests_and_a_removed_torn_line_are_notes(ledger: Ledger) -> None:
    depart(ledger, settles=False)
    unknown = "The outcome of {} is unknown: ingle ended meanwhile, or the answer is still running."
    assert verify(ledger).notes == [unknown.format("1 request")]
    (path,) = ledger.files()
    path.write_bytes(path.read_bytes() + b"{torn")
    depart(ledger, settles=False)
    found = verify(ledger)
    day = LedgerEntry.of(ledger_intents(ledger)[0], None).time[:10]
    assert found == LedgerCheck(
        ok=True,
        entries=2,
        lines=3,
        problems=[],
        notes=[
            f"On {day} a torn line was removed after a crash.",
            unknown.format("2 requests"),
        ],
    )


def ledger_intents(ledger: Ledger) -> list[egress_ledger.LedgerIntent]:
    lines = [line for path in ledger.files() for line in egress_ledger.read_lines(path)]
    return [line for line in lines if isinstance(line, egress_ledger.LedgerIntent)]


def test_missing_copy_of_the_end_is_reported_beyond_one_line(ledger: Ledger) -> None:
    depart(ledger, settles=False)
    ledger.head_path.unlink()
    assert verify(ledger).ok
    depart(ledger)
    ledger.head_path.unlink()
    assert verify(ledger).problems == [f"The copy of the end in {ledger.head_path} is missing."]
    ledger.head_path.write_bytes(msgspec.json.encode(LedgerHead(0, "", "00")))
    assert verify(ledger).ok


@pytest.mark.parametrize(
    ("until", "digest", "ok"), [(2, "d", True), (1, "d", False), (2, "e", False)]
)
def test_erased_beginning_needs_its_note(ledger: Ledger, until: int, digest: str, ok: bool) -> None:
    heading: dict[str, Any] = {"time": "2026-11-01T00:00:00.000Z"}
    first = encode(LedgerNote(**heading, seq=3, previous="d", what="else"))
    note = LedgerNote(
        **heading,
        seq=4,
        previous=line_digest(first),
        what="forgotten",
        until=until,
        digest=digest,
    )
    ledger.folder.mkdir()
    (ledger.folder / "2026-11.jsonl").write_bytes(first + encode(note))
    ledger.head_path.write_bytes(
        msgspec.json.encode(LedgerHead(4, line_digest(encode(note)), GENESIS))
    )
    found = verify(ledger)
    missing = "The 2 lines before 2026-11.jsonl line 1 are missing."
    assert found.problems == ([] if ok else [missing])
    assert f"On 2026-11-01 the lines up to {until} were erased on request." in found.notes


def test_totals_are_the_sums_of_what_is_known() -> None:
    chance = random.Random(1)
    entries = [
        LedgerEntry(
            **dict.fromkeys(("time", "model", "verdict", "rule", "conversation"), ""),
            seq=number,
            classes=(),
            redacted=(),
            provider=chance.choice("ba"),
            currency="USD",
            outcome=chance.choice(["complete", "unknown"]),
            bytes_out=chance.choice([None, 3, 7]),
            bytes_in=chance.choice([None, 5]),
            prompt_tokens=chance.choice([None, 11]),
            completion_tokens=chance.choice([None, 13]),
            cost=chance.choice([0.25, 0.5]),
        )
        for number in range(40)
    ]
    totals = ledger_totals("2026-11", entries)
    assert [each.name for each in totals.providers] == ["a", "b"]
    assert (totals.month, totals.currency) == ("2026-11", "USD")
    for total in (totals, *totals.providers):
        own = [e for e in entries if getattr(total, "name", e.provider) == e.provider]
        for name in ("bytes_out", "bytes_in", "prompt_tokens", "completion_tokens"):
            assert getattr(total, name) == sum(getattr(entry, name) or 0 for entry in own), name
        assert total.requests == len(own)
        assert total.unknown_costs == 0
        assert total.unknown_outcomes == sum(entry.outcome == "unknown" for entry in own)
        assert total.cost == sum(entry.cost or 0.0 for entry in own)
        tokens = total.prompt_tokens + total.completion_tokens
        assert total.cost is not None
        assert total.per_million == round(total.cost / tokens * 1e6, 6)
    foreign = msgspec.structs.replace(entries[0], currency="EUR", cost=None)
    mixed = ledger_totals("2026-11", [*entries, foreign])
    assert (mixed.cost, mixed.currency, mixed.per_million) == (None, "", None)
    assert mixed.unknown_costs == 1
    assert ledger_totals("2026-11", []).currency == ""
