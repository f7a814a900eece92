"""Detects phrases that mark a text as private or confidential, in several languages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..text_analysis.data_files import read_sections
from ..text_analysis.text_index import lowered
from .context_words import Phrases, windows
from .finding import FindingKind, SensitiveFinding

# The patterns run only near a substring of their phrases, since most texts have few.
_MARKS = [
    (FindingKind(kind), Phrases(f"in marks: {kind}"), re.compile("|".join(patterns)))
    for kind, patterns in read_sections("marks.txt").items()
]
_AROUND = 60


def find_marks(text: str) -> Iterator[SensitiveFinding]:
    """Yield passages that their author marked as private or confidential."""
    lower = lowered(text)
    for kind, pieces, pattern in _MARKS:
        places = sorted((end, end) for end in pieces.ends(text))
        for start, stop in windows(places, _AROUND, len(lower)):
            for match in pattern.finditer(lower, start, stop):
                yield SensitiveFinding(kind, *match.span(), match[0])
