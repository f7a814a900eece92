"""Consent tokens: bound to one decision about one text, with an expiry."""

from __future__ import annotations

import pytest

from ingle.daemon.routing.detectors.finding import FindingKind, SensitiveFinding, Sensitivity
from ingle.daemon.routing.policy.consents import (
    KEPT_CHARACTERS,
    ConsentScope,
    ConsentStore,
    consent_binding,
)
from ingle.daemon.routing.policy.mask_edits import MaskEdits
from ingle.daemon.routing.policy.policy import PolicyDecision, Verdict


def decision(
    verdict: Verdict = Verdict.ASK, kind: FindingKind = FindingKind.PERSON
) -> PolicyDecision:
    finding = SensitiveFinding(kind=kind, start=0, end=1, value="x", detector="t")
    return PolicyDecision(
        verdict=verdict, rule="r", reason="", sensitivity=Sensitivity.ASK, findings=(finding,)
    )


def test_token_is_valid_only_for_its_binding_and_time() -> None:
    now = [0.0]
    store = ConsentStore(clock=lambda: now[0])
    token = store.issue(Verdict.CLOUD, b"binding")
    assert store.check(token, b"binding") is Verdict.CLOUD
    assert store.check(token, b"another") is None
    assert ConsentStore().check(token, b"binding") is None
    now[0] = 3_601.0
    assert store.check(token, b"binding") is None


def test_modified_token_is_invalid() -> None:
    store = ConsentStore()
    token = store.issue(Verdict.REDACT, b"b")
    assert store.check(token[:-1], b"b") is None
    assert store.check(token + "A", b"b") is None


def test_tokens_end_when_there_are_too_many_values() -> None:
    store = ConsentStore()
    first, large = (MaskEdits(hide=(letter * (KEPT_CHARACTERS // 2),)) for letter in "ab")
    tokens = [store.issue(Verdict.REDACT, b"b", edits) for edits in (first, large)]
    assert store.edits(tokens[0], "", "p/m") == first
    tokens.append(store.issue(Verdict.REDACT, b"b", MaskEdits(show=("c",))))
    valid = [store.check(token, b"b") is not None for token in tokens]
    assert valid == [False, True, True]


@pytest.mark.parametrize("token", ["", "x", "=", "ä", "a" * 10_000, "\0", "AAAA"])
def test_malformed_tokens_are_invalid(token: str) -> None:
    assert ConsentStore().check(token, b"b") is None


def test_binding_depends_on_every_part_of_the_decision() -> None:
    bindings = {
        consent_binding(b"d", decision(), "p/m", False),
        consent_binding(b"e", decision(), "p/m", False),
        consent_binding(b"d", decision(), "p/n", False),
        consent_binding(b"d", decision(), "p/m", True),
        consent_binding(b"d", decision(Verdict.REDACT), "p/m", False),
        consent_binding(b"d", decision(kind=FindingKind.WORK), "p/m", False),
    }
    assert len(bindings) == 6


def test_consent_is_remembered_for_a_conversation() -> None:
    store = ConsentStore()
    person, work = frozenset({FindingKind.PERSON}), frozenset({FindingKind.WORK})
    store.remember("c", ConsentScope(Verdict.CLOUD, "p/m", person))
    assert store.recall("c", "p/m", person) is Verdict.CLOUD
    assert store.recall("c", "p/m", work) is None
    assert store.recall("c", "other/m", person) is None
    assert store.recall("d", "p/m", person) is None
    assert store.recall("", "p/m", person) is None
    store.remember("c", ConsentScope(Verdict.CLOUD, "p/m", work))
    assert store.recall("c", "p/m", person | work) is Verdict.CLOUD
    # Consent to placeholders for one kind and to plain text for another does not cover both.
    store.remember("c", ConsentScope(Verdict.REDACT, "p/m", person))
    assert store.recall("c", "p/m", work) is None
    store.forget()
    assert store.recall("c", "p/m", person) is None
