"""Explains the findings in a text and the policy's decision, for users and the chat."""

from __future__ import annotations

from ingle.backends.base.requests import GenerateRequest
from ingle.backends.remote.errors import CannotExpress

from ..client.routing_types import ExplainedFinding, Explanation, RedactedText, ReplacedSpan
from .egress.outbound_request import redact
from .policy.mask_edits import MaskEdits
from .policy.policy import Verdict
from .policy.routing_plan import InspectedDecision, RoutingPlan
from .policy.routing_preference import NO_PREFERENCE, RoutingPreference
from .router import Router


async def explain(
    router: Router,
    name: str,
    request: GenerateRequest,
    *,
    preference: RoutingPreference = NO_PREFERENCE,
    override: bool = False,
    edits: MaskEdits | None = None,
) -> Explanation:
    """Return the explanation; `override` asks for a consent that names the class never.

    `edits` are masks set and lifted by hand, by default those of the request's conversation.
    """
    considered, plan = await router.preview(name, request, preference=preference, edits=edits)
    decision, target = considered.decision, considered.target
    verdict, rule = decision.verdict, decision.rule
    if request.private:
        verdict, rule = Verdict.LOCAL, plan.rule
    grantable_verdicts = (
        []
        if request.private or not target.provider
        else considered.grantable_verdicts(override=override, asks=preference.route == "ask")
    )
    binding = router.binding(considered, override=override and decision.verdict is Verdict.LOCAL)
    return Explanation(
        verdict=verdict.value,
        rule=rule,
        reason=_reason(considered, plan, verdict),
        sensitivity=decision.sensitivity,
        tainted=decision.tainted,
        findings=_findings(considered),
        route=target.route.name,
        provider=target.provider,
        model=target.model or target.local,
        goes_to=target.remote
        if plan.outbound_verdict is not None and not plan.escalates
        else "local",
        redacted=await _redacted(router, considered, override=override),
        consents={
            yes.value: router.consents.issue(yes, binding, considered.edits)
            for yes in grantable_verdicts
        },
        hide=list(considered.edits.hide),
        show=list(considered.edits.show),
    )


def _reason(considered: InspectedDecision, plan: RoutingPlan, verdict: Verdict) -> str:
    """Return the reason of the verdict, and if it differs, that of the route."""
    reason = considered.decision.reason
    if verdict is Verdict.LOCAL and considered.decision.verdict is not Verdict.LOCAL:
        return plan.reason
    if plan.outbound_verdict is not None and plan.choice:
        return f"{reason} {plan.choice}"
    if plan.outbound_verdict is None and plan.rule not in (considered.decision.rule, "ask_first"):
        reason += f" {plan.reason}"
    return reason


def _findings(considered: InspectedDecision) -> list[ExplainedFinding]:
    (inspected,) = considered.inspected
    return [
        ExplainedFinding(
            kind=c.finding.kind.value,
            sensitivity=c.sensitivity.value,
            where=inspected.parts[c.finding.part].where
            if c.finding.part < len(inspected.parts)
            else "",
            start=c.finding.start,
            end=c.finding.end,
            detector=c.finding.detector,
        )
        for c in considered.classified()
    ]


async def _redacted(
    router: Router, considered: InspectedDecision, *, override: bool
) -> list[RedactedText]:
    """Return the texts as they would leave; none if nothing is replaced, or that is not
    possible.
    """
    stays = considered.decision.verdict is Verdict.LOCAL and not override
    if stays or not considered.replaceable():
        return []
    try:
        _, redaction = await redact(considered, considered.inspected[0], router.memories)
    except CannotExpress:
        return []
    return [
        RedactedText(part.where, part.text, [ReplacedSpan(*span) for span in part.spans])
        for part in redaction.changed
    ]
