"""The route of guarded programs, which are answered by a provider of their own."""

from __future__ import annotations

from ..detectors.finding import Sensitivity
from .policy import Policy
from .policy_tables import RedactMode, RouteDefinition
from .sensitivity_classes import TOPICS

GUARD = "guard"
"""The name of the route, which the policy may define."""

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
