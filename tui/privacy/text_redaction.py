"""Masks findings in a text; equal values get equal masks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from .pii_scanner import PrivateKind, PrivateSpan


class RedactedSpan(NamedTuple):
    """A part of the text as it would be sent; `finding` is its index in the list, if it is one."""

    text: str
    finding: int | None = None
    masked: bool = False


def masks(text: str, findings: Sequence[PrivateSpan]) -> list[str]:
    """Return `⟦e-mail⟧` for each finding, numbered if a text has several different ones."""
    values: dict[tuple[PrivateKind, str], int] = {}
    counts: Counter[PrivateKind] = Counter()
    for finding in findings:
        key = finding.kind, text[finding.start : finding.end]
        if key not in values:
            counts[finding.kind] += 1
            values[key] = counts[finding.kind]
    names: list[str] = []
    for finding in findings:
        number = values[finding.kind, text[finding.start : finding.end]]
        suffix = f" {number}" if counts[finding.kind] > 1 else ""
        names.append(f"⟦{finding.kind}{suffix}⟧")
    return names


def pieces(
    text: str, findings: Sequence[PrivateSpan], shown: Collection[int]
) -> list[RedactedSpan]:
    """Return the text in parts, with a mask for every finding that is not in `shown`."""
    names = masks(text, findings)
    parts: list[RedactedSpan] = []
    place = 0
    for index, finding in enumerate(findings):
        if finding.start > place:
            parts.append(RedactedSpan(text[place : finding.start]))
        masked = index not in shown
        words = names[index] if masked else text[finding.start : finding.end]
        parts.append(RedactedSpan(words, index, masked))
        place = finding.end
    if place < len(text):
        parts.append(RedactedSpan(text[place:]))
    return parts


def redact(text: str, findings: Sequence[PrivateSpan], shown: Collection[int] = ()) -> str:
    """Return `pieces` as one text."""
    return "".join(piece.text for piece in pieces(text, findings, shown))
