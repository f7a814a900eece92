"""Checksums of cards, IBANs and ISBNs."""

from __future__ import annotations

from ingle.tui.privacy.pii_patterns import is_card, is_iban, is_isbn, luhn


def test_single_digit_errors_are_detected() -> None:
    for check, number in ((is_card, "4111111111111111"), (is_iban, "DE89370400440532013000")):
        assert check(number)
        for place in range(4, len(number)):
            digit = str((int(number[place]) + 1) % 10)
            assert not check(number[:place] + digit + number[place + 1 :])


def test_luhn_checksum() -> None:
    assert luhn("79927398713")
    assert not any(luhn(f"7992739871{digit}") for digit in "012456789")


def test_iban_length_depends_on_the_country() -> None:
    assert is_iban("NO9386011117947")
    assert not is_iban("XX9386011117947")
    assert not is_iban("")


def test_isbn_is_distinguished_from_card_number() -> None:
    assert is_isbn("9780306406157")
    assert is_isbn("0306406152")
    assert is_isbn("080442957X")
    assert not is_isbn("0306406153")
    assert not is_card("9780306406157")
