"""The inspection of a request, and its resulting route."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...errors import RouteRefused
from ..detectors.finding import SensitiveFinding, Sensitivity
from ..inspection.request_inspector import InspectedRequest
from .mask_edits import NO_EDITS, MaskEdits
from .policy import REPLACED, Classified, Policy, PolicyDecision, Verdict
from .route_resolver import RouteTarget
from .sensitivity_classes import TOPICS


@dataclass(frozen=True, kw_only=True)
class InspectedDecision:
    """An inspected request: its findings, and the policy's decision.

    The decision is about the text, as if a user could be asked for consent; `edits` are the masks
    set and lifted by hand.
    """

    target: RouteTarget
    policy: Policy
    inspected: tuple[InspectedRequest, ...]
    decision: PolicyDecision
    edits: MaskEdits = NO_EDITS

    def classified(self) -> list[Classified]:
        """Return the findings that count, with their classes."""
        return self.policy.classify(self.decision.findings, self.target.route)

    def sensitive_findings(self) -> list[tuple[InspectedRequest, list[Classified]]]:
        """Return each request with those of its findings that may not simply leave."""
        classified = [
            (one, self.policy.classify(one.findings, self.target.route)) for one in self.inspected
        ]
        return [
            (one, [c for c in found if c.sensitivity is not Sensitivity.ALLOW])
            for one, found in classified
        ]

    def replaceable(self) -> tuple[SensitiveFinding, ...]:
        """Return the findings that a placeholder can replace, and must or may."""
        return tuple(
            c.finding
            for c in self.classified()
            if c.sensitivity is not Sensitivity.ALLOW and c.finding.kind not in TOPICS
        )

    def all_masked(self) -> InspectedDecision:
        """Return it without lifted masks: they belong to a consent."""
        return replace(self, edits=MaskEdits(self.edits.hide))

    def grantable_verdicts(self, *, override: bool = False, asks: bool = False) -> list[Verdict]:
        """Return the verdicts that consent can grant; `override` includes the class never.

        `asks`: even harmless text leaves with consent only.
        """
        redactable = bool(self.replaceable())
        match self.decision.verdict:
            case Verdict.REDACT:
                return [Verdict.REDACT]
            case Verdict.ASK:
                replaced = any(c.sensitivity in REPLACED for c in self.classified())
                as_it_is = [] if replaced else [Verdict.CLOUD]
                return [*([Verdict.REDACT] if redactable else []), *as_it_is]
            case Verdict.LOCAL if override and self.decision.sensitivity is Sensitivity.NEVER:
                return [*([Verdict.REDACT] if redactable else []), Verdict.CLOUD]
            case Verdict.CLOUD if asks:
                return [Verdict.CLOUD]
            case _:
                return []


@dataclass(frozen=True, kw_only=True)
class RoutingPlan:
    """The route of one request.

    `verdict` says where its answer begins, `outbound_verdict` how it may be sent elsewhere: as
    it is or redacted; None if it may not. They differ if it `escalates`: then the answer begins
    locally, and is sent elsewhere if it is uncertain. `rule` and `reason` are those that
    finally decided, `choice` compares both sides if the route's preference did. `override`: the
    user released what never leaves. `taints` is the class that its conversation gets.
    """

    target: RouteTarget
    verdict: Verdict
    rule: str
    reason: str
    outbound_verdict: Verdict | None = None
    considered: InspectedDecision | None = None
    consented: bool = False
    override: bool = False
    escalates: bool = False
    taints: Sensitivity | None = None
    choice: str = ""


def local_plan(
    target: RouteTarget, considered: InspectedDecision | None, rule: str, reason: str
) -> RoutingPlan:
    """Return the plan of a request that is answered on this machine."""
    return RoutingPlan(
        target=target, verdict=Verdict.LOCAL, rule=rule, reason=reason, considered=considered
    )


def refused(plan: RoutingPlan) -> RouteRefused:
    """Return the error for a client that named a provider's model for a request that may not
    leave.
    """
    hint = "With the model `auto` it is answered on this machine."
    if plan.considered is not None and plan.considered.grantable_verdicts(override=True):
        kept = plan.considered.decision.verdict is Verdict.LOCAL
        named = " that names the class 'never'" if kept else ""
        hint += f" `ingle route explain` shows what was found; a consent{named} releases it once."
    return RouteRefused(
        f"This request is not sent to '{plan.target.remote[:200]}': {plan.reason}", hint=hint
    )
