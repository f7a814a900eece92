"""Masks that the user sets and lifts by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ..detectors.finding import FindingKind, SensitiveFinding, TextPart
from ..detectors.own_words import OwnWordDetector, OwnWords
from ..inspection.request_inspector import InspectedRequest


class MaskEdits(msgspec.Struct, frozen=True):
    """Values to mask wherever they occur (`hide`), and found values that stay (`show`)."""

    hide: tuple[str, ...] = ()
    show: tuple[str, ...] = ()

    @property
    def length(self) -> int:
        """The number of characters of all values."""
        return sum(map(len, (*self.hide, *self.show)))

    def findings(self, parts: Iterable[TextPart]) -> list[SensitiveFinding]:
        """Return every occurrence of a hidden value, in any case, as a finding."""
        if not self.hide:
            return []
        hidden = OwnWordDetector(OwnWords(words=self.hide))
        return [
            msgspec.structs.replace(found, kind=FindingKind.MASKED, detector="by hand", part=number)
            for number, part in enumerate(parts)
            for found in hidden.find(part.text)
        ]

    def applied(self, inspected: InspectedRequest, public: Sequence[str]) -> InspectedRequest:
        """Return the request with these findings, too, and without those in public words."""
        found = without_public(public, inspected.parts, inspected.findings)
        found += self.findings(inspected.parts)
        return msgspec.structs.replace(inspected, findings=tuple(found))

    def shows(self, text: str) -> bool:
        """Whether the user lifted the mask of this text, or of one that contains it."""
        folded = text.casefold()
        return bool(text) and any(folded in shown.casefold() for shown in self.show)


NO_EDITS = MaskEdits()


_NEVER_PUBLIC = frozenset({FindingKind.OWN_WORD, FindingKind.OWN_FOLDER, FindingKind.UNINSPECTABLE})


def without_public(
    words: Sequence[str], parts: Sequence[TextPart], findings: Iterable[SensitiveFinding]
) -> list[SensitiveFinding]:
    """Return the findings that are not inside a public word; the owner's words always count."""
    findings = list(findings)
    if not words or not findings:
        return findings
    public = OwnWordDetector(OwnWords(words=tuple(words)))
    spans = [[(word.start, word.end) for word in public.find(part.text)] for part in parts]
    return [
        one
        for one in findings
        if one.kind in _NEVER_PUBLIC
        or not any(start <= one.start and one.end <= end for start, end in spans[one.part])
    ]
