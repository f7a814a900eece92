"""Summary notes: parsing and tidying a model's answer, and the checks that reject it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ingle.tui.chats.message import Message
from ingle.tui.compaction.extraction.corrections import corrections
from ingle.tui.compaction.extraction.verbatim_quotes import find_quotes
from ingle.tui.compaction.summary_notes import (
    HEADINGS,
    VERBATIM,
    CompactionRefused,
    SummaryNotes,
    check_answer,
    check_saving,
)

pytestmark = pytest.mark.quick


def test_empty_and_duplicate_bullets_are_removed() -> None:
    notes = SummaryNotes.parse(
        "Facts:\n- Gate code 4417\n- gate code: 4417\n- None. Nothing was said of it so far.\n"
        "- No dogs\nDecisions:\n- none.\n"
    )
    notes.tidy()
    assert notes.text == "Facts:\n- Gate code 4417\n- No dogs"


def test_bullets_that_repeat_the_instruction_are_removed() -> None:
    notes = SummaryNotes.parse(
        "Open questions:\n- What is still to be found out or answered?\n- Who drives?"
    )
    notes.tidy()
    assert notes.sections == {"Open questions": ["Who drives?"]}


def test_truncated_bullet_ends_at_a_clause_boundary() -> None:
    long = "The garden has " + "a long bed of roses and tulips and lilies, " * 4
    notes = SummaryNotes.parse(f"Facts:\n- {long[:140]}")
    notes.tidy()
    assert notes.sections == {"Facts": [long[: long[:140].rindex(", ")]]}


def test_headings_with_markdown_are_parsed() -> None:
    notes = SummaryNotes.parse("## **Facts:**\n* one\n### Open questions\n1. two")
    assert notes.sections == {"Facts": ["one"], "Open questions": ["1. two"]}


def test_bullets_with_stale_values_are_dropped() -> None:
    messages = [
        Message(role="user", content="The dentist appointment is on 12 May."),
        Message(role="user", content="Actually the dentist appointment moved to 19 May."),
    ]
    notes = SummaryNotes.parse("Facts:\n- Dentist appointment: 12 May\n- The house has a garden")
    notes.drop_stale(corrections(find_quotes(messages)))
    assert notes.text == "Facts:\n- The house has a garden"


def test_missing_quotes_are_added_within_the_budget() -> None:
    messages = [
        Message(role="user", content="The gate code is 4417. The wifi is called Hedgehog-5.")
    ]
    notes = SummaryNotes.parse("Facts:\n- the gate has a code")
    notes.add_quotes(find_quotes(messages), 12, lambda text: len(text.split()))
    assert notes.sections[VERBATIM] == ["The wifi is called Hedgehog-5."]
    notes.add_quotes(find_quotes(messages), 40, lambda text: len(text.split()))
    assert notes.sections[VERBATIM] == [
        "The gate code is 4417.",
        "The wifi is called Hedgehog-5.",
    ]


def test_complete_notes_pass(notes: Callable[..., str]) -> None:
    checked = check_answer(notes(facts="Gate code 4417"), "stop")
    assert checked.text == "Facts:\n- Gate code 4417"


@pytest.mark.parametrize(
    ("text", "reason", "words"),
    [
        ("  \n", "stop", "empty"),
        ("Facts:\n- a", "length", "cut off"),
        ("Facts:\n- a", "stop", "lacks"),
        ("\n".join(f"{heading}:\n- a b" for heading in HEADINGS), "cancelled", "interrupted"),
        ("\n".join(f"{heading}:\n- none" for heading in HEADINGS), "stop", "nothing to write down"),
    ],
)
def test_incomplete_notes_are_refused(text: str, reason: str, words: str) -> None:
    with pytest.raises(CompactionRefused, match=words):
        check_answer(text, reason)


def test_insufficient_saving_is_refused() -> None:
    check_saving(1000, 700, range_tokens=800, summary_tokens=300)
    with pytest.raises(CompactionRefused, match="only 29"):
        check_saving(1000, 710, range_tokens=800, summary_tokens=300)
    with pytest.raises(CompactionRefused, match="longer than the text it replaces"):
        check_saving(1000, 500, range_tokens=300, summary_tokens=300)
