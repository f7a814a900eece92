"""Masks that the user sets and lifts by hand."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..detectors.finding import FindingKind, SensitiveFinding, TextPart
from ..detectors.own_words import OwnWordDetector, OwnWords
from ..inspection.request_inspector import InspectedRequest


class MaskEdits(msgspec.Struct, frozen=True):
    """Values to mask wherever they occur (`hide`), and found values that stay (`show`)."""

    hide: tuple[str, ...] = ()
    show: tuple[str, ...] = ()

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

    def applied(self, inspected: InspectedRequest) -> InspectedRequest:
        """Return the request with these findings, too."""
        found = (*inspected.findings, *self.findings(inspected.parts))
        return msgspec.structs.replace(inspected, findings=found)

    def shows(self, text: str) -> bool:
        """Whether the user lifted the mask of this text, or of one that contains it."""
        return bool(text) and any(text in shown for shown in self.show)


NO_EDITS = MaskEdits()
