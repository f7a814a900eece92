"""Messages between `ScannerProcess` and its process, one answer for each request, in order.

Framed as the worker protocol: a little-endian u32 length, then that many bytes of msgpack.
"""

from __future__ import annotations

import msgspec

from ..detectors.finding import SensitiveFinding, TextPart
from ..detectors.own_words import OwnWords


class ScanRequest(msgspec.Struct, frozen=True):
    """Scan the texts with the user's words."""

    parts: list[TextPart]
    words: OwnWords


class FindingList(msgspec.Struct, frozen=True):
    """The findings, or the type of the error; its message might quote what was scanned."""

    findings: list[SensitiveFinding] = []
    error: str = ""
