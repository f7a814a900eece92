"""Topic detector: personal situations are found, general questions are not."""

from __future__ import annotations

import pytest

from ingle.daemon.routing.detectors.finding import FindingKind
from ingle.daemon.routing.detectors.natural_language.annotated_text import TextAnnotator
from ingle.daemon.routing.detectors.natural_language.language_detection import UNKNOWN, language_of
from ingle.daemon.routing.detectors.natural_language.topic_detector import TopicDetector


@pytest.fixture(scope="module")
def detector() -> TopicDetector:
    return TopicDetector(TextAnnotator())


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("My biopsy came back and I don't know how to tell my wife.", FindingKind.HEALTH),
        ("My son was arrested last night for shoplifting.", FindingKind.LAW),
        ("I owe my brother 4000 and we are behind with the mortgage.", FindingKind.MONEY),
        ("My husband wants a divorce and custody of our kids.", FindingKind.FAMILY),
        (
            "Please find attached the invoice. Amount due: 300, net 30. Kind regards",
            FindingKind.WORK,
        ),
        ("My boss denied my promotion and HR wants a meeting.", FindingKind.WORK),
        ("My visa was refused at the embassy.", FindingKind.IMMIGRATION),
        ("I am bisexual and my girlfriend does not know.", FindingKind.SEXUALITY),
        ("I left the church and my pastor calls me every day.", FindingKind.RELIGION),
        ("Unser Visum wurde abgelehnt, was können wir tun?", FindingKind.IMMIGRATION),
        ("Mein Chef hat mir gekündigt.", FindingKind.WORK),
        ("Bei meiner Mutter wurde Krebs diagnostiziert.", FindingKind.HEALTH),
        ("Mon patron m'a licenciée hier.", FindingKind.WORK),
        ("Mon mari veut divorcer et garder la maison.", FindingKind.FAMILY),
        ("Me diagnosticaron diabetes la semana pasada.", FindingKind.HEALTH),
        ("Mi casero nos quiere desahuciar por el alquiler y las deudas.", FindingKind.MONEY),
    ],
)
def test_personal_situations_are_found(
    detector: TopicDetector, text: str, kind: FindingKind
) -> None:
    findings = {finding.kind: finding for finding in detector.find(text)}
    assert kind in findings
    assert 0.5 <= findings[kind].certainty < 1
    assert 0 <= findings[kind].start < findings[kind].end <= len(text)


@pytest.mark.parametrize(
    "text",
    [
        "How does chemotherapy work?",
        "What is bankruptcy, and how is it different from insolvency?",
        "Explain the difference between a felony and a misdemeanor.",
        "List the symptoms of diabetes and the usual treatments.",
        "Write a story about a divorced judge who sues a church.",
        "Help me with my essay on antidepressants and therapy.",
        "I have a list of numbers and my code returns an error.",
        "Was ist der Unterschied zwischen Depression und Burnout?",
        "Comment fonctionne la chimiothérapie ?",
        "¿Cómo funciona una hipoteca?",
        "",
    ],
)
def test_general_questions_are_not_found(detector: TopicDetector, text: str) -> None:
    assert list(detector.find(text)) == []


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Where is the station?", "en"),
        ("Wo ist der Bahnhof, bitte?", "de"),
        ("Où est la gare, s'il vous plaît ?", "fr"),
        ("¿Dónde está la estación, por favor?", "es"),
        ("Il mio medico mi ha detto che ho il diabete e non so come dirlo alla famiglia", UNKNOWN),
        ("Meu marido quer o divórcio e eu não sei o que fazer com a casa", UNKNOWN),
        ("我的医生说我得了糖尿病", UNKNOWN),
        ("Мой начальник уволил меня вчера", UNKNOWN),
        ("لقد تم رفض تأشيرتي", UNKNOWN),
        ("x = 3", "en"),
    ],
)
def test_language_detection(text: str, language: str) -> None:
    assert language_of(text, text.casefold().split()) == language
