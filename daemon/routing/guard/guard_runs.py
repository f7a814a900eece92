"""The guarded programs that run now."""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from ingle.backends.remote.providers import Provider, ProviderKind

from ...client.guard_types import GuardSummary
from ...errors import Conflict, InvalidBody, NotFound

MOST_RUNS = 64
MOST_RECEIVED = 50_000
"""Signed texts of one run; the oldest are forgotten."""


class ReceivedTexts:
    """Signed texts that came from the provider, by digest."""

    def __init__(self) -> None:
        self._digests: OrderedDict[int, None] = OrderedDict()
        self._salt = secrets.token_bytes(16)

    def add(self, text: str) -> None:
        """Remember a text."""
        if text:
            self._digests[self._digest(text)] = None
            if len(self._digests) > MOST_RECEIVED:
                self._digests.popitem(last=False)

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and self._digest(text) in self._digests

    def _digest(self, text: str) -> int:
        data = self._salt + text.encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(data, digest_size=16).digest())


@dataclass
class GuardRun:
    """One guarded program: its servers by name, and what left; `name` is of no use to others.

    Kept in memory only. `local` is the model that answers what stays here; empty refuses it. It
    ends with the process `pid`, unless that is 0.
    """

    name: str
    upstreams: Mapping[str, Provider]
    strict: bool
    local: str
    pid: int = 0
    received: ReceivedTexts = field(default_factory=ReceivedTexts)
    sent: int = 0
    redacted: int = 0
    refused: int = 0
    answered_here: int = 0
    bytes_out: int = 0
    masked: Counter[str] = field(default_factory=Counter[str])
    reasons: deque[str] = field(default_factory=lambda: deque[str](maxlen=8))

    @property
    def ended(self) -> bool:
        """Whether its process is gone."""
        import psutil

        return self.pid > 0 and not psutil.pid_exists(self.pid)

    def summary(self) -> GuardSummary:
        """Return what left so far."""
        return GuardSummary(
            sent=self.sent,
            redacted=self.redacted,
            refused=self.refused,
            answered_here=self.answered_here,
            bytes_out=self.bytes_out,
            masked=dict(self.masked),
            reasons=list(self.reasons),
        )


class GuardRuns:
    """Guarded programs by the secret in their address."""

    def __init__(self) -> None:
        self._runs: dict[str, GuardRun] = {}

    def start(self, upstreams: Mapping[str, str], *, strict: bool, local: str, pid: int = 0) -> str:
        """Return the secret of a new run; raises `InvalidBody` for an address that is not one of a
        server, and `Conflict` if too many run.
        """
        self._runs = {secret: run for secret, run in self._runs.items() if not run.ended}
        if len(self._runs) >= MOST_RUNS:
            raise Conflict("Too many guarded programs run.", hint="End some of them.")
        providers = {name: _provider(url) for name, url in upstreams.items()}
        secret = secrets.token_urlsafe(24)
        self._runs[secret] = GuardRun(secrets.token_hex(8), providers, strict, local, pid)
        return secret

    def find(self, secret: str) -> GuardRun:
        """Return the run of a secret; raises `NotFound`."""
        for known, run in self._runs.items():
            if secrets.compare_digest(known.encode(), secret.encode()) and not run.ended:
                return run
        raise NotFound(
            "No guarded program runs at this address.",
            hint="The daemon was restarted, or the program has ended: start it with `ingle guard`.",
        )

    def end(self, secret: str) -> GuardSummary:
        """End a run, and return what left; raises `NotFound`."""
        run = self.find(secret)
        del self._runs[secret]
        return run.summary()


def _provider(url: str) -> Provider:
    try:
        # Agents wait for long prompts and long thoughts.
        return Provider(
            kind=ProviderKind.OPENAI,
            base_url=url.rstrip("/"),
            first_byte_timeout=600.0,
            idle_timeout=300.0,
        )
    except ValueError as error:
        raise InvalidBody(
            f"'{url[:200]}' cannot be guarded: {error}.", param="upstreams"
        ) from error
