"""Judges what a guarded program sends, first as it is, then with placeholders."""

from __future__ import annotations

from dataclasses import replace

from ingle.backends.base.requests import GenerateRequest

from ..detectors.finding import Sensitivity
from ..egress.outbound_request import OutboundRequest
from ..plan_maker import plan_for_decision
from ..policy.policy import REPLACED, Verdict
from ..policy.policy_tables import RedactMode
from ..policy.route_resolver import RouteTarget
from ..policy.routing_plan import InspectedDecision, RoutingPlan
from ..policy.routing_preference import NO_PREFERENCE
from ..policy.sensitivity_classes import TOPICS
from ..router import Router

_MASKED = REPLACED | {Sensitivity.ALLOW}


async def judge(
    router: Router, target: RouteTarget, request: GenerateRequest, memory: str
) -> tuple[RoutingPlan, OutboundRequest | None]:
    """Return the plan, and what leaves; None if it stays here, which taints its conversation.

    `memory` names that of the placeholders. Raises `PolicyError` while the policy is invalid.
    """
    router.policy.current()
    considered = await router.judged(await router.consider(target, [request]))
    plan = plan_for_decision(considered, [request], NO_PREFERENCE, None, None)
    leaving = plan
    if plan.outbound_verdict is None and _may_be_its_values(considered):
        # The text is judged again before it leaves: what is private without them stays here.
        leaving = replace(plan, verdict=Verdict.REDACT, outbound_verdict=Verdict.REDACT)
    if leaving.outbound_verdict is not None:
        outbound = await router.outbound(leaving, request, memory)
        if outbound is not None:
            return leaving, outbound
    stays = replace(plan, verdict=Verdict.LOCAL, outbound_verdict=None)
    return await router.tainting(stays), None


def _may_be_its_values(considered: InspectedDecision) -> bool:
    """Whether only the topic of a text keeps it here, and it has values that are replaced."""
    kept = [c for c in considered.classified() if c.finding.kind not in TOPICS]
    return (
        considered.target.route.redact is RedactMode.ALWAYS
        and not considered.decision.tainted
        and any(c.sensitivity in REPLACED for c in kept)
        and all(c.sensitivity in _MASKED for c in kept)
    )
