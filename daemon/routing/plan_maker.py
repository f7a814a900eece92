"""Makes the plan of an inspected request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ingle.backends.base.requests import GenerateRequest

from .escalation import high_value_reason
from .policy.answer_choice import AnswerEstimates, prefers_remote
from .policy.policy import Verdict
from .policy.routing_plan import InspectedDecision, RoutingPlan, local_plan
from .policy.routing_preference import RoutingPreference


def plan_for_decision(
    considered: InspectedDecision,
    requests: Sequence[GenerateRequest],
    preference: RoutingPreference,
    estimates: AnswerEstimates | None,
    yes: Verdict | None,
) -> RoutingPlan:
    """Return the plan from the decision, the verdict consented to, and the route's preference."""
    target, decision = considered.target, considered.decision
    considered = considered if yes is not None else considered.all_masked()
    here = partial(local_plan, target, considered)

    def outbound(verdict: Verdict, rule: str, reason: str) -> RoutingPlan:
        return RoutingPlan(
            target=target,
            verdict=verdict,
            outbound_verdict=verdict,
            rule=rule,
            reason=reason,
            considered=considered,
            consented=yes is not None,
            override=yes is not None and decision.verdict is Verdict.LOCAL,
        )

    if yes is not None:
        return outbound(yes, decision.rule, f"{decision.reason} You consented.")
    if preference.route == "ask":
        return here("ask_first", f"{decision.reason} It leaves only with your consent.")
    alone = considered.policy.decide(
        decision.findings,
        route=target.route,
        headless=True,
        taint=decision.sensitivity if decision.tainted else None,
    )
    if alone.verdict is Verdict.LOCAL:
        stale = " The consent in the request has expired, or is for another text."
        return here(alone.rule, alone.reason + (stale if preference.consent is not None else ""))
    prefer = target.route.prefer
    choice = estimates.compare(prefer) if estimates is not None else ""
    if target.named or prefers_remote(prefer, estimates):
        reason = f"{alone.reason} {choice}".rstrip()
        return replace(outbound(alone.verdict, alone.rule, reason), choice=choice)
    value = high_value_reason(requests[0], target.route)
    if value is not None and "valuable" in target.route.escalate:
        return outbound(alone.verdict, "valuable", f"It may leave, and {value}.")
    why = f"It may leave, but this route prefers this machine. {choice}".rstrip()
    stays = replace(here(f"prefer_{prefer}", why), choice=choice)
    # With several answers or prompts, each of them would have to be certain.
    if "uncertain" in target.route.escalate and len(requests) == 1:
        return replace(stays, escalates=True, outbound_verdict=alone.verdict)
    return stays
