"""The privacy policy: which findings may leave this machine; the strictest class wins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

import msgspec

from ..detectors.finding import FindingKind, SensitiveFinding, Sensitivity
from .policy_tables import AUTO, RedactMode, RouteDefinition
from .sensitivity_classes import CONTEXT, DEFAULT_CLASSES, IN_CONTEXT, KIND_WORDS

_STRICTEST_FIRST = tuple(Sensitivity)
_SHUT = frozenset({Sensitivity.NEVER, Sensitivity.UNINSPECTABLE})
REPLACED = frozenset({Sensitivity.REDACT, Sensitivity.MASK})
"""Classes of what leaves only with a placeholder in its place."""


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


class Classified(msgspec.Struct, frozen=True):
    """A finding with its class, and the policy key that determines it."""

    finding: SensitiveFinding
    sensitivity: Sensitivity
    key: str


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Classes of findings, and the routes. Its defaults are safe.

    `words` and `folders` are the user's own; findings below `least_certainty`, or inside
    `public_words`, are ignored.
    """

    classes: Mapping[str, Sensitivity] = DEFAULT_CLASSES
    least_certainty: float = 0.5
    words: tuple[str, ...] = ()
    public_words: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    routes: Mapping[str, RouteDefinition] = MappingProxyType({AUTO: RouteDefinition(name=AUTO)})

    def classify(
        self, findings: Sequence[SensitiveFinding], route: RouteDefinition
    ) -> list[Classified]:
        """Return the class of every finding that is not ignored."""
        counting = [f for f in findings if f.certainty >= self.least_certainty]
        in_context = any(f.kind in CONTEXT for f in counting)
        return [self._classified(f, route, in_context) for f in counting]

    def decide(
        self,
        findings: Sequence[SensitiveFinding],
        *,
        route: RouteDefinition,
        headless: bool = False,
        taint: Sensitivity | None = None,
    ) -> PolicyDecision:
        """Decide about a text with these findings.

        `headless`: no user can be asked, so what needs consent stays local. `taint` is the
        strictest class of earlier content of the conversation.
        """
        classified = self.classify(findings, route)
        worst = strictest(c.sensitivity for c in classified)
        tainted = taint is not None and (worst is Sensitivity.ALLOW or _rank(taint) < _rank(worst))
        if tainted:
            assert taint is not None
            verdict = Verdict.LOCAL if taint in _SHUT else Verdict.ASK
            rule, reason = "taint", "Earlier in this conversation there was something sensitive"
            worst = taint
        elif worst is Sensitivity.ALLOW:
            verdict, rule, reason = Verdict.CLOUD, "nothing_found", "Nothing sensitive was found"
        else:
            decisive = next(c for c in classified if c.sensitivity is worst)
            verdict = _verdict(classified, worst, route.redact)
            rule = f"{decisive.key}={worst.value}"
            reason = f"It holds {_named(_deciding(classified, verdict, worst))}"
        asks = verdict is Verdict.ASK or (
            verdict is Verdict.REDACT
            and worst is not Sensitivity.MASK
            and route.redact is not RedactMode.ALWAYS
        )
        if headless and asks:
            verdict, consequence = Verdict.LOCAL, _WITHOUT_CONSENT
        else:
            consequence = _consequence(verdict, classified, asks=asks)
        reason += consequence
        return PolicyDecision(
            verdict=verdict,
            rule=rule,
            reason=reason,
            sensitivity=worst,
            findings=tuple(c.finding for c in classified),
            tainted=tainted,
        )

    def _classified(
        self, finding: SensitiveFinding, route: RouteDefinition, in_context: bool
    ) -> Classified:
        key: str = finding.kind.value
        if (
            finding.kind is FindingKind.PERSON
            and in_context
            and self._class(key, route) not in _SHUT
        ):
            key = IN_CONTEXT
        return Classified(finding, self._class(key, route), key)

    def _class(self, key: str, route: RouteDefinition) -> Sensitivity:
        # A kind without a class never leaves.
        return route.classes.get(key) or self.classes.get(key, Sensitivity.NEVER)


_WITHOUT_CONSENT = (
    ", which leaves only with your consent; this request came without it, so it stays on this"
    " machine."
)


def _deciding(
    classified: Sequence[Classified], verdict: Verdict, worst: Sensitivity
) -> list[Classified]:
    """Return the findings that the verdict is due to."""
    if worst in _SHUT or verdict is Verdict.ASK:
        return [c for c in classified if c.sensitivity is worst]
    return [c for c in classified if c.sensitivity is not Sensitivity.ALLOW]


def _consequence(verdict: Verdict, classified: Sequence[Classified], *, asks: bool) -> str:
    """Return the end of the sentence that explains the verdict."""
    if verdict is Verdict.CLOUD:
        return "."
    if verdict is Verdict.LOCAL:
        return ", so it stays on this machine."
    if verdict is Verdict.REDACT:
        return f", so it leaves only with {'your consent and ' * asks}placeholders."
    replaced = [c for c in classified if c.sensitivity in REPLACED]
    placeholders = f", and with placeholders for {_named(replaced)}" if replaced else ""
    return f", so it leaves only with your consent{placeholders}."


def _named(classified: Sequence[Classified]) -> str:
    """Return the findings in words, strictest first."""
    ordered = sorted(classified, key=lambda c: _rank(c.sensitivity))
    words = list(dict.fromkeys(KIND_WORDS[c.key] for c in ordered))
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def strictest(classes: Iterable[Sensitivity]) -> Sensitivity:
    """Return the strictest of the classes; `allow` for none."""
    present = set(classes)
    return next((c for c in _STRICTEST_FIRST if c in present), Sensitivity.ALLOW)


def _rank(sensitivity: Sensitivity) -> int:
    return _STRICTEST_FIRST.index(sensitivity)


def _verdict(classified: Sequence[Classified], worst: Sensitivity, redact: RedactMode) -> Verdict:
    if worst in _SHUT:
        return Verdict.LOCAL
    replaceable = any(c.sensitivity in REPLACED for c in classified)
    if replaceable and redact is RedactMode.NEVER:
        return Verdict.LOCAL
    return Verdict.ASK if worst is Sensitivity.ASK else Verdict.REDACT
