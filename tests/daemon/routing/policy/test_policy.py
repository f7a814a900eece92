"""What the policy decides about findings."""

from __future__ import annotations

import pytest

from ingle.daemon.routing.detectors.finding import FindingKind, SensitiveFinding, Sensitivity
from ingle.daemon.routing.policy.policy import Policy, Verdict
from ingle.daemon.routing.policy.policy_tables import RedactMode, RouteDefinition
from ingle.daemon.routing.policy.sensitivity_classes import DEFAULT_CLASSES, IN_CONTEXT, KIND_WORDS

pytestmark = pytest.mark.quick

AUTO = RouteDefinition(name="auto")


def found(*kinds: FindingKind, certainty: float = 1.0) -> list[SensitiveFinding]:
    return [
        SensitiveFinding(
            kind=kind, start=9 * n, end=9 * n + 5, value=str(n), detector="t", certainty=certainty
        )
        for n, kind in enumerate(kinds)
    ]


def test_every_kind_has_a_class_and_a_name() -> None:
    assert set(DEFAULT_CLASSES) == {*FindingKind, IN_CONTEXT} == set(KIND_WORDS)


def test_every_kind_reads_well_in_a_reason() -> None:
    for key, words in KIND_WORDS.items():
        assert words.split()[0] in ("a", "an", "the", "details", "text", "something"), key
        assert not words.endswith((".", " ")), key
    reason = Policy().decide(found(FindingKind.PERSONAL, FindingKind.HEALTH), route=AUTO).reason
    assert reason == (
        "It holds details of a person's health and something that reads as personal, "
        "so it stays on this machine."
    )


@pytest.mark.parametrize(
    ("kinds", "verdict", "rule"),
    [
        ([], Verdict.CLOUD, "nothing_found"),
        ([FindingKind.PLACE], Verdict.CLOUD, "nothing_found"),
        ([FindingKind.API_KEY], Verdict.LOCAL, "api_key=never"),
        ([FindingKind.EMAIL], Verdict.REDACT, "email=redact"),
        ([FindingKind.PERSON], Verdict.ASK, "person=ask"),
        ([FindingKind.UNINSPECTABLE], Verdict.LOCAL, "uninspectable=uninspectable"),
        ([FindingKind.PERSON, FindingKind.EMAIL], Verdict.REDACT, "person_in_context=redact"),
        ([FindingKind.PERSON, FindingKind.LAW], Verdict.ASK, "law=ask"),
        ([FindingKind.PERSON, FindingKind.HEALTH], Verdict.LOCAL, "health=never"),
        (
            [FindingKind.EMAIL, FindingKind.PLACE, FindingKind.CARD, FindingKind.PERSON],
            Verdict.LOCAL,
            "card=never",
        ),
        ([FindingKind.EMAIL, FindingKind.WORK], Verdict.ASK, "work=ask"),
    ],
)
def test_the_strongest_class_wins(kinds: list[FindingKind], verdict: Verdict, rule: str) -> None:
    decision = Policy().decide(found(*kinds), route=AUTO)
    assert (decision.verdict, decision.rule) == (verdict, rule)
    assert decision.reason.endswith(".")
    assert len(decision.findings) == len(kinds)


def test_where_nobody_can_be_asked_what_needs_a_yes_stays() -> None:
    for kind in (FindingKind.PERSON, FindingKind.EMAIL):
        decision = Policy().decide(found(kind), route=AUTO, headless=True)
        assert decision.verdict is Verdict.LOCAL
        assert "no way to ask for consent" in decision.reason
    always = RouteDefinition(name="auto", redact=RedactMode.ALWAYS)
    assert (
        Policy().decide(found(FindingKind.EMAIL), route=always, headless=True).verdict == "redact"
    )


def test_an_owner_who_wants_no_placeholders_gets_none() -> None:
    never = RouteDefinition(name="auto", redact=RedactMode.NEVER)
    assert Policy().decide(found(FindingKind.EMAIL), route=never).verdict is Verdict.LOCAL
    assert (
        Policy().decide(found(FindingKind.EMAIL, FindingKind.WORK), route=never).verdict
        is Verdict.LOCAL
    )


def test_taint_decides_where_it_is_stricter_than_what_is_said_now() -> None:
    policy = Policy()
    clean = policy.decide([], route=AUTO, taint=Sensitivity.NEVER)
    assert (clean.verdict, clean.tainted, clean.rule) == (Verdict.LOCAL, True, "taint")
    asked = policy.decide([], route=AUTO, taint=Sensitivity.ASK)
    assert asked.verdict is Verdict.ASK
    # What was to be replaced may stand in other words now: a placeholder cannot be put there.
    assert policy.decide([], route=AUTO, taint=Sensitivity.REDACT).verdict is Verdict.ASK
    worse = policy.decide(found(FindingKind.CARD), route=AUTO, taint=Sensitivity.ASK)
    assert (worse.verdict, worse.tainted) == (Verdict.LOCAL, False)


def test_what_is_too_uncertain_does_not_count() -> None:
    assert (
        Policy().decide(found(FindingKind.CARD, certainty=0.4), route=AUTO).verdict is Verdict.CLOUD
    )
    strict = Policy(least_certainty=0.0)
    assert (
        strict.decide(found(FindingKind.CARD, certainty=0.4), route=AUTO).verdict is Verdict.LOCAL
    )


def test_a_kind_without_a_class_never_leaves() -> None:
    assert Policy(classes={}).decide(found(FindingKind.PLACE), route=AUTO).verdict is Verdict.LOCAL
