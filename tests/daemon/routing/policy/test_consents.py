"""A yes is good for one decision about one text, and for as long as it says."""

from __future__ import annotations

import base64

import pytest

from ingle.daemon.routing.detectors.finding import FindingKind, SensitiveFinding, Sensitivity
from ingle.daemon.routing.policy.consents import ConsentScope, ConsentStore, consent_binding
from ingle.daemon.routing.policy.policy import PolicyDecision, Verdict


def decision(
    verdict: Verdict = Verdict.ASK, kind: FindingKind = FindingKind.PERSON
) -> PolicyDecision:
    finding = SensitiveFinding(kind=kind, start=0, end=1, value="x", detector="t")
    return PolicyDecision(
        verdict=verdict, rule="r", reason="", sensitivity=Sensitivity.ASK, findings=(finding,)
    )


def test_a_token_is_good_for_what_it_was_given_for() -> None:
    now = [0.0]
    book = ConsentStore(clock=lambda: now[0])
    token = book.issue(Verdict.CLOUD, b"binding")
    assert book.check(token, b"binding") is Verdict.CLOUD
    assert book.check(token, b"another") is None
    assert ConsentStore().check(token, b"binding") is None
    now[0] = 3_601.0
    assert book.check(token, b"binding") is None


def test_a_token_cannot_be_changed() -> None:
    book = ConsentStore()
    token = book.issue(Verdict.REDACT, b"b")
    content = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1
        assert book.check(base64.urlsafe_b64encode(changed).decode(), b"b") is None


@pytest.mark.parametrize("token", ["", "x", "=", "ä", "a" * 10_000, "\0", "AAAA"])
def test_nonsense_is_no_token(token: str) -> None:
    assert ConsentStore().check(token, b"b") is None


def test_a_binding_has_all_that_was_agreed_to() -> None:
    bindings = {
        consent_binding(b"d", decision(), "p/m", False),
        consent_binding(b"e", decision(), "p/m", False),
        consent_binding(b"d", decision(), "p/n", False),
        consent_binding(b"d", decision(), "p/m", True),
        consent_binding(b"d", decision(Verdict.REDACT), "p/m", False),
        consent_binding(b"d", decision(kind=FindingKind.WORK), "p/m", False),
    }
    assert len(bindings) == 6


def test_one_yes_is_enough_for_a_conversation() -> None:
    book = ConsentStore()
    person, work = frozenset({FindingKind.PERSON}), frozenset({FindingKind.WORK})
    book.remember("c", ConsentScope(Verdict.CLOUD, "p/m", person))
    assert book.recall("c", "p/m", person) is Verdict.CLOUD
    assert book.recall("c", "p/m", work) is None
    assert book.recall("c", "other/m", person) is None
    assert book.recall("d", "p/m", person) is None
    assert book.recall("", "p/m", person) is None
    book.remember("c", ConsentScope(Verdict.CLOUD, "p/m", work))
    assert book.recall("c", "p/m", person | work) is Verdict.CLOUD
    # Placeholders for one thing and the open word for another are not the open word for both.
    book.remember("c", ConsentScope(Verdict.REDACT, "p/m", person))
    assert book.recall("c", "p/m", work) is None
    book.forget()
    assert book.recall("c", "p/m", person) is None
