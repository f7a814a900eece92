"""Edits that turn a text into one of its views."""

from __future__ import annotations

from collections.abc import Iterable

TextEdit = tuple[int, int, str]
"""Start and end of a span in the text, and what replaces it."""


def without_overlaps(edits: Iterable[TextEdit]) -> list[TextEdit]:
    """Return the edits in order; of those that overlap, the first and longest."""
    apart: list[TextEdit] = []
    for edit in sorted(edits, key=lambda edit: (edit[0], -edit[1])):
        if not apart or edit[0] >= apart[-1][1]:
            apart.append(edit)
    return apart
