"""Verifies the hash chain of the ledger."""

from __future__ import annotations

from pathlib import Path

import msgspec

from .egress_ledger import Ledger, raw_lines, read_head
from .ledger_entries import (
    DECODER,
    GENESIS,
    LedgerIntent,
    LedgerNote,
    LedgerSettlement,
    Line,
    line_digest,
)

LIMITS = (
    "A chain shows edits, gaps, reordering and a missing end. It cannot show that a person with "
    "write access to both places rewrote all of it."
)


class LedgerCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The result: `problems` break the chain, `notes` are informative."""

    ok: bool
    entries: int
    lines: int
    problems: list[str]
    notes: list[str]
    limits: str = LIMITS


def verify(ledger: Ledger) -> LedgerCheck:
    """Read the whole ledger, and check each line against the next and the end against its copy."""
    walk = _Walk()
    for path in ledger.files():
        for number, line in enumerate(raw_lines(path), start=1):
            walk.take(f"{path.name} line {number}", line)
        if (left := _torn_bytes(path)) > 0:
            walk.notes.append(f"{path.name} ends in a torn line of {left} bytes, after a crash.")
    walk.compare_end(ledger)
    walk.count_unknown()
    return LedgerCheck(
        ok=not walk.problems,
        entries=len(walk.intents),
        lines=walk.lines,
        problems=walk.problems,
        notes=walk.notes,
    )


class _Walk:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.intents: set[int] = set()
        self.lines = 0
        self._settled: set[int] = set()
        self._digest = GENESIS
        self._seq = 0
        self._digests: dict[int, str] = {}
        self._gap: tuple[str, int, str] | None = None

    def take(self, where: str, raw: bytes) -> None:
        """Check one line, after all previous ones."""
        self.lines += 1
        try:
            line: Line = DECODER.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self.problems.append(f"{where} cannot be read: {error}.")
            self._digest = line_digest(raw)
            self._seq += 1
            return
        if self.lines == 1 and line.seq != 1:
            self._gap = (where, line.seq - 1, line.previous)
        elif line.previous != self._digest:
            what = "the line before it was changed, removed or moved"
            self.problems.append(f"{where} does not follow: {what}.")
        elif line.seq != self._seq + 1:
            self.problems.append(f"{where} has the number {line.seq} after {self._seq}.")
        self._digest, self._seq = line_digest(raw), line.seq
        self._digests[line.seq] = self._digest
        self._note(line)

    def _note(self, line: Line) -> None:
        match line:
            case LedgerIntent():
                self.intents.add(line.seq)
            case LedgerSettlement():
                self._settled.add(line.of)
            case LedgerNote(what="torn"):
                self.notes.append(f"On {line.time[:10]} a torn line was removed after a crash.")
            case LedgerNote():
                self.notes.append(
                    f"On {line.time[:10]} the lines up to {line.until} were erased on request."
                )
                if self._gap is not None and self._gap[1:] == (line.until, line.digest):
                    self._gap = None

    def compare_end(self, ledger: Ledger) -> None:
        """Check the end against its copy, and for a missing beginning."""
        if self._gap is not None:
            where, missing, _ = self._gap
            self.problems.append(f"The {missing} lines before {where} are missing.")
        head = read_head(ledger.head_path)
        if head is None:
            if self.lines > 1:
                self.problems.append(f"The copy of the end in {ledger.head_path} is missing.")
        elif head.seq > self._seq:
            self.problems.append(f"The last {head.seq - self._seq} lines are missing.")
        elif head.seq and self._digests.get(head.seq, head.digest) != head.digest:
            self.problems.append(f"Line {head.seq} is not the one whose digest was stored.")

    def count_unknown(self) -> None:
        """Report requests without a settlement."""
        if unknown := len(self.intents - self._settled):
            self.notes.append(
                f"The outcome of {unknown} request{'s' * (unknown != 1)} is unknown: "
                "ingle ended meanwhile, or the answer is still running."
            )


def _torn_bytes(path: Path) -> int:
    """Return the length of an incomplete last line."""
    content = path.read_bytes() if path.exists() else b""
    return len(content) - content.rfind(b"\n") - 1
