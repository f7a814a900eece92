"""What the policy decided about one request, and why."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from ..detectors.finding import SensitiveFinding, Sensitivity


class Verdict(StrEnum):
    """Where a request may go: nowhere else, elsewhere with placeholders, after a yes, as it is."""

    LOCAL = "local"
    REDACT = "redact"
    ASK = "ask"
    CLOUD = "cloud"


class PolicyDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict with the rule that made it, and `reason`, one sentence for people.

    `sensitivity` is the strictest class found. `findings` are those of all parts, by part and
    place; `tainted` says that the conversation's earlier messages decided.
    """

    verdict: Verdict
    rule: str
    reason: str
    sensitivity: Sensitivity
    findings: tuple[SensitiveFinding, ...] = ()
    tainted: bool = False
