"""Credentials in everyday words of some twenty languages, and talk about credentials."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingle.daemon.routing.detectors.finding import FindingKind, TextPart
from ingle.daemon.routing.inspection.text_scanner import OwnWords, Scanner, structured_detectors

SCANNER = Scanner(structured_detectors(OwnWords()))
CREDENTIALS = frozenset({FindingKind.PASSWORD, FindingKind.API_KEY, FindingKind.TOKEN})


def lines(name: str) -> list[str]:
    return (Path(__file__).parent / name).read_text().splitlines()


def credentials(text: str) -> list[str]:
    found = SCANNER.scan([TextPart("messages[0].content", text)])
    return [text[f.start : f.end] for f in found if f.kind in CREDENTIALS]


@pytest.mark.parametrize("text", lines("spoken_credentials.txt"))
def test_credential_in_everyday_words_is_found(text: str) -> None:
    assert credentials(text)


@pytest.mark.parametrize("text", lines("about_credentials.txt"))
def test_talk_about_credentials_is_harmless(text: str) -> None:
    assert credentials(text) == []


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("root pw for the NAS: Hund3Katze", ["Hund3Katze"]),
        ("It's Zitrone_55, the new admin password", ["Zitrone_55"]),
        ("门锁密码4821", ["4821"]),
        ("backup codes: 83920174 55120983", ["83920174", "55120983"]),
        ("The door code for the flat is 2580, don't tell", ["2580"]),
        ("here's the passphrase: correct otter battery seven", ["correct otter battery seven"]),
        ("credentials are postgres/s3cr3tpg", ["s3cr3tpg"]),
    ],
)
def test_span_is_the_value_alone(text: str, values: list[str]) -> None:
    assert credentials(text) == values
