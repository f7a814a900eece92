"""The ledger survives crashes honestly, and shows what was done to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from ingle.backends.remote.clearance import Clearance
from ingle.backends.remote.receipt import Outcome, Receipt, TokenUsage
from ingle.daemon.routing.ledger import egress_ledger as ledger_module
from ingle.daemon.routing.ledger.egress_ledger import BudgetReservation, Ledger
from ingle.daemon.routing.ledger.ledger_entries import LedgerIntent
from ingle.daemon.routing.ledger.ledger_totals import ledger_totals
from ingle.daemon.routing.ledger.ledger_verification import verify
from ingle.daemon.routing.providers.provider_errors import LedgerUnwritable

RESERVED = BudgetReservation(tokens=500, cost=0.5, currency="USD")


def clearance(conversation: str = "tax 2026", provider: str = "groq") -> Clearance:
    return Clearance(
        digest="0" * 64,
        provider=provider,
        model="m",
        verdict="redact",
        rule="redact",
        classes=("email",),
        redacted=("email",),
        conversation=conversation,
    )


def receipt(sent: int = 100) -> Receipt:
    return Receipt(
        bytes_sent=sent,
        bytes_received=200,
        seconds=1.5,
        outcome=Outcome.COMPLETE,
        status=200,
        attempts=1,
        digests=("ab" * 32,),
        usage=TokenUsage(prompt=30, completion=20),
    )


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "state" / "ledger", tmp_path / "head.json")


def again(ledger: Ledger) -> Ledger:
    """The same ledger, as another process finds it."""
    return Ledger(ledger.folder, ledger.head_path)


def travel(monkeypatch: pytest.MonkeyPatch, day: str) -> None:
    monkeypatch.setattr(ledger_module, "_now", lambda: f"{day}T12:00:00.000Z")


def depart(ledger: Ledger, **fields: str) -> LedgerIntent:
    intent = ledger.intend(clearance(**fields), RESERVED)
    ledger.settle(intent, receipt(), 0.25)
    return intent


def test_a_departure_is_an_entry(ledger: Ledger) -> None:
    depart(ledger)
    (entry,) = again(ledger).entries()
    assert (entry.bytes_out, entry.bytes_in, entry.cost, entry.outcome) == (
        100,
        200,
        0.25,
        "complete",
    )
    assert (entry.classes, entry.redacted) == (("email",), ("email",))
    assert verify(ledger).ok


def test_only_the_owner_reads_it_and_no_name_of_a_conversation_is_in_it(ledger: Ledger) -> None:
    depart(ledger)
    depart(ledger)
    depart(ledger, conversation="other")
    assert ledger.folder.stat().st_mode & 0o777 == 0o700
    (path,) = ledger.files()
    assert path.stat().st_mode & 0o777 == ledger.head_path.stat().st_mode & 0o777 == 0o600
    assert b"tax" not in path.read_bytes() + ledger.head_path.read_bytes()
    first, second, third = (entry.conversation for entry in again(ledger).entries())
    assert first == second != third


def test_without_a_receipt_it_is_unknown(ledger: Ledger) -> None:
    ledger.intend(clearance(), RESERVED)
    (entry,) = ledger.entries()
    assert (entry.outcome, entry.bytes_out, entry.cost) == ("unknown", None, None)
    assert (entry.tokens_at_most, entry.cost_at_most) == (500, 0.5)
    found = verify(ledger)
    assert found.ok
    assert "unknown" in found.notes[0]


@pytest.mark.parametrize("cut", [1, 40, 200])
def test_a_torn_line_is_taken_out_and_told(ledger: Ledger, cut: int) -> None:
    depart(ledger)
    before = ledger.files()[0].read_bytes()
    intent = ledger.intend(clearance(), RESERVED)
    head = ledger.head_path.read_bytes()
    ledger.settle(intent, receipt(), 0.25)
    (path,) = ledger.files()
    path.write_bytes(path.read_bytes()[:-cut])
    ledger.head_path.write_bytes(head)  # which is written behind the line
    assert [entry.outcome for entry in again(ledger).entries()] == ["complete", "unknown"]
    other = again(ledger)
    depart(other)
    assert path.read_bytes().startswith(before)
    assert [entry.outcome for entry in other.entries()] == ["complete", "unknown", "complete"]
    found = verify(other)
    assert found.ok, found.problems
    assert any("torn" in note for note in found.notes)


def test_a_torn_first_line_leaves_an_empty_ledger(ledger: Ledger) -> None:
    ledger.folder.mkdir(parents=True)
    (ledger.folder / "2026-01.jsonl").write_bytes(b'{"entry":"int')
    depart(ledger)
    assert len(ledger.entries()) == 1
    assert verify(ledger).ok


def test_months_are_files_and_one_chain(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    travel(monkeypatch, "2026-10-31")
    depart(ledger)
    late = ledger.intend(clearance(), RESERVED)
    travel(monkeypatch, "2026-11-01")
    depart(ledger)
    ledger.settle(late, receipt(), 0.25)
    assert [path.name for path in ledger.files()] == ["2026-10.jsonl", "2026-11.jsonl"]
    assert [entry.outcome for entry in ledger.entries("2026-10")] == ["complete", "complete"]
    assert len(ledger.entries("2026-11")) == 1
    assert verify(again(ledger)).ok
    travel(monkeypatch, "2026-09-01")  # a clock that went back
    depart(ledger)
    assert [path.name for path in ledger.files()] == ["2026-10.jsonl", "2026-11.jsonl"]
    assert verify(ledger).ok


def test_forgetting_old_months_keeps_the_chain(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for month in ("2026-08", "2026-09", "2026-10"):
        travel(monkeypatch, f"{month}-05")
        depart(ledger)
    assert ledger.forget_before("2026-10") == 2
    assert len(ledger.entries()) == 1
    found = verify(ledger)
    assert found.ok, found.problems
    assert "erased on request" in found.notes[0]
    assert ledger.forget_before("2026-12") == 0  # this month counts for budgets
    travel(monkeypatch, "2026-12-01")
    assert ledger.forget_before("2026-12") == 1
    assert verify(ledger).ok
    depart(ledger)
    assert verify(again(ledger)).ok


def test_a_missing_beginning_is_found(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    for month in ("2026-08", "2026-09"):
        travel(monkeypatch, f"{month}-05")
        depart(ledger)
    ledger.files()[0].unlink()
    assert "missing" in verify(ledger).problems[0]


Lines = list[bytes]


def nothing(lines: Lines) -> Lines:
    return lines


def edit(lines: Lines) -> Lines:
    return [lines[0].replace(b"groq", b"none"), *lines[1:]]


def edit_of_the_last(lines: Lines) -> Lines:
    return [*lines[:-1], lines[-1].replace(b'"bytes_out":100', b'"bytes_out":1')]


def deletion(lines: Lines) -> Lines:
    return [*lines[:2], *lines[3:]]


def two_deletions(lines: Lines) -> Lines:
    return [*lines[:2], *lines[4:]]


def change_of_order(lines: Lines) -> Lines:
    return [lines[1], lines[0], *lines[2:]]


def doubled_line(lines: Lines) -> Lines:
    return [*lines, lines[-1]]


def cut_end(lines: Lines) -> Lines:
    return lines[:-2]


def cut_beginning(lines: Lines) -> Lines:
    return lines[2:]


def emptied(lines: Lines) -> Lines:
    return []


def garbage(lines: Lines) -> Lines:
    return [*lines[:3], b"\xff\x00 garbage\n", *lines[3:]]


TAMPERING: list[Callable[[Lines], Lines]] = [
    edit,
    edit_of_the_last,
    deletion,
    two_deletions,
    change_of_order,
    doubled_line,
    cut_end,
    cut_beginning,
    emptied,
    garbage,
]


@pytest.mark.parametrize("change", [nothing, *TAMPERING])
def test_what_was_done_to_it_is_found(ledger: Ledger, change: Callable[[Lines], Lines]) -> None:
    for _ in range(3):
        depart(ledger)
    (path,) = ledger.files()
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    assert verify(again(ledger)).ok is (change is nothing)


def test_a_chain_made_anew_is_found_by_the_second_place(ledger: Ledger, tmp_path: Path) -> None:
    """But not where the second place is made anew as well, as `verify` says."""
    for _ in range(3):
        depart(ledger)
    other = Ledger(tmp_path / "other", tmp_path / "other-head.json")
    for _ in range(3):
        depart(other, conversation="nothing to see")
    ledger.files()[0].write_bytes(other.files()[0].read_bytes())
    assert not verify(ledger).ok
    assert "cannot show" in verify(ledger).limits


def test_nothing_is_promised_where_nothing_can_be_written(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    depart(ledger)
    before = ledger.files()[0].read_bytes()

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(LedgerUnwritable, match="No space left"):
            ledger.intend(clearance(), RESERVED)
    assert ledger.files()[0].read_bytes() == before
    depart(ledger)
    assert verify(ledger).ok


def test_a_disk_that_takes_half_a_line_loses_nothing(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    depart(ledger)
    write = os.write

    def half(fd: int, data: bytes) -> int:
        return write(fd, data[: len(data) // 2])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        with pytest.raises(LedgerUnwritable):
            ledger.intend(clearance(), RESERVED)
    depart(ledger)
    found = verify(ledger)
    assert (found.ok, found.entries) == (True, 2)


def test_an_end_that_cannot_be_kept_leaves_no_line(ledger: Ledger) -> None:
    depart(ledger)
    intent = ledger.intend(clearance(), RESERVED)
    lines = ledger.files()[0].read_bytes()
    blocked = ledger.head_path.with_suffix(".new")
    blocked.mkdir()
    with pytest.raises(LedgerUnwritable):
        ledger.settle(intent, receipt(), 0.25)
    with pytest.raises(LedgerUnwritable):
        ledger.intend(clearance(), RESERVED)
    assert ledger.files()[0].read_bytes() == lines
    blocked.rmdir()
    depart(ledger)
    found = verify(ledger)
    assert (found.ok, found.entries, found.lines) == (True, 3, 6)


def test_a_receipt_waits_for_room(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    intent = ledger.intend(clearance(), RESERVED)

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(LedgerUnwritable):
            ledger.settle(intent, receipt(), 0.25)
    depart(ledger)
    assert [entry.outcome for entry in ledger.entries()] == ["complete", "complete"]
    assert verify(ledger).ok


def test_a_damaged_end_lets_nothing_leave(ledger: Ledger) -> None:
    depart(ledger)
    (path,) = ledger.files()
    path.write_bytes(path.read_bytes() + b"garbage\n")
    with pytest.raises(LedgerUnwritable):
        again(ledger).intend(clearance(), RESERVED)
    with pytest.raises(LedgerUnwritable):
        ledger.intend(clearance(), RESERVED)


def test_a_lost_file_lets_nothing_leave(ledger: Ledger) -> None:
    depart(ledger)
    ledger.files()[0].unlink()
    with pytest.raises(LedgerUnwritable):
        ledger.intend(clearance(), RESERVED)


def test_threads_and_processes_share_one_chain(ledger: Ledger) -> None:
    ledgers = [ledger, again(ledger)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(depart, ledgers * 20))
    found = verify(ledger)
    assert (found.ok, found.entries, found.lines) == (True, 40, 80)


def test_totals_are_sums_of_what_is_known(ledger: Ledger) -> None:
    depart(ledger)
    depart(ledger, provider="own")
    ledger.settle(ledger.intend(clearance(), RESERVED), receipt(), None)
    totals = ledger_totals("2026-11", ledger.entries())
    assert (totals.requests, totals.bytes_out, totals.cost) == (3, 300, 0.5)
    assert totals.unknown_costs == 1
    assert [total.name for total in totals.providers] == ["groq", "own"]


_WRITER = """
import sys
from pathlib import Path
from ingle.backends.remote.clearance import Clearance
from ingle.backends.remote.receipt import Outcome, Receipt
from ingle.daemon.routing.ledger.egress_ledger import BudgetReservation, Ledger
folder = Path(sys.argv[1])
ledger = Ledger(folder / "ledger", folder / "head.json")
while True:
    clearance = Clearance(digest="0", provider="p", model="m", verdict="cloud", rule="r")
    intent = ledger.intend(clearance, BudgetReservation(tokens=1, cost=None, currency="USD"))
    print(intent.seq, flush=True)
    ledger.settle(intent, Receipt(
        bytes_sent=1, bytes_received=1, seconds=0, outcome=Outcome.COMPLETE), None)
"""


def test_kill_9_at_any_moment_loses_no_intent(tmp_path: Path) -> None:
    """What was promised before a kill is there after it, and the chain is whole."""
    ledger = Ledger(tmp_path / "ledger", tmp_path / "head.json")
    promised: list[int] = []
    for _ in range(5):
        with subprocess.Popen(
            [sys.executable, "-P", "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            promised += [int(writer.stdout.readline()) for _ in range(20)]
            writer.send_signal(signal.SIGKILL)
            promised += [int(line) for line in writer.stdout.read().split()]
    assert set(promised) <= {entry.seq for entry in ledger.entries()}
    found = verify(ledger)
    assert found.ok, found.problems


def test_entries_are_plain_json(ledger: Ledger) -> None:
    depart(ledger)
    for line in ledger.files()[0].read_bytes().splitlines():
        assert {"entry", "seq", "time", "previous"} <= msgspec.json.decode(line).keys()
