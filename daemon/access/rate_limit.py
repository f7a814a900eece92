"""Rate limits of API keys: requests per time, and concurrent requests."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from ..errors import RequestError
from .api_keys import KeyRecord, RequestRate


class RateLimited(RequestError):
    """The key has reached a limit; `headers` say when to retry."""

    status = 429
    code = "rate_limited"


class TokenBucket:
    """A token bucket of `rate.requests`, refilled in `rate.seconds`; times are monotonic."""

    def __init__(self, rate: RequestRate, now: float) -> None:
        self.rate = rate
        self._tokens = float(rate.requests)
        self._at = now

    def take(self, now: float) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
        a_second = self.rate.requests / self.rate.seconds
        self._tokens = min(self.rate.requests, self._tokens + (now - self._at) * a_second)
        self._at = now
        if self._tokens >= 1:
            self._tokens -= 1
            return 0.0
        return (1 - self._tokens) / a_second


@dataclass
class _Use:
    running: int = 0
    bucket: TokenBucket | None = None


class KeyLimits:
    """Applies the limits to each key's requests."""

    def __init__(
        self,
        *,
        rate: RequestRate | None = None,
        at_once: int = 0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`rate` is for keys without their own; `at_once` is the limit of concurrent requests, 0
        for none.
        """
        self._rate = rate
        self._at_once = at_once
        self._now = now
        self._uses: dict[str, _Use] = {}

    @contextmanager
    def request(self, key: KeyRecord) -> Generator[None]:
        """Count one request while it runs; raises `RateLimited`."""
        use = self._uses.setdefault(key.id, _Use())
        self._check(key, use)
        use.running += 1
        try:
            yield
        finally:
            use.running -= 1
            if use.running == 0 and use.bucket is None:
                del self._uses[key.id]

    def _check(self, key: KeyRecord, use: _Use) -> None:
        if self._at_once and use.running >= self._at_once:
            raise RateLimited(
                f"The key '{key.name}' has {use.running} requests running, as many as it may.",
                hint="Wait for one to end; `key_requests` is the limit.",
                headers={"retry-after": "1"},
            )
        rate = key.rate or self._rate
        if rate is None:
            use.bucket = None
            return
        if use.bucket is None or use.bucket.rate != rate:
            use.bucket = TokenBucket(rate, self._now())
        wait = use.bucket.take(self._now())
        if wait > 0:
            raise RateLimited(
                f"The key '{key.name}' may ask {rate.requests} times in {rate.seconds} s.",
                hint=f"Try again in {math.ceil(wait)} s.",
                headers={"retry-after": str(math.ceil(wait))},
            )
