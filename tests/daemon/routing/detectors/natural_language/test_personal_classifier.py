"""Personal classifier: shipped weights, unknown languages and arbitrary input."""

from __future__ import annotations

import numpy as np
import pytest
from grammar import plain

from ingle.daemon.routing.detectors.finding import FindingKind
from ingle.daemon.routing.detectors.natural_language.annotated_text import TextAnnotator
from ingle.daemon.routing.detectors.natural_language.personal_classifier import (
    BITS,
    LinearWeights,
    PersonalClassifier,
    best_passage,
)


@pytest.fixture(scope="module")
def classifier() -> PersonalClassifier:
    return PersonalClassifier(TextAnnotator())


def share(classifier: PersonalClassifier, texts: list[str]) -> float:
    return sum(bool(list(classifier.find(text))) for text in texts) / len(texts)


def test_accuracy_on_the_second_set(classifier: PersonalClassifier) -> None:
    assert share(classifier, plain("second.sensitive")) >= 0.85
    assert share(classifier, plain("second.harmless")) <= 0.15


def test_personal_passage_in_a_long_text_is_found(classifier: PersonalClassifier) -> None:
    harmless = "The river flows through three countries and reaches the sea in the south. " * 40
    personal = "My mother was diagnosed with cancer last week and I cannot sleep. "
    assert not list(classifier.find(harmless))
    (finding,) = classifier.find(harmless + personal + harmless)
    assert finding.kind is FindingKind.PERSONAL
    assert finding.certainty >= 0.5


@pytest.mark.parametrize(
    "text",
    [
        "我的医生说我得了糖尿病，我该怎么办",
        "Il mio capo mi ha licenziato e non so che fare",
        "Ciao, quanto guadagna in media un barista alle prime armi?",
        "Moj šef kaže da nije siguran kako mogu raditi iz kuće",
    ],
)
def test_unknown_language_is_uninspectable(classifier: PersonalClassifier, text: str) -> None:
    assert [finding.kind for finding in classifier.find(text)] == [FindingKind.UNINSPECTABLE]


@pytest.mark.parametrize(
    "text", ["", " ", "\n", "?", "0" * 50_000, "a" * 50_000, "\ud800\x00", "😀" * 999]
)
def test_arbitrary_text_is_accepted(classifier: PersonalClassifier, text: str) -> None:
    assert len(list(classifier.find(text))) <= 1


def test_best_passage_covers_the_highest_weights() -> None:
    weights = np.zeros(300, np.float32)
    weights[150:160] = 1.0
    score, start, end = best_passage(weights)
    assert start <= 150
    assert 160 <= end <= start + 28
    assert score == pytest.approx(10 / np.sqrt(end - start))


def test_weights_round_trip() -> None:
    table = np.zeros(1 << BITS, np.float32)
    table[3] = -2.0
    weights = LinearWeights(LinearWeights.pack(table, 0.5, 1.25, -0.25))
    assert weights.table[3] == pytest.approx(-2.0)
    assert (weights.bias, weights.slope, weights.shift) == (0.5, 1.25, -0.25)
    with pytest.raises(ValueError, match="weights"):
        LinearWeights(b"INGLEPC1" + bytes(16))
