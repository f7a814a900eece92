"""The network that judges passages, as it is shipped."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from math import exp, log
from typing import Any

import pytest

from ingle.daemon.routing.detectors.finding import FindingKind, SensitiveFinding, TextPart
from ingle.daemon.routing.detectors.natural_language import passage_network
from ingle.daemon.routing.detectors.natural_language.passage_detector import (
    PassageDetector,
    find_threshold,
)
from ingle.daemon.routing.detectors.natural_language.passage_network import Passage, PassageNetwork
from ingle.daemon.routing.inspection.text_scanner import OwnWords, make_scanner

PRIVATE = [
    "My wife was diagnosed with breast cancer on Monday and I don't know how to tell our children.",
    "Mein Chef hat mir gestern gekündigt, ich habe 4.000 Euro Schulden. Was soll ich tun?",
    "Mon mari me trompe et je veux divorcer, comment l'annoncer aux enfants ?",
    "У моей мамы нашли рак груди, как сказать об этом детям?",
    "我妈妈刚查出肺癌，我该怎么告诉孩子？",
    "夫が浮気していて、離婚したいです。どうすればいいですか？",
]
PUBLIC = [
    "How does the immune system work? Explain it to a ten year old.",
    "Write a Python function that merges two sorted lists without recursion.",
    "Wie funktioniert die Photosynthese?",
    "Recette de la ratatouille pour quatre personnes",
    "Объясни, как работает двигатель внутреннего сгорания.",
    "什么是光合作用？用三句话解释。",
    "富士山の高さは何メートルですか？",
]
MANUAL = """The tar program stores many files in one archive, and restores them. Options select the
compression: -z calls gzip, -j calls bzip2, and -J calls xz. With -t it lists the archive.
"""


@pytest.fixture(scope="module")
def network() -> PassageNetwork:
    return PassageNetwork()


@pytest.fixture(scope="module")
def detector(network: PassageNetwork) -> PassageDetector:
    return PassageDetector(network)


def topics(found: Iterator[SensitiveFinding]) -> set[FindingKind]:
    values = {FindingKind.PERSON, FindingKind.STREET_ADDRESS, FindingKind.ORGANISATION}
    return {finding.kind for finding in found} - values


@pytest.mark.parametrize("text", PRIVATE)
def test_private_matters_are_found(detector: PassageDetector, text: str) -> None:
    assert topics(detector.find(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_general_questions_are_not(detector: PassageDetector, text: str) -> None:
    assert not topics(detector.find(text))


def test_private_sentence_is_found_in_a_long_text(detector: PassageDetector) -> None:
    assert not list(detector.find(MANUAL * 40))
    text = f"{MANUAL * 20}\n{PRIVATE[0]}\n\n{MANUAL * 20}"
    found = next(iter(detector.find(text)))
    at = text.index(PRIVATE[0])
    assert found.start < at + len(PRIVATE[0])
    assert found.end > at


@pytest.mark.parametrize(
    "text",
    [
        "I have not told my parents that I dropped out of university last spring.",
        "I was let go last week and my visa depends on the job.",
    ],
)
def test_one_private_sentence_is_found_between_fifty_passages_that_are_surely_public(
    detector: PassageDetector, text: str
) -> None:
    assert topics(detector.find(f"{MANUAL * 60}\n{text}\n\n{MANUAL * 60}"))
    assert not topics(detector.find(MANUAL * 120))


@pytest.mark.parametrize("count", [1, 2, 9, 10, 80])
def test_passages_that_look_private_hide_no_other_one(count: int) -> None:
    odds = [-9.0, -3.0, -1.0, 0.0, 2.0]
    others = [Passage(0, 1, 1 / (1 + exp(-one)), "work", 0.5, ()) for one in odds]
    thresholds = [find_threshold([one] * count) for one in others]
    assert thresholds == sorted(thresholds)
    assert thresholds[0] >= 0
    assert thresholds[-1] == pytest.approx(0.8 * log(count))  # type: ignore[reportUnknownMemberType]


def test_names_and_numbers_are_covered_exactly(detector: PassageDetector) -> None:
    name, number = "Annegret Sommerfeld", "KD-448213"
    text = f"😀 \ud83d I am {name}, customer {number}, and I want to cancel my contract."
    found = {text[one.start : one.end]: one.kind for one in detector.find(text)}
    assert found[name] is FindingKind.PERSON
    assert found[number] is FindingKind.ACCOUNT_NUMBER


def test_second_network_is_asked_only_where_the_first_is_unsure(
    network: PassageNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"{PRIVATE[0]}\n\n{MANUAL * 8}"
    asked = [passage.private for passage in network.read(text)]
    monkeypatch.setattr(passage_network, "_CERTAIN", 1.0)
    first = [passage.private for passage in network.read(text)]
    assert len(first) > 2
    assert asked[0] != first[0]
    assert asked[-1] == first[-1]


def test_script_that_the_network_cannot_read_is_reported(detector: PassageDetector) -> None:
    found = list(detector.find("გამარჯობა, როგორ ხარ დღეს?"))
    assert [one.kind for one in found] == [FindingKind.UNINSPECTABLE]


@pytest.mark.parametrize("text", ["", " \n", "12 + 30 = 42", "…"])
def test_text_without_words_has_no_findings(detector: PassageDetector, text: str) -> None:
    assert list(detector.find(text)) == []


def test_prose_is_uninspectable_where_onnxruntime_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import_module = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if "passage_network" in name:
            raise ModuleNotFoundError("No module named 'onnxruntime'")
        return import_module(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    scanner = make_scanner(OwnWords())
    (found,) = scanner.scan([TextPart("prompt", "Why is the sky blue?")])
    assert (found.kind, found.detector) == (FindingKind.UNINSPECTABLE, "passages")
    assert scanner.scan([TextPart("system", "Why is the sky blue?", prose=False)]) == []


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Write to gnu@fabrikam.org with questions.", FindingKind.EMAIL),
        ("The list of keys is ~/.ssh/authorized_keys there.", FindingKind.SECRET_PATH),
        ("A card's address is 9c:5c:8e:d2:41:0b or so.", FindingKind.MAC_ADDRESS),
    ],
)
def test_contacts_and_paths_in_a_public_document_are_public(line: str, kind: FindingKind) -> None:
    scanner = make_scanner(OwnWords())
    assert scanner.scan([TextPart("prompt", f"{MANUAL * 12}\n{line}\n")]) == []
    assert kind in {found.kind for found in scanner.scan([TextPart("prompt", line)])}
