"""Inspects requests in bounded time; every failure becomes a finding."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import msgspec

from ingle.backends.base.requests import GenerateRequest

from ..detectors.finding import FindingKind, SensitiveFinding, TextPart
from ..detectors.own_words import OwnWords
from .request_parts import opaque_part, parts_digest, parts_of

if TYPE_CHECKING:
    from .text_scanner import Scanner

log = logging.getLogger("ingle.daemon")

SHORT = 4_000
"""Characters up to which a text is scanned at once, on the event loop."""

SCAN_SECONDS = 10.0
THREADS = 2


class InspectedRequest(msgspec.Struct, frozen=True):
    """A request with its texts and their findings; `digest` is that of the texts."""

    request: GenerateRequest
    parts: tuple[TextPart, ...]
    findings: tuple[SensitiveFinding, ...]
    digest: bytes


class RequestInspector:
    """Scans with the user's current words; for the event loop only."""

    def __init__(
        self,
        own_words: Callable[[], OwnWords],
        *,
        make: Callable[[OwnWords], Scanner] | None = None,
        seconds: float = SCAN_SECONDS,
    ) -> None:
        self._own_words = own_words
        self._make = make or _make_scanner
        self._seconds = seconds
        self._words: OwnWords | None = None
        self._scanner: Scanner | None = None
        # Separate threads: a scan that hangs must not block those of the rest of the daemon.
        self._threads: ThreadPoolExecutor | None = None

    async def inspect(self, request: GenerateRequest, opaque: str = "") -> InspectedRequest:
        """Inspect one request; `opaque` says where it has content that is not text."""
        parts, digest = await asyncio.to_thread(_parts, request)
        place = opaque or opaque_part(request)
        if place:
            findings = [_uninspectable(place)]
        else:
            findings = await self.scan(parts)
        return InspectedRequest(request, tuple(parts), tuple(findings), digest)

    async def scan(self, parts: Sequence[TextPart]) -> list[SensitiveFinding]:
        """Return the findings in the parts; an error or a time-out is a finding, too."""
        try:
            scanner = await self._current()
            if sum(len(part.text) for part in parts) <= SHORT:
                return scanner.scan(parts)
            if self._threads is None:
                self._threads = ThreadPoolExecutor(THREADS, "scan")
            scanning = asyncio.get_running_loop().run_in_executor(
                self._threads, scanner.scan, parts
            )
            return await asyncio.wait_for(scanning, self._seconds)
        except TimeoutError:
            log.warning("Scanning a request took too long, so it stays here")
            return [_uninspectable("time")]
        except Exception as error:
            # Without the message: it may quote what was scanned.
            log.warning("A request could not be scanned (%s)", type(error).__name__)
            return [_uninspectable("error")]

    def forget(self) -> None:
        """Clear the cache of scanned texts."""
        self._scanner = None

    def close(self) -> None:
        """Close the threads without waiting for a running scan."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _current(self) -> Scanner:
        words = self._own_words()
        scanner = self._scanner
        if scanner is None or words != self._words:
            scanner = await asyncio.to_thread(self._make, words)
            self._scanner, self._words = scanner, words
        return scanner


def _parts(request: GenerateRequest) -> tuple[list[TextPart], bytes]:
    parts = parts_of(request)
    return parts, parts_digest(parts)


def _make_scanner(words: OwnWords) -> Scanner:
    # Most daemons never scan anything, and the detectors' tables take a while to load.
    from .text_scanner import make_scanner

    return make_scanner(words)


def _uninspectable(detector: str) -> SensitiveFinding:
    return SensitiveFinding(
        kind=FindingKind.UNINSPECTABLE, start=0, end=0, value="", detector=detector
    )
