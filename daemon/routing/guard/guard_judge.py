"""Judges what a guarded program sends, by a route of its own, as it is and with placeholders."""

from __future__ import annotations

from dataclasses import replace

from ingle.backends.base.requests import GenerateRequest

from ..detectors.finding import Sensitivity
from ..egress.outbound_request import OutboundRequest
from ..plan_maker import plan_for_decision
from ..policy.policy import REPLACED, Policy, Verdict
from ..policy.policy_tables import RedactMode, RouteDefinition
from ..policy.route_resolver import RouteTarget
from ..policy.routing_plan import InspectedDecision, RoutingPlan
from ..policy.routing_preference import NO_PREFERENCE
from ..policy.sensitivity_classes import TOPICS
from ..router import Router

GUARD = "guard"
"""The name of the route, which the policy may define."""

_FREE = REPLACED | {Sensitivity.ALLOW}
_MASKED = (Sensitivity.NEVER, Sensitivity.ASK, Sensitivity.REDACT)


def guard_route(policy: Policy, *, strict: bool) -> RouteDefinition:
    """Return the policy's route of this name, else one with placeholders for every value.

    Kinds that concern a text as a whole, and with `strict` all kinds, have the policy's classes.
    """
    if GUARD in policy.routes:
        return policy.routes[GUARD]
    classes: dict[str, Sensitivity] = {}
    if not strict:
        classes = {
            kind: Sensitivity.REDACT
            for kind, sensitivity in policy.classes.items()
            if sensitivity in _MASKED and kind not in TOPICS
        }
    return RouteDefinition(name=GUARD, redact=RedactMode.ALWAYS, classes=classes, override=True)


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
        and all(c.sensitivity in _FREE for c in kept)
    )
