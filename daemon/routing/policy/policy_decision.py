"""The policy's decision about one request, and its reason."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from ..detectors.finding import SensitiveFinding, Sensitivity


class Verdict(StrEnum):
    """Where a request may go: nowhere, elsewhere redacted, elsewhere after consent, elsewhere as it
    is.
    """

    LOCAL = "local"
    REDACT = "redact"
    ASK = "ask"
    CLOUD = "cloud"


class PolicyDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict with the rule that made it, and `reason`, one sentence for display.

    `sensitivity` is the strictest class found. `findings` are those of all parts, by part and
    position; `tainted`: earlier messages of the conversation decided.
    """

    verdict: Verdict
    rule: str
    reason: str
    sensitivity: Sensitivity
    findings: tuple[SensitiveFinding, ...] = ()
    tainted: bool = False
