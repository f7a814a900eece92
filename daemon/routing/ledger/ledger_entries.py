"""The lines of the ledger: what is about to leave, what came of it, and notes about the ledger."""

from __future__ import annotations

import hashlib

import msgspec

GENESIS = "0" * 64
"""What stands for the line before the first."""


class LedgerIntent(msgspec.Struct, frozen=True, kw_only=True, tag="intent", tag_field="entry"):
    """Written before the first byte leaves; without a receipt it is unknown what became of it.

    `previous` is the SHA-256 of the line before. `conversation` tells conversations apart and names
    none. `reserved_tokens` and `reserved_cost` (None: the price is unknown) are the most it can
    take.
    """

    seq: int
    time: str
    previous: str
    provider: str
    model: str
    verdict: str
    rule: str
    classes: tuple[str, ...]
    redacted: tuple[str, ...]
    conversation: str
    reserved_tokens: int
    reserved_cost: float | None
    currency: str


class LedgerSettlement(msgspec.Struct, frozen=True, kw_only=True, tag="receipt", tag_field="entry"):
    """What came of the intent with the number `of`: every byte, and the digest of what was sent.

    Tokens are None where the provider told none, `cost` where its price is unknown.
    """

    seq: int
    time: str
    previous: str
    of: int
    bytes_out: int
    bytes_in: int
    prompt_tokens: int | None
    completion_tokens: int | None
    cost: float | None
    seconds: float
    outcome: str
    status: int
    attempts: int
    sent_sha256: tuple[str, ...]


class LedgerNote(msgspec.Struct, frozen=True, kw_only=True, tag="note", tag_field="entry"):
    """Something about the ledger itself.

    `torn`: the last line was incomplete after a crash, and its `bytes` were taken out. `forgotten`:
    the lines up to number `until`, whose SHA-256 is `digest`, were erased by the owner.
    """

    seq: int
    time: str
    previous: str
    what: str
    bytes: int = 0
    until: int = 0
    digest: str = ""


Line = LedgerIntent | LedgerSettlement | LedgerNote

DECODER = msgspec.json.Decoder(Line)


def encode(line: Line) -> bytes:
    """The line as it is written, its end included."""
    return msgspec.json.encode(line) + b"\n"


def line_digest(line: bytes) -> str:
    """The SHA-256 of a line as it is written, its end not included, in hex."""
    return hashlib.sha256(line.rstrip(b"\n")).hexdigest()


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One departure as people see it; what is None is unknown.

    `outcome` is `unknown` where ingle ended before it could write what came of it, or still waits.
    `cost` is then the most that it can have been, and so are the tokens of a budget.
    """

    seq: int
    time: str
    provider: str
    model: str
    verdict: str
    rule: str
    classes: tuple[str, ...]
    redacted: tuple[str, ...]
    conversation: str
    outcome: str
    currency: str
    bytes_out: int | None = None
    bytes_in: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    status: int | None = None
    attempts: int | None = None
    sent_sha256: tuple[str, ...] = ()
    reserved_tokens: int = 0
    reserved_cost: float | None = None

    @classmethod
    def of(cls, intent: LedgerIntent, settled: LedgerSettlement | None) -> LedgerEntry:
        """The two lines in one."""
        known = {name: getattr(intent, name) for name in _SHARED}
        if settled is None:
            return cls(**known, outcome="unknown")
        return cls(**known, **{name: getattr(settled, name) for name in _SETTLED})

    @property
    def tokens_at_most(self) -> int:
        """What counts against a budget of tokens."""
        if self.prompt_tokens is None or self.completion_tokens is None:
            return 0 if self.bytes_out == 0 else self.reserved_tokens
        return self.prompt_tokens + self.completion_tokens

    @property
    def cost_at_most(self) -> float | None:
        """What counts against a budget of money; None where the price is unknown."""
        if self.cost is not None or self.bytes_out == 0:
            return self.cost or 0.0
        return self.reserved_cost


_SHARED = (
    *("seq", "time", "provider", "model", "verdict", "rule", "classes", "redacted"),
    *("conversation", "currency", "reserved_tokens", "reserved_cost"),
)
_SETTLED = (
    *("outcome", "bytes_out", "bytes_in", "prompt_tokens", "completion_tokens", "cost"),
    *("seconds", "status", "attempts", "sent_sha256"),
)
