"""The measurement of the structured detectors: a small slice each time, all of it with `slow`."""

from __future__ import annotations

import random
import re
import warnings

import evasions
import fresh_disguises
import fresh_values
import phonenumbers
import pytest
import unseen_disguises
from harmless_numbers import harmless
from identifier_templates import SENTENCES
from identifier_values import KINDS, LOCALES, Values
from identifiers import Measured, Rate, measure, measure_evasions, samples, scanner
from unseen_national_ids import brazil, italian_letter, modulo_11, modulo_11_10, verhoeff
from unseen_values import PHONE_REGIONS


def measured(split: str, rounds: int) -> tuple[Measured, Measured]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # faker tells that a locale of its own is old
        texts = samples(split, rounds)
        evaded = measure_evasions(scanner(), split, max(1, rounds // 4))
    return measure(scanner(), texts, harmless(split, 60 * rounds)), evaded


def test_no_sentence_and_no_locale_is_in_two_splits() -> None:
    for sets in (SENTENCES, LOCALES):
        everything = [one for split in sets.values() for one in split]
        assert len(everything) == len(set(everything))


def test_an_interval_holds_its_share() -> None:
    low, high = Rate(99, 100).interval
    assert low < 0.99 < high <= 1
    assert Rate(0, 0).interval == (0.0, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("split", ["tuning", "held out"])
def test_a_slice_reaches_its_floors(split: str) -> None:
    """Below the goals by what chance may take from so few."""
    found, evaded = measured(split, 2)
    assert found.rates["span recall"].share >= 0.97, found.wrong
    assert found.rates["precision"].share >= 0.95, found.wrong
    assert found.rates["false alarms on harmless prompts"].share <= 0.02, found.wrong
    assert evaded.rates["caught"].share >= 0.92, evaded.wrong


@pytest.mark.parametrize("split", ["fresh", "unseen"])
def test_made_up_cards_and_ibans_are_valid(split: str) -> None:
    """A wrong label would be counted as an error of the scanner."""
    values = Values(split, 4)
    for _ in range(300):
        digits = [int(letter) for letter in values.make("card") if letter.isdigit()]
        doubled = sum(sum(divmod(2 * digit, 10)) for digit in digits[-2::-2])
        assert (doubled + sum(digits[::-2])) % 10 == 0
        iban = "".join(values.make("iban").split())
        assert int("".join(str(int(letter, 36)) for letter in iban[4:] + iban[:4])) % 97 == 1


def test_the_fresh_set_does_not_fall_back() -> None:
    """Somewhat below what was measured of it after its repairs; it never reached the goals."""
    found, evaded = measured("fresh", 2)
    assert found.rates["span recall"].share >= 0.96, found.wrong
    assert found.rates["precision"].share >= 0.98, found.wrong
    assert evaded.rates["caught"].share >= 0.76, evaded.wrong


def test_every_kind_stands_where_the_unseen_set_says() -> None:
    split = samples("unseen", 1)
    kinds = {kind for sample in split for _, _, kind in sample.spans}
    assert kinds >= {*KINDS, *fresh_values.MAKERS}
    for template, sample in zip(SENTENCES["unseen"], split, strict=True):
        place, text = 0, ""
        for start, end, kind in sample.spans:
            assert sample.text[start:end].strip()
            text += sample.text[place:start] + f"<{kind}>"
            place = end
        shown = re.sub(r"(?<!{){(\w+)(?::[\w-]+)?}", r"<\1>", template)
        assert shown.replace("{{", "{").replace("}}", "}") in text + sample.text[place:]


def test_the_unseen_set_uses_the_published_check_digits() -> None:
    """Examples of the authorities and of the articles about the rules."""
    assert italian_letter("RSSMRA85T10A562") == "S"
    assert verhoeff("236") == "3"
    assert modulo_11_10("8609574271") == "9"
    assert brazil("111444777") == "35"
    assert modulo_11(range(10, 1, -1))("943476591") == "9"  # the NHS
    assert modulo_11(range(-9, -1))("11122233") == "3"  # the Netherlands


def test_the_phones_of_the_unseen_set_are_valid() -> None:
    values = Values("unseen", 4)
    for region in PHONE_REGIONS:
        shown = values.make(f"phone:{region}").replace("(0)", "")
        assert phonenumbers.is_valid_number(phonenumbers.parse(shown, region)), (region, shown)


def test_no_way_of_the_unseen_set_shows_the_value_or_is_of_another_split() -> None:
    before = {way for ways in (*evasions.WAYS.values(), fresh_disguises.WAYS) for way in ways}
    assert not before & unseen_disguises.WAYS.keys()
    values, source = Values("unseen", 5), random.Random(5)
    for way, (suits, change) in unseen_disguises.WAYS.items():
        card = suits in (evasions.ANY, evasions.DIGITS)
        kind = "card" if card else suits if suits in ("email", "iban", "key") else "email"
        for _ in range(20):
            value = values.make(kind)
            assert value not in change(value, source), way
    for way, cut in unseen_disguises.SPLITS.items():
        value = values.make("email")
        assert all(value not in text for text in cut(value)), way


@pytest.mark.slow
@pytest.mark.parametrize("split", ["tuning", "second", "held out"])
def test_all_of_it_reaches_the_goals(split: str) -> None:
    found, evaded = measured(split, 40)
    assert found.rates["span recall"].share >= 0.99, found.wrong[:40]
    assert found.rates["precision"].share >= 0.95, found.wrong[:40]
    assert evaded.rates["caught"].share >= 0.95, evaded.wrong[:40]
