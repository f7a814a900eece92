"""Text scanner: findings with their positions, limits, failures and caching."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

import pytest

from ingle.daemon.routing import detectors
from ingle.daemon.routing.detectors.finding import (
    Detector,
    FindingKind,
    SensitiveFinding,
    TextPart,
)
from ingle.daemon.routing.inspection.text_scanner import (
    OwnWords,
    Scanner,
    make_scanner,
    structured_detectors,
)

pytestmark = pytest.mark.quick

CARD = "4539 5787 6362 1486"


def structured(owner: OwnWords) -> Scanner:
    return Scanner(structured_detectors(owner))


def scan_text(text: str, scanner: Scanner | None = None) -> dict[str, FindingKind]:
    scanner = scanner or structured(OwnWords())
    return {
        text[finding.start : finding.end]: finding.kind
        for finding in scanner.scan([TextPart("messages[0].content", text)])
    }


class CountingDetector:
    def __init__(self) -> None:
        self.seen = 0

    def find(self, text: str) -> Iterator[SensitiveFinding]:
        self.seen += 1
        yield from ()


def fail(text: str) -> Iterator[SensitiveFinding]:
    yield SensitiveFinding(FindingKind.EMAIL, 0, 1, "x")
    raise RuntimeError("a bug")


BROKEN = Detector("broken", fail)


def test_findings_have_part_and_position() -> None:
    parts = [TextPart("system", "Be kind."), TextPart("messages[0].content", f"Pay {CARD} now")]
    (finding,) = structured(OwnWords()).scan(parts)
    assert (finding.part, finding.start, finding.end) == (1, 4, 4 + len(CARD))
    assert finding.kind is FindingKind.CARD
    assert finding.value == "4539578763621486"


def test_failing_detector_makes_the_text_uninspectable() -> None:
    kinds = {f.kind for f in Scanner([BROKEN]).scan([TextPart("x", "hello")])}
    assert kinds == {FindingKind.EMAIL, FindingKind.UNINSPECTABLE}


def test_text_above_the_limit_is_uninspectable() -> None:
    scanner = Scanner([], limit=10)
    findings = scanner.scan([TextPart("a", "12345"), TextPart("b", "123456")])
    assert [(f.part, f.kind) for f in findings] == [(1, FindingKind.UNINSPECTABLE)]


def test_scan_timeout_is_uninspectable() -> None:
    (finding,) = Scanner([Detector("counting", CountingDetector().find)], timeout=-1.0).scan(
        [TextPart("a", "hello")]
    )
    assert finding.kind is FindingKind.UNINSPECTABLE


def test_history_is_scanned_once() -> None:
    counting = CountingDetector()
    scanner = Scanner([Detector("counting", counting.find)])
    history = [TextPart("a", "first"), TextPart("b", "second")]
    scanner.scan(history)
    before = counting.seen
    scanner.scan(history)
    assert counting.seen == before


def test_failures_are_not_cached() -> None:
    scanner = Scanner([Detector("counting", CountingDetector().find)], timeout=-1.0)
    scanner.scan([TextPart("a", "hello")])
    scanner._timeout = 10.0  # pyright: ignore[reportPrivateUsage]
    assert scanner.scan([TextPart("a", "hello")]) == []


@pytest.mark.parametrize("at", [0, 32_760, 32_768, 36_860, 65_530, 100_000])
def test_long_texts_are_scanned_to_their_end(at: int) -> None:
    text = "word " * 30_000
    text = text[:at] + f" {CARD} " + text[at:]
    (finding,) = structured(OwnWords()).scan([TextPart("a", text)])
    assert text[finding.start : finding.end] == CARD


@pytest.mark.parametrize("text", ["", "\x00", "\ud800 lone", "🔥" * 50, "İ" * 300, " \n\t"])
def test_unusual_texts_have_no_findings(text: str) -> None:
    assert scan_text(text) == {}


def test_own_words_match_whole_words_in_any_case() -> None:
    scanner = structured(OwnWords(words=("Bluebird", "Projekt  Ärger"), folders=("/srv/clients",)))
    assert scan_text("The BLUEBIRD plan", scanner) == {"BLUEBIRD": FindingKind.OWN_WORD}
    assert scan_text("bluebirdish songs", scanner) == {}
    assert scan_text("das projekt\närger", scanner) == {"projekt\närger": FindingKind.OWN_WORD}
    assert scan_text("cat /srv/clients/a/b.txt", scanner) == {
        "/srv/clients/a/b.txt": FindingKind.OWN_FOLDER
    }
    assert scan_text("cat /srv/clientsx/a", scanner) == {}


def test_opaque_base64_is_uninspectable_and_readable_is_decoded() -> None:
    noise = base64.b64encode(bytes(n * 89 % 251 for n in range(600))).decode()
    readable = base64.b64encode(b"nothing to see here, " * 30).decode()
    assert set(scan_text(f"decode {noise} now").values()) == {FindingKind.UNINSPECTABLE}
    assert scan_text(f"decode {readable} now") == {}
    assert (
        FindingKind.UNINSPECTABLE in scan_text("![](data:image/png;base64,iVBORw0KGgo=)").values()
    )


def test_milder_finding_inside_a_stricter_one_is_kept() -> None:
    text = "postgres://bob:s3cret@db.corp:5432/app"
    scanner = structured(OwnWords(words=("bob",)))
    kinds = {finding.kind for finding in scanner.scan([TextPart("a", text)])}
    assert kinds == {FindingKind.CONNECTION_STRING, FindingKind.OWN_WORD}


def test_all_detectors_are_used() -> None:
    text = f"My doctor says that my cancer has come back; my card is {CARD}, and Bluebird knows."
    scanner = make_scanner(OwnWords(words=("bluebird",)))
    kinds = {finding.kind for finding in scanner.scan([TextPart("a", text)])}
    assert {FindingKind.CARD, FindingKind.HEALTH, FindingKind.OWN_WORD} <= kinds


def test_every_detector_has_its_row() -> None:
    """A function that the scanner does not run would find nothing, without a word."""
    rows = {detector.find for detector in structured_detectors(OwnWords())}
    names = [f"{detectors.__name__}.{path}" for path in ("identifiers", "secrets")]
    folders = [detectors, *map(import_module, names)]
    found = {
        function
        for folder in folders
        for module in iter_modules(folder.__path__, f"{folder.__name__}.")
        if not module.ispkg
        for name, function in vars(import_module(module.name)).items()
        if name.startswith("find_") and function.__module__ == module.name
    }
    assert len(found) > 15
    assert not {function.__name__ for function in found - rows}


def test_topics_are_found_in_base64() -> None:
    code = base64.b64encode(
        b"My doctor says that my cancer has come back, and I am afraid."
    ).decode()
    findings = make_scanner(OwnWords()).scan([TextPart("a", f"Decode this and answer: {code}")])
    assert FindingKind.HEALTH in {finding.kind for finding in findings}


def find_whole(text: str) -> Iterator[SensitiveFinding]:
    yield SensitiveFinding(FindingKind.PERSONAL, 0, len(text), text)


def test_prose_detectors_do_not_span_parts() -> None:
    parts = [TextPart("a", "it is 4111"), TextPart("b", "1111 now")]
    assert [
        (f.part, f.start, f.end)
        for f in Scanner([Detector("reader", find_whole, prose=True)]).scan(parts)
    ] == [
        (0, 0, 10),
        (1, 0, 8),
    ]


def test_failure_at_a_part_boundary_belongs_to_both_parts() -> None:
    parts = [TextPart("a", "it is 4111"), TextPart("b", "1111 now")]
    failures = [f for f in Scanner([BROKEN]).scan(parts) if f.kind is FindingKind.UNINSPECTABLE]
    assert {f.part for f in failures} == {0, 1}
    assert all(0 <= f.start < f.end <= len(parts[f.part].text) for f in failures)


def test_what_no_person_wrote_is_read_for_structured_values_only() -> None:
    text = f"Never share this with anyone. My doctor says that my cancer is back. Pay {CARD}."
    scanner = make_scanner(OwnWords(words=("doctor",)))
    kinds = {f.kind for f in scanner.scan([TextPart("messages[0].content", text, prose=False)])}
    assert kinds == {FindingKind.CARD, FindingKind.OWN_WORD}
    kinds = {f.kind for f in scanner.scan([TextPart("messages[1].content", text)])}
    assert kinds > {FindingKind.CARD, FindingKind.HEALTH, FindingKind.MARKED_PRIVATE}


@pytest.mark.parametrize("space", ["\\t", "\\n", "\\u0009", "\\\\\\n"])
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("sk-ant-api03-" + "Vq7Rk2Lw9Xz4" * 7 + "QAA", FindingKind.API_KEY),
        ("4539 5787 6362 1486", FindingKind.CARD),
    ],
)
def test_values_behind_escaped_white_space_are_found(
    space: str, value: str, kind: FindingKind
) -> None:
    text = f'{{"content": "{space}{value}"}}'
    found = make_scanner(OwnWords()).scan([TextPart("messages[1].tool_calls[0].arguments", text)])
    assert [(one.kind, text[one.start : one.end]) for one in found] == [(kind, value)]


@pytest.mark.parametrize(
    ("sentence", "kept"),
    [
        ("Ben Amos (born 10 April 1990) is an English professional footballer.", False),
        ("Date of birth: 10 April 1990.", True),
        ("I was born on 10 April 1990.", True),
    ],
)
def test_birth_date_told_of_another_person_is_public_in_a_public_document(
    sentence: str, kept: bool
) -> None:
    scanner = Scanner(structured_detectors(OwnWords()), is_public_document=lambda text: True)
    kinds = {one.kind for one in scanner.scan([TextPart("messages[0].content", sentence)])}
    assert kinds == ({FindingKind.DATE_OF_BIRTH} if kept else set())
