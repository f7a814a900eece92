"""Redaction of findings in a text by masks."""

from __future__ import annotations

from ingle.tui.privacy.pii_scanner import masks, pieces, redact, scan

TEXT = "From a@x.example.org to b@x.example.org, cc a@x.example.org; IBAN GB82WEST12345698765432."


def test_equal_values_get_equal_masks() -> None:
    assert masks(TEXT, scan(TEXT)) == ["⟦e-mail 1⟧", "⟦e-mail 2⟧", "⟦e-mail 1⟧", "⟦IBAN⟧"]


def test_all_findings_are_masked_except_allowed_ones() -> None:
    findings = scan(TEXT)
    assert redact(TEXT, findings) == ("From ⟦e-mail 1⟧ to ⟦e-mail 2⟧, cc ⟦e-mail 1⟧; IBAN ⟦IBAN⟧.")
    assert redact(TEXT, findings, {1}) == (
        "From ⟦e-mail 1⟧ to b@x.example.org, cc ⟦e-mail 1⟧; IBAN ⟦IBAN⟧."
    )
    assert redact(TEXT, findings, range(len(findings))) == TEXT


def test_pieces_refer_to_their_finding() -> None:
    parts = pieces(TEXT, scan(TEXT), {0})
    assert [(part.finding, part.masked) for part in parts if part.finding is not None] == [
        (0, False),
        (1, True),
        (2, True),
        (3, True),
    ]


def test_text_without_findings_is_unchanged() -> None:
    assert redact("Hello", []) == "Hello"
    assert redact("", []) == ""
