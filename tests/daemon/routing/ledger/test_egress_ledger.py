"""The egress ledger: crash safety, tamper detection and totals."""

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

pytestmark = pytest.mark.usefixtures("synced_renames")

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
        seconds=1.50049,
        outcome=Outcome.COMPLETE,
        status=200,
        attempts=1,
        digests=("ab" * 32,),
        usage=TokenUsage(prompt=30, completion=20),
    )


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "state" / "ledger", tmp_path / "head.json")


def reopen(ledger: Ledger) -> Ledger:
    """The same ledger, opened again as by another process."""
    return Ledger(ledger.folder, ledger.head_path)


def set_date(monkeypatch: pytest.MonkeyPatch, day: str) -> None:
    monkeypatch.setattr(ledger_module, "_now", lambda: f"{day}T12:00:00.000Z")


def record_departure(ledger: Ledger, **fields: str) -> LedgerIntent:
    intent = ledger.intend(clearance(**fields), RESERVED)
    ledger.settle(intent, receipt(), 0.25)
    return intent


def test_departure_creates_an_entry(ledger: Ledger) -> None:
    record_departure(ledger)
    (entry,) = reopen(ledger).entries()
    assert (entry.bytes_out, entry.bytes_in, entry.cost, entry.outcome) == (
        100,
        200,
        0.25,
        "complete",
    )
    assert (entry.classes, entry.redacted) == (("email",), ("email",))
    assert entry.seconds == 1.5  # milliseconds are kept
    assert verify(ledger).ok


def test_ledger_is_owner_readable_and_has_no_conversation_names(ledger: Ledger) -> None:
    record_departure(ledger)
    record_departure(ledger)
    record_departure(ledger, conversation="other")
    assert ledger.folder.stat().st_mode & 0o777 == 0o700
    (path,) = ledger.files()
    assert path.stat().st_mode & 0o777 == ledger.head_path.stat().st_mode & 0o777 == 0o600
    assert b"tax" not in path.read_bytes() + ledger.head_path.read_bytes()
    first, second, third = (entry.conversation for entry in reopen(ledger).entries())
    assert first == second != third


def test_entry_without_a_receipt_is_unknown(ledger: Ledger) -> None:
    ledger.intend(clearance(), RESERVED)
    (entry,) = ledger.entries()
    assert (entry.outcome, entry.bytes_out, entry.cost) == ("unknown", None, None)
    assert (entry.tokens_at_most, entry.cost_at_most) == (500, 0.5)
    sent = [msgspec.structs.replace(entry, bytes_out=count).tokens_at_most for count in (0, 1)]
    assert sent == [0, 500]  # of a request that never left nothing counts
    found = verify(ledger)
    assert found.ok
    assert "unknown" in found.notes[0]


@pytest.mark.parametrize("cut", [1, 40, 200])
def test_torn_line_is_removed_and_noted(ledger: Ledger, cut: int) -> None:
    record_departure(ledger)
    before = ledger.files()[0].read_bytes()
    intent = ledger.intend(clearance(), RESERVED)
    head = ledger.head_path.read_bytes()
    ledger.settle(intent, receipt(), 0.25)
    (path,) = ledger.files()
    path.write_bytes(path.read_bytes()[:-cut])
    ledger.head_path.write_bytes(head)  # which is written after the line
    assert [entry.outcome for entry in reopen(ledger).entries()] == ["complete", "unknown"]
    other = reopen(ledger)
    record_departure(other)
    assert path.read_bytes().startswith(before)
    assert [entry.outcome for entry in other.entries()] == ["complete", "unknown", "complete"]
    found = verify(other)
    assert found.ok, found.problems
    assert any("torn" in note for note in found.notes)


def test_torn_first_line_leaves_an_empty_ledger(ledger: Ledger) -> None:
    ledger.folder.mkdir(parents=True)
    (ledger.folder / "2026-01.jsonl").write_bytes(b'{"entry":"int')
    record_departure(ledger)
    assert len(ledger.entries()) == 1
    assert verify(ledger).ok


