"""Scans the texts of a request with all detectors, in all their views."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b

from msgspec.structs import replace

from ..detectors.confidentiality_marks import find_marks
from ..detectors.finding import Detector, FindingKind, SensitiveFinding, TextPart
from ..detectors.identifiers.banking import find_ibans, find_wallets
from ..detectors.identifiers.birth_dates import find_birth_dates
from ..detectors.identifiers.document_numbers import (
    find_document_numbers,
    find_labelled_documents,
    find_number_plates,
)
from ..detectors.identifiers.email_addresses import find_email_addresses
from ..detectors.identifiers.file_paths import find_file_paths
from ..detectors.identifiers.national_ids import find_national_ids
from ..detectors.identifiers.network_addresses import find_network_addresses
from ..detectors.identifiers.payment_cards import find_payment_cards
from ..detectors.identifiers.phone_numbers import find_phone_numbers
from ..detectors.named_fields import find_named_fields
from ..detectors.opaque_data import find_opaque_data
from ..detectors.own_words import OwnWordDetector, OwnWords
from ..detectors.public_examples import is_attribution, is_public_example
from ..detectors.secrets.assigned_secrets import find_assigned_secrets
from ..detectors.secrets.spoken_secrets import find_spoken_secrets
from ..detectors.secrets.tokens_and_keys import find_private_keys, find_tokens
from ..views.text_views import views

__all__ = ["OwnWords", "Scanner", "make_scanner", "structured_detectors"]

_JSON = re.compile(r"\.(?:parameters|arguments)$")
_SPACES = re.compile(r"\\(?:[\\nrtbf]|u00(?:0[9aAdD]|20|[aA]0))")
"""Escapes of white space in JSON; a letter of theirs must not be taken for the start of a word."""

_CHUNK, _OVERLAP = 32_768, 4_096
_KEPT_PARTS = 4_096
_PUBLISHED = frozenset(
    {
        FindingKind.EMAIL,
        FindingKind.PHONE,
        FindingKind.PERSON,
        FindingKind.ORGANISATION,
        FindingKind.STREET_ADDRESS,
        FindingKind.IP_ADDRESS,
        FindingKind.MAC_ADDRESS,
        FindingKind.INTERNAL_HOST,
        FindingKind.FILE_PATH,
        FindingKind.SECRET_PATH,
    }
)
_FAILED = "failed"  # prefix of the detector name in a finding that reports a failed scan
_STRICTEST_FIRST = {kind: place for place, kind in enumerate(FindingKind)}
_WHOLE = frozenset(
    {
        FindingKind.OWN_WORD,
        FindingKind.OWN_FOLDER,
        FindingKind.MARKED_PRIVATE,
        FindingKind.UNINSPECTABLE,
    }
)


class Scanner:
    """Runs detectors over texts; whatever cannot be inspected becomes a finding.

    `limit` is the maximum of characters of all parts together, `timeout` the maximum of seconds of
    processor time of one scan, checked between detectors and between chunks of a long text: a busy
    machine is no reason to keep a text. Findings are cached by
    the digest of a text, so that a history is not scanned again with each turn.
    """

    def __init__(
        self,
        detectors: Sequence[Detector],
        *,
        limit: int = 1_000_000,
        timeout: float = 10.0,
        is_public_document: Callable[[str], bool] = lambda text: False,
    ) -> None:
        """In a text that `is_public_document`, names, addresses and paths are public, too."""
        self._is_public_document = is_public_document
        self._detectors = tuple(detectors)
        self._structured = tuple(one for one in detectors if not one.prose)
        self._limit, self._timeout = limit, timeout
        self._known: OrderedDict[bytes, tuple[SensitiveFinding, ...]] = OrderedDict()

    def scan(self, parts: Sequence[TextPart]) -> list[SensitiveFinding]:
        """Return the findings by part and position; of nested findings, the strictest."""
        deadline = time.process_time() + self._timeout
        room = self._limit
        found: list[SensitiveFinding] = []
        for number, part in enumerate(parts):
            room -= len(part.text)
            if room < 0:
                found.append(_uninspectable(part.text, "limit", number))
            elif part.text:
                text = _SPACES.sub(_spaces, part.text) if _JSON.search(part.where) else part.text
                texts = self._text(text, deadline, part.prose)
                found += (replace(f, part=number) for f in texts)
        return sorted(found, key=_place)

    def _text(self, text: str, deadline: float, prose: bool) -> tuple[SensitiveFinding, ...]:
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        digest += bytes([prose])
        known = self._known.get(digest)
        if known is not None:
            self._known.move_to_end(digest)
            return known
        found, finished = self._look(text, deadline, prose)
        if finished:
            self._known[digest] = found
            if len(self._known) > _KEPT_PARTS:
                self._known.popitem(last=False)
        return found

    def _look(
        self, text: str, deadline: float, prose: bool
    ) -> tuple[tuple[SensitiveFinding, ...], bool]:
        """Return the findings in a text, and whether every detector saw all of it."""
        found: list[SensitiveFinding] = []
        for offset in range(0, len(text), _CHUNK):
            chunk = text[offset : offset + _CHUNK + _OVERLAP]
            here: list[SensitiveFinding] = []
            in_time = True
            try:
                here.extend(self._chunk(chunk, deadline, prose))  # keeps what came in time
            except TimeoutError:
                in_time = False
            if prose and in_time and any(map(_may_be_published, here)):
                public = self._is_public_document(chunk)
                here = [one for one in here if not (public and _may_be_published(one))]
            for finding in here:
                if finding.start < _CHUNK or finding.kind is FindingKind.UNINSPECTABLE:
                    start, end = finding.start + offset, finding.end + offset
                    found.append(replace(finding, start=start, end=end))
            if not in_time:
                found.append(_uninspectable(text, f"{_FAILED}: time", 0))
                break
        finished = not any(finding.detector.startswith(_FAILED) for finding in found)
        return tuple(_resolved(found)), finished

    def _chunk(self, text: str, deadline: float, prose: bool) -> Iterator[SensitiveFinding]:
        try:
            readings = views(text)
        except Exception:  # text that cannot be decoded cannot be judged
            yield _uninspectable(text, f"{_FAILED}: views", 0)
            return
        for number, view in enumerate(readings):
            for detector in self._detectors if prose and view.is_prose else self._structured:
                if time.process_time() > deadline:
                    raise TimeoutError
                try:
                    for finding in detector.find(view.text):
                        if number and not view.touches_an_edit(finding.start, finding.end):
                            continue
                        if is_public_example(finding) or is_attribution(view.text, finding):
                            continue
                        start, end = view.span(finding.start, finding.end)
                        yield replace(finding, start=start, end=end, detector=detector.name)
                except Exception:  # the failure of one detector must not hide findings of others
                    yield _uninspectable(text, f"{_FAILED}: {detector.name}", 0)


def make_scanner(owner: OwnWords) -> Scanner:
    """Return a scanner with all detectors, including the user's own words.

    Where the network that reads prose cannot run, no prose can be inspected.
    """
    structured = structured_detectors(owner)
    try:
        from ..detectors.natural_language.passage_detector import PassageDetector
        from ..detectors.natural_language.passage_network import PassageNetwork

        passages = PassageDetector(PassageNetwork())
    except (ImportError, OSError):  # onnxruntime has no package for this machine
        return Scanner([*structured, Detector("passages", _unread, prose=True)])
    return Scanner(
        [*structured, Detector("passages", passages.find, prose=True)],
        is_public_document=passages.is_public_document,
    )


def _unread(text: str) -> Iterator[SensitiveFinding]:
    yield _uninspectable(text, "no onnxruntime", 0)


def structured_detectors(owner: OwnWords) -> list[Detector]:
    """Return the detectors of structured values: by shape, check digit or adjacent words."""
    return [
        Detector("own_words", OwnWordDetector(owner).find),
        Detector("marks", find_marks, prose=True),
        Detector("private_keys", find_private_keys),
        Detector("tokens", find_tokens),
        Detector("assigned_secrets", find_assigned_secrets),
        Detector("spoken_secrets", find_spoken_secrets),
        Detector("cards", find_payment_cards),
        Detector("banking", find_ibans),
        Detector("wallets", find_wallets),
        Detector("identities", find_national_ids),
        Detector("documents", find_document_numbers),
        Detector("direct_documents", find_labelled_documents),
        Detector("plates", find_number_plates),
        Detector("phones", find_phone_numbers),
        Detector("contacts", find_email_addresses),
        Detector("birthdays", find_birth_dates),
        Detector("fields", find_named_fields),
        Detector("network", find_network_addresses),
        Detector("paths", find_file_paths),
        Detector("opaque", find_opaque_data),
    ]


def _resolved(found: Iterable[SensitiveFinding]) -> list[SensitiveFinding]:
    """Drop findings inside others that are as strict; overlapping ones stay, or text would be
    missed.

    The user's own words always stay.
    """
    kept: list[SensitiveFinding] = []
    for new in sorted(found, key=lambda f: (_STRICTEST_FIRST[f.kind], f.start - f.end, f.start)):
        hidden = any(
            other.start <= new.start
            and new.end <= other.end
            and (new.kind not in _WHOLE or other.kind is new.kind)
            for other in kept
        )
        if not hidden:
            kept.append(new)
    return sorted(kept, key=_place)


def _spaces(match: re.Match[str]) -> str:
    """Return as many characters, with the white space that JSON escapes as spaces."""
    return match[0] if match[0] == "\\\\" else " " * len(match[0])


def _may_be_published(finding: SensitiveFinding) -> bool:
    """Whether it may stand in a public document: not the birth date of a form."""
    told = finding.kind is FindingKind.DATE_OF_BIRTH and finding.certainty < 1
    return told or finding.kind in _PUBLISHED


def _place(finding: SensitiveFinding) -> tuple[int, int, int]:
    return finding.part, finding.start, finding.end


def _uninspectable(text: str, why: str, part: int) -> SensitiveFinding:
    return SensitiveFinding(FindingKind.UNINSPECTABLE, 0, len(text), "", 1.0, why, part)
