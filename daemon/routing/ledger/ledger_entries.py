"""Lines of the ledger: intents, settlements, and notes about the ledger itself."""

from __future__ import annotations

import hashlib

import msgspec

from ingle.models.struct_preparation import prepared

GENESIS = "0" * 64
"""Stands for the digest before the first line."""


class LedgerLine(msgspec.Struct, frozen=True, kw_only=True, tag_field="entry"):
    """What all lines have; `previous` is the SHA-256 of the previous line."""

    seq: int
    time: str
    previous: str


class LedgerIntent(LedgerLine, frozen=True, kw_only=True, tag="intent"):
    """Written before the first byte leaves; without a settlement the outcome is unknown.

    `choice` compares both sides, if the owner's preference decided. `conversation` is a pseudonym.
    `reserved_tokens` and `reserved_cost` are upper limits; the
    cost is None if the price is unknown.
    """

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
    choice: str = ""


class LedgerSettlement(LedgerLine, frozen=True, kw_only=True, tag="receipt"):
    """The outcome of the intent with the number `of`: bytes, and digests of what was sent.

    Tokens are None if the provider reported none, `cost` if its price is unknown. `first_seconds`
    is the time to the first token, None without one.
    """

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
    first_seconds: float | None = None


class LedgerNote(LedgerLine, frozen=True, kw_only=True, tag="note"):
    """A note about the ledger itself.

    `torn`: the last line was incomplete after a crash, and its `bytes` were removed. `forgotten`:
    the lines up to number `until`, whose SHA-256 is `digest`, were erased on request.
    """

    what: str
    bytes: int = 0
    until: int = 0
    digest: str = ""


Line = LedgerIntent | LedgerSettlement | LedgerNote

DECODER = msgspec.json.Decoder(Line)


def encode(line: Line) -> bytes:
    """Return the line as it is written, including its end."""
    return msgspec.json.encode(line) + b"\n"


def line_digest(line: bytes) -> str:
    """Return the SHA-256 of a written line, without its end, in hex."""
    return hashlib.sha256(line.rstrip(b"\n")).hexdigest()


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One request that left, as displayed; None is unknown.

    `outcome` is `unknown` if ingle ended before it was recorded, or the answer still runs. `cost`
    is then the upper limit, and so are the tokens of a budget.
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
    outcome: str = "unknown"
    currency: str
    bytes_out: int | None = None
    bytes_in: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    first_seconds: float | None = None
    status: int | None = None
    attempts: int | None = None
    sent_sha256: tuple[str, ...] = ()
    reserved_tokens: int = 0
    reserved_cost: float | None = None
    choice: str = ""

    @classmethod
    def of(cls, intent: LedgerIntent, settled: LedgerSettlement | None) -> LedgerEntry:
        """Combine the two lines."""
        outcome = msgspec.structs.asdict(settled) if settled is not None else {}
        return msgspec.convert({**outcome, **msgspec.structs.asdict(intent)}, prepared(cls))

    @property
    def tokens_at_most(self) -> int:
        """The tokens that count against a budget."""
        if self.prompt_tokens is None or self.completion_tokens is None:
            return 0 if self.bytes_out == 0 else self.reserved_tokens
        return self.prompt_tokens + self.completion_tokens

    @property
    def cost_at_most(self) -> float | None:
        """The cost that counts against a budget; None if the price is unknown."""
        if self.cost is not None or self.bytes_out == 0:
            return self.cost or 0.0
        return self.reserved_cost