def test_months_are_separate_files_with_one_chain(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_date(monkeypatch, "2026-10-31")
    record_departure(ledger)
    late = ledger.intend(clearance(), RESERVED)
    set_date(monkeypatch, "2026-11-01")
    record_departure(ledger)
    ledger.settle(late, receipt(), 0.25)
    assert [path.name for path in ledger.files()] == ["2026-10.jsonl", "2026-11.jsonl"]
    assert [entry.outcome for entry in ledger.entries("2026-10")] == ["complete", "complete"]
    assert len(ledger.entries("2026-11")) == 1
    assert verify(reopen(ledger)).ok
    set_date(monkeypatch, "2026-09-01")  # the clock was set back
    record_departure(ledger)
    assert [path.name for path in ledger.files()] == ["2026-10.jsonl", "2026-11.jsonl"]
    assert verify(ledger).ok


def test_forgetting_old_months_keeps_the_chain(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for month in ("2026-08", "2026-09", "2026-10"):
        set_date(monkeypatch, f"{month}-05")
        record_departure(ledger)
    assert ledger.forget_before("2026-10") == 2
    assert len(ledger.entries()) == 1
    found = verify(ledger)
    assert found.ok, found.problems
    assert "erased on request" in found.notes[0]
    assert ledger.forget_before("2026-12") == 0  # this month counts for budgets
    set_date(monkeypatch, "2026-12-01")
    assert ledger.forget_before("2026-12") == 1
    assert verify(ledger).ok
    record_departure(ledger)
    assert verify(reopen(ledger)).ok


def test_missing_beginning_is_detected(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    for month in ("2026-08", "2026-09"):
        set_date(monkeypatch, f"{month}-05")
        record_departure(ledger)
    ledger.files()[0].unlink()
    assert "missing" in verify(ledger).problems[0]


Lines = list[bytes]


def unchanged(lines: Lines) -> Lines:
    return lines


def edit_line(lines: Lines) -> Lines:
    return [lines[0].replace(b"groq", b"none"), *lines[1:]]


def edit_last_line(lines: Lines) -> Lines:
    return [*lines[:-1], lines[-1].replace(b'"bytes_out":100', b'"bytes_out":1')]


def delete_line(lines: Lines) -> Lines:
    return [*lines[:2], *lines[3:]]


def delete_two_lines(lines: Lines) -> Lines:
    return [*lines[:2], *lines[4:]]


def swap_lines(lines: Lines) -> Lines:
    return [lines[1], lines[0], *lines[2:]]


def duplicate_line(lines: Lines) -> Lines:
    return [*lines, lines[-1]]


def truncate_end(lines: Lines) -> Lines:
    return lines[:-2]


def truncate_beginning(lines: Lines) -> Lines:
    return lines[2:]


def empty(lines: Lines) -> Lines:
    return []


def insert_garbage(lines: Lines) -> Lines:
    return [*lines[:3], b"\xff\x00 garbage\n", *lines[3:]]


TAMPERING: list[Callable[[Lines], Lines]] = [
    edit_line,
    edit_last_line,
    delete_line,
    delete_two_lines,
    swap_lines,
    duplicate_line,
    truncate_end,
    truncate_beginning,
    empty,
    insert_garbage,
]


@pytest.mark.parametrize("change", [unchanged, *TAMPERING])
def test_tampering_is_detected(ledger: Ledger, change: Callable[[Lines], Lines]) -> None:
    for _ in range(3):
        record_departure(ledger)
    (path,) = ledger.files()
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    assert verify(reopen(ledger)).ok is (change is unchanged)


def test_replaced_chain_is_detected_by_the_head(ledger: Ledger, tmp_path: Path) -> None:
    """Unless the head was replaced as well, as `verify` says."""
    for _ in range(3):
        record_departure(ledger)
    other = Ledger(tmp_path / "other", tmp_path / "other-head.json")
    for _ in range(3):
        record_departure(other, conversation="nothing to see")
    ledger.files()[0].write_bytes(other.files()[0].read_bytes())
    assert not verify(ledger).ok
    assert "cannot show" in verify(ledger).limits


def test_full_disk_refuses_the_intent(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    record_departure(ledger)
    before = ledger.files()[0].read_bytes()

    def raise_disk_full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", raise_disk_full)
        with pytest.raises(LedgerUnwritable, match="No space left"):
            ledger.intend(clearance(), RESERVED)
    assert ledger.files()[0].read_bytes() == before
    record_departure(ledger)
    assert verify(ledger).ok


def test_partial_write_is_undone(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    record_departure(ledger)
    write = os.write

    def write_half(fd: int, data: bytes) -> int:
        return write(fd, data[: len(data) // 2])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_half)
        with pytest.raises(LedgerUnwritable):
            ledger.intend(clearance(), RESERVED)
    record_departure(ledger)
    found = verify(ledger)
    assert (found.ok, found.entries) == (True, 2)


def test_failed_head_write_leaves_no_line(ledger: Ledger) -> None:
    record_departure(ledger)
    intent = ledger.intend(clearance(), RESERVED)
    lines = ledger.files()[0].read_bytes()
    head = ledger.head_path.rename(ledger.head_path.with_suffix(".kept"))
    ledger.head_path.mkdir()  # which no file can replace
    with pytest.raises(LedgerUnwritable):
        ledger.settle(intent, receipt(), 0.25)
    with pytest.raises(LedgerUnwritable):
        ledger.intend(clearance(), RESERVED)
    assert ledger.files()[0].read_bytes() == lines
    ledger.head_path.rmdir()
    head.rename(ledger.head_path)
    record_departure(ledger)
    found = verify(ledger)
    assert (found.ok, found.entries, found.lines) == (True, 3, 6)


def test_receipt_is_retried_after_a_full_disk(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    intent = ledger.intend(clearance(), RESERVED)

    def raise_disk_full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", raise_disk_full)
        with pytest.raises(LedgerUnwritable):
            ledger.settle(intent, receipt(), 0.25)
    record_departure(ledger)
    assert [entry.outcome for entry in ledger.entries()] == ["complete", "complete"]
    assert verify(ledger).ok


def test_damaged_end_refuses_new_intents(ledger: Ledger) -> None:
    record_departure(ledger)
    (path,) = ledger.files()
    path.write_bytes(path.read_bytes() + b"garbage\n")
    with pytest.raises(LedgerUnwritable):
        reopen(ledger).intend(clearance(), RESERVED)
    with pytest.raises(LedgerUnwritable):
        ledger.intend(clearance(), RESERVED)


def test_lost_file_refuses_new_intents(ledger: Ledger) -> None:
    record_departure(ledger)
    ledger.files()[0].unlink()
    with pytest.raises(LedgerUnwritable):
        ledger.intend(clearance(), RESERVED)


def test_concurrent_writers_share_one_chain(ledger: Ledger) -> None:
    ledgers = [ledger, reopen(ledger)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(record_departure, ledgers * 20))
    found = verify(ledger)
    assert (found.ok, found.entries, found.lines) == (True, 40, 80)


def test_totals_sum_known_values(ledger: Ledger) -> None:
    record_departure(ledger)
    record_departure(ledger, provider="own")
    ledger.settle(ledger.intend(clearance(), RESERVED), receipt(), None)
    totals = ledger_totals("2026-11", ledger.entries())
    assert (totals.requests, totals.bytes_out, totals.cost) == (3, 300, 0.5)
    assert totals.unknown_costs == 1
    assert [total.name for total in totals.providers] == ["groq", "own"]
    known = totals.providers[0]
    ledger.intend(clearance(), RESERVED)  # of which no amount is known
    assert ledger_totals("2026-11", ledger.entries()).providers[0] == msgspec.structs.replace(
        known,
        requests=known.requests + 1,
        unknown_costs=known.unknown_costs + 1,
        unknown_outcomes=known.unknown_outcomes + 1,
    )


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


def test_kill_loses_no_acknowledged_intent(tmp_path: Path) -> None:
    """Every acknowledged intent exists after a kill, and the chain is valid."""
    ledger = Ledger(tmp_path / "ledger", tmp_path / "head.json")
    acknowledged: list[int] = []
    for _ in range(5):
        with subprocess.Popen(
            [sys.executable, "-P", "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            acknowledged += [int(writer.stdout.readline()) for _ in range(20)]
            writer.send_signal(signal.SIGKILL)
            acknowledged += [int(line) for line in writer.stdout.read().split()]
    assert set(acknowledged) <= {entry.seq for entry in ledger.entries()}
    found = verify(ledger)
    assert found.ok, found.problems


def test_entries_are_plain_json(ledger: Ledger) -> None:
    record_departure(ledger)
    for line in ledger.files()[0].read_bytes().splitlines():
        assert {"entry", "seq", "time", "previous"} <= msgspec.json.decode(line).keys()
