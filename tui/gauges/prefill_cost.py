"""What it costs to throw away what is in the KV cache: tokens to read again, and seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from ..text import number_format

CONFIRM_SECONDS = 5.0
"""From here on a warning waits for an answer; below it is only told."""
MENTION_TOKENS = 256
"""What is less is read in no time that anybody would notice."""

RequestMessage = Mapping[str, str]


class PrefillCost(msgspec.Struct, frozen=True):
    """Tokens that are computed again, and the seconds that takes; None where no rate is known."""

    tokens: int = 0
    seconds: float | None = None
    estimated: bool = False

    @property
    def is_worth_telling(self) -> bool:
        """Whether anybody would notice."""
        return self.tokens >= MENTION_TOKENS and (self.seconds is None or self.seconds >= 0.3)

    @property
    def needs_consent(self) -> bool:
        """Whether to ask before it is paid."""
        return self.seconds is not None and self.seconds >= CONFIRM_SECONDS

    @property
    def sentence(self) -> str:
        """`this re-reads 6 912 tokens, about 3 s`; "" where it is not worth telling."""
        if not self.is_worth_telling:
            return ""
        about = "≈ " if self.estimated else ""
        time = "" if self.seconds is None else f", about {number_format.remaining(self.seconds)}"
        return f"this re-reads {about}{number_format.tokens(self.tokens)} tokens{time}"


def reread_price(
    cached: Sequence[RequestMessage],
    wanted: Sequence[RequestMessage],
    tokens_of: Callable[[RequestMessage], tuple[int, bool]],
    rate: float | None,
) -> PrefillCost:
    """The price of sending `wanted` where the cache holds `cached`.

    The cache is of use up to the first message that differs; what of `wanted` is behind it is
    read again. With another model nothing is cached. `tokens_of` tells a message's tokens and
    whether they are exact; `rate` is prompt tokens a second.
    """
    kept = 0
    for before, after in zip(cached, wanted, strict=False):
        if dict(before) != dict(after):
            break
        kept += 1
    counts = [tokens_of(message) for message in wanted[kept:]]
    tokens = sum(count for count, _ in counts)
    seconds = tokens / rate if rate else None
    return PrefillCost(tokens, seconds, estimated=not all(exact for _, exact in counts))


def prompt_rate(prompt_tokens: int, cached_tokens: int, seconds: float) -> float | None:
    """Prompt tokens a second of an answer; None where too few were read to tell."""
    read = prompt_tokens - cached_tokens
    return read / seconds if read >= 64 and seconds > 0 else None
