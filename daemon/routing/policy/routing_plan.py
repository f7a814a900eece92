"""What was found out about a request, and the way that it takes."""

from __future__ import annotations

from dataclasses import dataclass

from ..detectors.finding import SensitiveFinding, Sensitivity
from ..inspection.request_inspector import InspectedRequest
from .policy import Classified, Policy
from .policy_decision import PolicyDecision, Verdict
from .route_resolver import RouteTarget
from .sensitivity_classes import TOPICS


@dataclass(frozen=True, kw_only=True)
class InspectedDecision:
    """A request that was looked through: what is in it, and what the policy makes of that.

    The decision is about the text, as if somebody could be asked.
    """

    target: RouteTarget
    policy: Policy
    inspected: tuple[InspectedRequest, ...]
    decision: PolicyDecision

    def classified(self) -> list[Classified]:
        """The findings that count, with their classes."""
        return self.policy.classify(self.decision.findings, self.target.route)

    def replaceable(self) -> tuple[SensitiveFinding, ...]:
        """What a placeholder can stand for, and must or may."""
        return tuple(
            c.finding
            for c in self.classified()
            if c.sensitivity is not Sensitivity.ALLOW and c.finding.kind not in TOPICS
        )

    def must_replace(self) -> bool:
        """Whether something in it never leaves as it is."""
        return any(c.sensitivity is Sensitivity.REDACT for c in self.classified())

    def yeses(self, *, override: bool = False) -> list[Verdict]:
        """What a yes may turn the verdict into; `override` is the owner's, for the class never."""
        redactable = bool(self.replaceable())
        match self.decision.verdict:
            case Verdict.REDACT:
                return [Verdict.REDACT]
            case Verdict.ASK:
                as_it_is = [] if self.must_replace() else [Verdict.CLOUD]
                return [*([Verdict.REDACT] if redactable else []), *as_it_is]
            case Verdict.LOCAL if override and self.decision.sensitivity is Sensitivity.NEVER:
                return [*([Verdict.REDACT] if redactable else []), Verdict.CLOUD]
            case _:
                return []


@dataclass(frozen=True, kw_only=True)
class RoutingPlan:
    """The way of one request.

    `verdict` is where its answer begins, `leaving` how it goes elsewhere if it does: as it is or
    with placeholders; None where it may not. They differ where it `escalates`: then the answer
    begins here, and goes elsewhere if it is uncertain. `rule` and `reason` are of what decided in
    the end. `override` says that the owner let go what never does. `taints` is the class that its
    conversation has from now on.
    """

    target: RouteTarget
    verdict: Verdict
    rule: str
    reason: str
    leaving: Verdict | None = None
    considered: InspectedDecision | None = None
    consented: bool = False
    override: bool = False
    escalates: bool = False
    taints: Sensitivity | None = None
