"""Judges what a guarded program sends, first as it is, then with placeholders."""

from __future__ import annotations

import re
from dataclasses import replace

from msgspec import structs

from ingle.backends.base.requests import GenerateRequest

from ..detectors.finding import FindingKind, SensitiveFinding, Sensitivity
from ..egress.outbound_request import OutboundRequest
from ..inspection.request_inspector import InspectedRequest
from ..plan_maker import plan_for_decision
from ..policy.policy import REPLACED, Verdict
from ..policy.policy_tables import RedactMode
from ..policy.route_resolver import RouteTarget
from ..policy.routing_plan import InspectedDecision, RoutingPlan
from ..policy.routing_preference import NO_PREFERENCE
from ..policy.sensitivity_classes import TOPICS
from ..router import Router

_SEPARATOR = re.compile(r"[/\\]")
_MASKED = REPLACED | {Sensitivity.ALLOW}


async def judge(
    router: Router, target: RouteTarget, request: GenerateRequest, memory: str
) -> tuple[RoutingPlan, OutboundRequest | None]:
    """Return the plan, and what leaves; None if it stays here, which taints its conversation.

    `memory` names that of the placeholders. Raises `PolicyError` while the policy is invalid.
    """
    router.policy.current()
    considered = await router.judged(await router.consider(target, [request]))
    considered = replace(considered, inspected=tuple(map(_folders_only, considered.inspected)))
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


def _folders_only(inspected: InspectedRequest) -> InspectedRequest:
    """Return the request with only the folder found of a path below one that is named, too.

    A provider's model must see which files are in the folder where it works.
    """

    def text(finding: SensitiveFinding) -> str:
        return inspected.parts[finding.part].text[finding.start : finding.end]

    paths = {text(one) for one in inspected.findings if one.kind is FindingKind.FILE_PATH}
    folders = sorted((path for path in paths if len(_SEPARATOR.findall(path)) > 2), key=len)
    changed: list[SensitiveFinding] = []
    for finding in inspected.findings:
        if finding.kind is FindingKind.FILE_PATH:
            path = text(finding)
            for folder in reversed(folders):
                if path.startswith(folder) and _SEPARATOR.match(path, len(folder)):
                    end = finding.start + len(folder)
                    finding = structs.replace(finding, end=end, value=folder)
                    break
        changed.append(finding)
    return structs.replace(inspected, findings=tuple(changed))


def _may_be_its_values(considered: InspectedDecision) -> bool:
    """Whether only the topic of a text keeps it here, and it has values that are replaced."""
    kept = [c for c in considered.classified() if c.finding.kind not in TOPICS]
    return (
        considered.target.route.redact is RedactMode.ALWAYS
        and not considered.decision.tainted
        and any(c.sensitivity in REPLACED for c in kept)
        and all(c.sensitivity in _MASKED for c in kept)
    )
