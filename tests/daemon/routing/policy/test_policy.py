"""The policy's decisions about findings."""

from __future__ import annotations

import pytest

from ingle.daemon.routing.detectors.finding import FindingKind, SensitiveFinding, Sensitivity
from ingle.daemon.routing.policy.policy import Policy, Verdict
from ingle.daemon.routing.policy.policy_tables import RedactMode, RouteDefinition
from ingle.daemon.routing.policy.sensitivity_classes import DEFAULT_CLASSES, IN_CONTEXT, KIND_WORDS

pytestmark = pytest.mark.quick

AUTO = RouteDefinition(name="auto")


def findings_of(*kinds: FindingKind, certainty: float = 1.0) -> list[SensitiveFinding]:
    return [
        SensitiveFinding(
            kind=kind, start=9 * n, end=9 * n + 5, value=str(n), detector="t", certainty=certainty
        )
        for n, kind in enumerate(kinds)
    ]


def test_every_kind_has_a_class_and_a_name() -> None:
    assert set(DEFAULT_CLASSES) == {*FindingKind, IN_CONTEXT} == set(KIND_WORDS)


def test_every_kind_has_words_for_the_reason() -> None:
    for key, words in KIND_WORDS.items():
        assert words.split()[0] in ("a", "an", "the", "details", "internal", "something"), key
        assert not words.endswith((".", " ")), key


@pytest.mark.parametrize(
    ("kinds", "reason"),
    [
        (
            [FindingKind.PERSONAL, FindingKind.HEALTH, FindingKind.CARD],
            "details of a person's health and a payment card number, so it stays on this machine.",
        ),
        (
            [FindingKind.EMAIL, FindingKind.PERSONAL, FindingKind.IP_ADDRESS],
            "something that reads as personal, so it leaves only with your consent, and with"
            " placeholders for an e-mail address and an IP address.",
        ),
        (
            [FindingKind.IP_ADDRESS, FindingKind.PHONE],
            "a phone number and an IP address, so it leaves only with your consent and"
            " placeholders.",
        ),
        ([FindingKind.IP_ADDRESS], "an IP address, so it leaves only with placeholders."),
    ],
)
def test_reason_names_what_decided(kinds: list[FindingKind], reason: str) -> None:
    assert Policy().decide(findings_of(*kinds), route=AUTO).reason == f"It holds {reason}"


@pytest.mark.parametrize(
    ("kinds", "verdict", "rule"),
    [
        ([], Verdict.CLOUD, "nothing_found"),
        ([FindingKind.API_KEY], Verdict.LOCAL, "api_key=never"),
        ([FindingKind.EMAIL], Verdict.REDACT, "email=redact"),
        ([FindingKind.FILE_PATH], Verdict.REDACT, "file_path=mask"),
        ([FindingKind.FILE_PATH, FindingKind.EMAIL], Verdict.REDACT, "email=redact"),
        ([FindingKind.PERSON], Verdict.ASK, "person=ask"),
        ([FindingKind.UNINSPECTABLE], Verdict.LOCAL, "uninspectable=uninspectable"),
        ([FindingKind.PERSON, FindingKind.EMAIL], Verdict.REDACT, "person_in_context=redact"),
        ([FindingKind.PERSON, FindingKind.LAW], Verdict.ASK, "law=ask"),
        ([FindingKind.PERSON, FindingKind.HEALTH], Verdict.LOCAL, "health=never"),
        (
            [FindingKind.EMAIL, FindingKind.CARD, FindingKind.PERSON],
            Verdict.LOCAL,
            "card=never",
        ),
        ([FindingKind.EMAIL, FindingKind.WORK], Verdict.ASK, "work=ask"),
    ],
)
def test_strictest_class_decides(kinds: list[FindingKind], verdict: Verdict, rule: str) -> None:
    decision = Policy().decide(findings_of(*kinds), route=AUTO)
    assert (decision.verdict, decision.rule) == (verdict, rule)
    assert decision.reason.endswith(".")
    assert len(decision.findings) == len(kinds)


def test_headless_requests_that_need_consent_stay_local() -> None:
    for kind in (FindingKind.PERSON, FindingKind.EMAIL):
        decision = Policy().decide(findings_of(kind), route=AUTO, headless=True)
        assert decision.verdict is Verdict.LOCAL
        assert "this request came without it, so it stays on this machine" in decision.reason
    masked = Policy().decide(findings_of(FindingKind.FILE_PATH), route=AUTO, headless=True)
    assert masked.verdict is Verdict.REDACT
    always = RouteDefinition(name="auto", redact=RedactMode.ALWAYS)
    assert (
        Policy().decide(findings_of(FindingKind.EMAIL), route=always, headless=True).verdict
        == "redact"
    )


def test_redact_never_keeps_requests_local() -> None:
    never = RouteDefinition(name="auto", redact=RedactMode.NEVER)
    for kind in (FindingKind.EMAIL, FindingKind.FILE_PATH):
        assert Policy().decide(findings_of(kind), route=never).verdict is Verdict.LOCAL
    assert (
        Policy().decide(findings_of(FindingKind.EMAIL, FindingKind.WORK), route=never).verdict
        is Verdict.LOCAL
    )


def test_taint_applies_if_stricter_than_the_findings() -> None:
    policy = Policy()
    clean = policy.decide([], route=AUTO, taint=Sensitivity.NEVER)
    assert (clean.verdict, clean.tainted, clean.rule) == (Verdict.LOCAL, True, "taint")
    ask_decision = policy.decide([], route=AUTO, taint=Sensitivity.ASK)
    assert ask_decision.verdict is Verdict.ASK
    # A value to be redacted may now be phrased differently, so that it cannot be replaced.
    assert policy.decide([], route=AUTO, taint=Sensitivity.REDACT).verdict is Verdict.ASK
    worse = policy.decide(findings_of(FindingKind.CARD), route=AUTO, taint=Sensitivity.ASK)
    assert (worse.verdict, worse.tainted) == (Verdict.LOCAL, False)


def test_findings_below_least_certainty_are_ignored() -> None:
    assert (
        Policy().decide(findings_of(FindingKind.CARD, certainty=0.4), route=AUTO).verdict
        is Verdict.CLOUD
    )
    strict = Policy(least_certainty=0.0)
    assert (
        strict.decide(findings_of(FindingKind.CARD, certainty=0.4), route=AUTO).verdict
        is Verdict.LOCAL
    )


def test_kind_without_a_class_stays_local() -> None:
    assert (
        Policy(classes={}).decide(findings_of(FindingKind.EMAIL), route=AUTO).verdict
        is Verdict.LOCAL
    )
