"""What a request to a provider came to: every byte that left and that came, and what it took."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Outcome(StrEnum):
    """How it ended; what is not `complete` may have cost something all the same."""

    COMPLETE = "complete"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    FAILED = "failed"


class TokenUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What the provider counted; `cached` of the prompt's tokens were read before."""

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
    """One departure, retries and all answers included.

    Bytes are those of HTTP as the provider reads and writes it: request lines, headers and bodies,
    before encryption. `digests` has the SHA-256, in hex, of what each connection sent, in the order
    they were made. `usage` is None where the provider told no numbers. `status` is the last one
    of HTTP, 0 where there was none.
    """

    bytes_sent: int
    bytes_received: int
    seconds: float
    outcome: Outcome
    status: int = 0
    attempts: int = 0
    digests: tuple[str, ...] = ()
    usage: TokenUsage | None = None
