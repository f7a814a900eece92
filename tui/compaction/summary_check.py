"""Checks a summary before it replaces messages; if it fails, nothing is changed."""

from __future__ import annotations

from ..text import number_format
from .summary_notes import SummaryNotes
from .summary_prompt import HEADINGS

LEAST_SAVING = 0.3


class CompactionRefused(Exception):
    """A compaction was not made; the message is a sentence for people."""


def check_answer(text: str, reason: str) -> SummaryNotes:
    """Parse the notes in a model's answer.

    Raises `CompactionRefused` if the answer is empty or incomplete.
    """
    if not text.strip():
        raise CompactionRefused("The model wrote an empty summary, so nothing was changed.")
    if reason == "length":
        raise CompactionRefused("The summary was cut off before its end, so nothing was changed.")
    if reason != "stop":
        raise CompactionRefused("The summary was interrupted, so nothing was changed.")
    notes = SummaryNotes.parse(text)
    lacking = [heading for heading in HEADINGS if heading not in notes.headings]
    if lacking:
        raise CompactionRefused(f"The summary lacks “{lacking[0]}”, so nothing was changed.")
    notes.tidy()
    if not notes.bullets:
        raise CompactionRefused("The model found nothing to write down, so nothing was changed.")
    return notes


def check_saving(before: int, after: int, *, range_tokens: int, summary_tokens: int) -> None:
    """Raise `CompactionRefused` if too little is saved; all numbers are tokens."""
    if summary_tokens >= range_tokens:
        raise CompactionRefused(
            "The summary is longer than what it stands for, so nothing was changed."
        )
    saving = 1 - after / before if before else 0.0
    if saving < LEAST_SAVING:
        share = number_format.percent(max(0.0, saving))
        raise CompactionRefused(
            f"It would save only {share} of {before} tokens, so nothing was changed."
        )
