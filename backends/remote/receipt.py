"""The record of one request to a provider: bytes sent and received, and tokens used."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Outcome(StrEnum):
    """How the request ended; one that is not `complete` may have incurred costs as well."""

    COMPLETE = "complete"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    FAILED = "failed"


class TokenUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts reported by the provider; `cached` tokens of the prompt came from its cache."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    reasoning: int = 0

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            prompt=self.prompt + other.prompt,
            completion=self.completion + other.completion,
            cached=self.cached + other.cached,
            reasoning=self.reasoning + other.reasoning,
        )


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """One request with all its retries and answers.

    Bytes are those of HTTP before encryption: request lines, headers and bodies. `digests` has the
    SHA-256, in hex, of what each connection sent, in order. `usage` is None if the provider
    reported no counts. `status` is the last HTTP status, 0 without one. `first_seconds` is the time
    until the first piece of the answer, None without one.
    """

    bytes_sent: int
    bytes_received: int
    seconds: float
    outcome: Outcome
    status: int = 0
    attempts: int = 0
    digests: tuple[str, ...] = ()
    usage: TokenUsage | None = None
    first_seconds: float | None = None
