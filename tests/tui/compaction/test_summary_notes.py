"""Notes as they come from a model, and what makes them unfit."""

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


def test_bullets_that_say_nothing_or_the_same_are_left_out() -> None:
    notes = SummaryNotes.parse(
        "Facts:\n- Gate code 4417\n- gate code: 4417\n- None. Nothing was said of it so far.\n"
        "- No dogs\nDecisions:\n- none.\n"
    )
    notes.tidy()
    assert notes.text == "Facts:\n- Gate code 4417\n- No dogs"


def test_what_only_repeats_the_instruction_is_left_out() -> None:
    notes = SummaryNotes.parse(
        "Open questions:\n- What is still to be found out or answered?\n- Who drives?"
    )
    notes.tidy()
    assert notes.sections == {"Open questions": ["Who drives?"]}


def test_a_bullet_that_ran_into_its_limit_ends_with_a_whole_part() -> None:
    long = "The garden has " + "a long bed of roses and tulips and lilies, " * 4
    notes = SummaryNotes.parse(f"Facts:\n- {long[:140]}")
    notes.tidy()
    assert notes.sections == {"Facts": [long[: long[:140].rindex(", ")]]}


def test_headings_may_be_marked_up() -> None:
    notes = SummaryNotes.parse("## **Facts:**\n* one\n### Open questions\n1. two")
    assert notes.sections == {"Facts": ["one"], "Open questions": ["1. two"]}


def test_bullets_with_an_old_value_go() -> None:
    messages = [
        Message(role="user", content="The dentist appointment is on 12 May."),
        Message(role="user", content="Actually the dentist appointment moved to 19 May."),
    ]
    notes = SummaryNotes.parse("Facts:\n- Dentist appointment: 12 May\n- The house has a garden")
    notes.drop_stale(corrections(find_quotes(messages)))
    assert notes.text == "Facts:\n- The house has a garden"


def test_lost_words_are_added_within_the_budget() -> None:
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


def test_whole_notes_pass(notes: Callable[..., str]) -> None:
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
def test_what_is_not_whole_is_refused(text: str, reason: str, words: str) -> None:
    with pytest.raises(CompactionRefused, match=words):
        check_answer(text, reason)


def test_too_little_saving_is_refused() -> None:
    check_saving(1000, 700, range_tokens=800, summary_tokens=300)
    with pytest.raises(CompactionRefused, match="only 29"):
        check_saving(1000, 710, range_tokens=800, summary_tokens=300)
    with pytest.raises(CompactionRefused, match="longer than the text it replaces"):
        check_saving(1000, 500, range_tokens=300, summary_tokens=300)
