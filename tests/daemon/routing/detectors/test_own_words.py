"""The user's own words: folded over case, accents, hyphens, compounds and inflection."""

from __future__ import annotations

import pytest

from ingle.daemon.routing.detectors.own_words import OwnWordDetector, OwnWords

pytestmark = pytest.mark.quick

# Written before the rules were: a word, forms of it, and others that are not.
FORMS: list[tuple[str, list[str], list[str]]] = [
    (
        "Project Heron",
        [
            "Project-Heron",
            "ProjectHeron",
            "project heron",
            "PROJECT_HERON",
            "Project Heron's",
            "projectheron-api",
            "Project  Heron",
            "project.heron",
        ],
        ["project her on time", "the heron is a project", "Projects: Heronry and more"],
    ),
    ("Okafor", ["okafor's", "OKAFOR", "Okafors", "the Okafors' house"], ["Okaforia"]),
    (
        "Müller-Wachtel",
        ["Mueller-Wachtel", "Muller Wachtel", "Müller Wachtels", "MÜLLERWACHTEL"],
        [],
    ),
    ("Wischnewski", ["Wischnewskis", "Wischnewskim"], []),
    ("Новак", ["Новака", "Новаку", "Новаком"], ["Новаковский"]),
    ("Kowalska", ["Kowalskiej", "Kowalską", "kowalska"], []),
    ("Nováková", ["Novákové", "Novakova", "Novákovou"], []),
    ("José", ["Jose", "JOSÉ", "José's"], ["Josephine"]),
    (
        "Brightwater",
        ["BrightWater", "Bright-Water", "brightwater_prod", "Brightwaters", "brightwater.internal"],
        ["bright water in the pond"],
    ),
    ("Lindenstraße 14", ["Lindenstrasse 14", "lindenstraße 14"], ["Lindenstraße 140"]),
    ("Ann", ["Ann", "Ann's", "ANN"], ["annual", "Anna", "anniversary", "cannot", "Anne"]),
    ("Ivo", ["Ivos Haus", "Ivo's"], ["ivory", "pivot"]),
    ("小鳥遊", ["小鳥遊さん"], ["小鳥"]),
    ("Acme GmbH", ["ACME-GmbH", "AcmeGmbH", "Acme GmbHs"], ["acme"]),
]


@pytest.mark.parametrize(("word", "forms", "others"), FORMS)
def test_forms_of_a_word_are_found(word: str, forms: list[str], others: list[str]) -> None:
    find = OwnWordDetector(OwnWords(words=(word,))).find
    for form in forms:
        text = f"Ask {form} today"
        (found,) = find(text)
        assert text[found.start : found.end] in form
        assert found.value == word.lower()
    for other in others:
        assert list(find(other)) == []


def test_words_without_letters_or_digits_are_ignored() -> None:
    assert list(OwnWordDetector(OwnWords(words=("", " ", "--"))).find("a -- b")) == []
