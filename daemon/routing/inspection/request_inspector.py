"""Inspects requests in bounded time; every failure becomes a finding."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from ingle.backends.base.requests import GenerateRequest

from ..detectors.finding import FindingKind, SensitiveFinding, TextPart
from ..detectors.own_words import OwnWords
from .request_parts import opaque_part, parts_digest, parts_of
from .scanner_process import ScannerProcess

log = logging.getLogger("ingle.daemon")

SCAN_SECONDS = 60.0
"""Of real time; a scan ends itself after ten seconds of processor time."""


class InspectedRequest(msgspec.Struct, frozen=True):
    """A request with its texts and their findings; `digest` is that of the texts."""

    request: GenerateRequest
    parts: tuple[TextPart, ...]
    findings: tuple[SensitiveFinding, ...]
    digest: bytes


class RequestInspector:
    """Scans with the user's current words, in a process of its own; for the event loop only."""

    def __init__(self, own_words: Callable[[], OwnWords], *, seconds: float = SCAN_SECONDS) -> None:
        self._own_words = own_words
        self._process = ScannerProcess(seconds)
        # One thread, which waits for the process: scans queue here.
        self._thread = ThreadPoolExecutor(1, "scan")

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
            return await asyncio.get_running_loop().run_in_executor(
                self._thread, self._process.scan, parts, self._own_words()
            )
        except TimeoutError:
            log.warning("Scanning a request took too long, so it stays here")
            return [_uninspectable("time")]
        except Exception as error:
            # Without the message: it may quote what was scanned.
            log.warning("A request could not be scanned (%s)", type(error).__name__)
            return [_uninspectable("error")]

    def forget(self) -> None:
        """End the process, which remembers what it scanned."""
        self._process.close()

    def close(self) -> None:
        """End the process and a running scan; the inspector is of no use afterwards."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._process.close()


def _parts(request: GenerateRequest) -> tuple[list[TextPart], bytes]:
    parts = parts_of(request)
    return parts, parts_digest(parts)


def _uninspectable(detector: str) -> SensitiveFinding:
    return SensitiveFinding(
        kind=FindingKind.UNINSPECTABLE, start=0, end=0, value="", detector=detector
    )
