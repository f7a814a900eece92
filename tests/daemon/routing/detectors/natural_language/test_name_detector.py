"""Name detector: people, addresses, organisations and places."""

from __future__ import annotations

import pytest

from ingle.daemon.routing.detectors.finding import FindingKind
from ingle.daemon.routing.detectors.natural_language.annotated_text import TextAnnotator
from ingle.daemon.routing.detectors.natural_language.gazetteer import (
    FIRST,
    LAST,
    PLACE,
    WORD,
    Gazetteer,
    fold,
)
from ingle.daemon.routing.detectors.natural_language.name_detector import NameDetector


@pytest.fixture(scope="module")
def detector() -> NameDetector:
    return NameDetector(TextAnnotator())


def values(detector: NameDetector, text: str, kind: FindingKind) -> list[str]:
    found = [finding for finding in detector.find(text) if finding.kind is kind]
    for finding in found:
        assert finding.value == " ".join(text[finding.start : finding.end].split())
    return [finding.value for finding in found]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("My name is Shafiqa Oyelowo and I need help.", ["Shafiqa Oyelowo"]),
        ("Mrs. Shafiqa's dress is ready", ["Shafiqa"]),
        ("Please ask my boss, Karl-Heinz Brandt, about it.", ["Karl-Heinz Brandt"]),
        ("Dear Morwared,\nall is well.", ["Morwared"]),
        ("See you there.\n\nKind regards,\nTuulikki Virtanen", ["Tuulikki Virtanen"]),
        ("The prize goes to Daniel Hagos and Maya Perkins.", ["Daniel Hagos", "Maya Perkins"]),
        ("Ich heiße Jürgen Świątek.", ["Jürgen Świątek"]),
        ("Meine Frau Ayşe kommt mit.", ["Ayşe"]),
        ("Je m'appelle Zoé Lefèvre.", ["Zoé Lefèvre"]),
        ("Mi jefe, Javier Ortega, no paga.", ["Javier Ortega"]),
        ("Patient: Ludwig van der Berg, 61", ["Ludwig van der Berg"]),
    ],
)
def test_people_are_found(detector: NameDetector, text: str, names: list[str]) -> None:
    assert values(detector, text, FindingKind.PERSON) == names


@pytest.mark.parametrize(
    "text",
    [
        "Who was Albert Einstein, and what did Dr. King say?",
        "Compare Jane Austen with Charles Dickens.",
        "Write a story about a detective called Sarah Miller.",
        "Natalia sold clips to 48 friends and half as many to Tom. How many clips did she sell?",
        "Explain the Cloud Migration Strategy for Large Enterprises in May.",
        "Der Koch nimmt das Messer aus der Küche, der Bauer geht auf das Feld.",
        "Will Grace be a word or a name? Mark the Rose.",
        "Hello World, this is Python.",
        "Dear Hiring Manager,",
        "My favourite part of Iron Man is when Tony Stark builds it.",
        "class Alice(Bob):\n    def load(self):\n        import Carol\n    def save(self): ...\n",
        "",
    ],
)
def test_public_figures_and_fiction_are_not_found(detector: NameDetector, text: str) -> None:
    assert values(detector, text, FindingKind.PERSON) == []


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("I moved to 24 Sussex Drive in May.", "24 Sussex Drive"),
        ("we live at 12 baker street now", "12 baker street"),
        ("Apt 4B, 17 North Elm St. is mine", "Apt 4B, 17 North Elm St."),
        ("Ich wohne in der Goethestraße 12a.", "Goethestraße 12a"),
        ("Lange Straße 5, 2. Stock", "Lange Straße 5"),
        ("J'habite 12 bis rue de la République à Lyon", "12 bis rue de la République"),
        ("Vivo en Calle Mayor 5, Madrid", "Calle Mayor 5"),
        ("Prinsengracht 263 in Amsterdam", "Prinsengracht 263"),
        ("Send it to P.O. Box 1234", "P.O. Box 1234"),
        ("It is SW1A 2AA, you know", "SW1A 2AA"),
        ("Springfield, IL 62704", "Springfield, IL 62704"),
    ],
)
def test_addresses_are_found(detector: NameDetector, text: str, address: str) -> None:
    assert values(detector, text, FindingKind.STREET_ADDRESS) == [address]


@pytest.mark.parametrize(
    "text", ["5 things to do on the way", "10 Downing Street is famous", "chapter 3 on page 12"]
)
def test_no_address_is_found(detector: NameDetector, text: str) -> None:
    assert values(detector, text, FindingKind.STREET_ADDRESS) == []


def test_organisations_are_found_by_legal_form_or_employment(detector: NameDetector) -> None:
    organisations = values(
        detector, "Brennan & Sons Ltd. sued. I work at Harlow Dental.", FindingKind.ORGANISATION
    )
    assert organisations == ["Brennan & Sons", "Harlow Dental"]
    assert values(detector, "Google LLC bought DeepMind.", FindingKind.ORGANISATION) == []


@pytest.mark.parametrize(
    ("text", "organisations"),
    [
        ("Tell me about the company prefchemy in two lines.", ["prefchemy"]),
        ("make an introduction of Ixicor company", ["Ixicor"]),
        ("An advert for a startup called Zentravel, please.", ["Zentravel"]),
        ("A story about Quasifin Ventures Inc. and its office", ["Quasifin Ventures"]),
        ("Which company made the first phone? A private company may have a brand name.", []),
        ("How do I make a WhatsApp group?", []),
        ("Explain how a university differs from a college or a hospital group.", []),
        ("Zorbax Company sells 40 boxes at 3 dollars. How much does it earn?", []),
    ],
)
def test_unknown_word_beside_an_organisation_type_is_found(
    detector: NameDetector, text: str, organisations: list[str]
) -> None:
    assert values(detector, text, FindingKind.ORGANISATION) == organisations


def test_multi_word_places_are_found_completely(detector: NameDetector) -> None:
    assert values(detector, "From New York to Leipzig.", FindingKind.PLACE) == [
        "New York",
        "Leipzig",
    ]


@pytest.mark.parametrize(
    "text",
    ["Aa " * 10_000, "1 " * 10_000, "A" * 100_000, "Dr. " * 10_000, "\ud800 Ab\x00c"],
    ids=["words", "digits", "one word", "titles", "broken"],
)
def test_name_after_a_hostile_text_is_found(detector: NameDetector, text: str) -> None:
    found = values(detector, f"{text}\n\nMy name is Shafiqa Oyelowo.", FindingKind.PERSON)
    assert found[-1] == "Shafiqa Oyelowo"


def test_gazetteer_round_trip() -> None:
    table = Gazetteer(Gazetteer.pack({"anna": FIRST, "paris": FIRST | PLACE, "rose": WORD | LAST}))
    assert table.flags(["anna", "paris", "rose", "xyz"]) == [FIRST, FIRST | PLACE, WORD | LAST, 0]
    assert fold("José") == "jose"
    with pytest.raises(ValueError, match="gazetteer"):
        Gazetteer(b"something else")
