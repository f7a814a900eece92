"""Detection of corrections: which statements a later one replaces, with or without a cue."""

from __future__ import annotations

import re

import pytest

from ingle.tui.chats.message import Message
from ingle.tui.compaction.extraction.corrections import corrections, valid_quotes
from ingle.tui.compaction.extraction.verbatim_quotes import find_quotes


def prompts_of(*prompts: str) -> list[Message]:
    return [Message(role="user", content=prompt) for prompt in prompts]


def remaining(*prompts: str, count: int | None = None) -> list[str]:
    """The quotes of the first `count` prompts that are still valid."""
    messages = prompts_of(*prompts)
    names = {message.id for message in messages[:count]}
    quotes = find_quotes(messages)
    return [quote.text for quote in valid_quotes(quotes, names, corrections(quotes))]


def test_corrected_statement_is_dropped() -> None:
    assert remaining(
        "The dentist appointment is on 12 May.",
        "We need 14 chairs for the terrace.",
        "Actually, the dentist appointment moved to 19 May.",
    ) == [
        "We need 14 chairs for the terrace.",
        "Actually, the dentist appointment moved to 19 May.",
    ]


def test_same_words_with_another_value_are_a_correction() -> None:
    later = "I looked again: the train leaves at 7:05."
    assert remaining("The train leaves at 6:25.", later) == [later]


def test_correction_in_later_turns_drops_the_statement() -> None:
    assert remaining("The code is 4417.", "Correction: the code is 5526.", count=1) == []


@pytest.mark.parametrize(
    ("earlier", "later", "old"),
    [
        (
            "The dentist appointment is at 8:15.",
            "The dentist called, come at 9:40.",
            "8:15",
        ),
        ("I see the dentist at 11:20.", "14:50 is when the dentist expects me.", "11:20"),
        ("My brother lives in Lisbon.", "My brother has a new flat, it is in Oslo.", "Lisbon"),
        ("The rent is 840 euros.", "The landlord wants 905 euros rent from us.", "840"),
        ("Our guide is Marta.", "Marta is ill, so Paolo will be our guide.", "Marta"),
        ("The cake is to be a lemon cake.", "We voted, and the cake will be walnut.", "lemon"),
        ("The printer takes hedge-44.", "Type stone-17 into the printer.", "hedge-44"),
        (
            "We see the architect on Monday.",
            "We have a date with the architect on Friday.",
            "Monday",
        ),
        (
            "We use https://call.example/j/9 for the call.",
            "The call is at https://a.example/x.",
            "https://call.example/j/9",
        ),
        (
            "The link of the call is https://a.example/x.",
            "The call is on https://b.example/y.",
            "https://a.example/x",
        ),
        (
            "The present for my uncle is a chess set.",
            "My aunt suggests that we give my uncle a lamp.",
            "present, chess, set",
        ),
        ("My sister lives in Oslo.", "My sister, you know, lives in Bern.", "Oslo"),
    ],
)
def test_another_value_of_the_same_subject_is_marked_as_latest(
    earlier: str, later: str, old: str
) -> None:
    masked = re.sub("|".join(old.split(", ")), "…", earlier)
    assert remaining(earlier, later) == [
        f"About “{masked}” the latest is: {later} (It was {old} before.)"
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I booked a bed in Ghent.", "We booked Noor as our guide."),
        ("My exam is on 7 March.", "I have to register for the exam by 2 February."),
        ("My budget for the sofa is 740 euros.", "My budget for the lamp is 60 euros."),
        ("The train leaves at 6:25.", "The train arrives at 11:40."),
        ("The concert is on 6 May.", "The rehearsal for the concert is on 4 May."),
        ("The green bin is emptied on Monday.", "The brown bin is emptied on Thursday."),
        ("The garden is 26 metres long.", "We spent 3 hours in the garden."),
        ("The spare key is with Ilse, our neighbour.", "Our neighbour Hugo has a dog."),
        ("I take my tea with lemon.", "My tea went cold while I was reading your answer."),
        ("The dentist is at 8:15.", "Could the dentist be open at 7:30?"),
    ],
)
def test_unrelated_statements_are_both_kept(one: str, other: str) -> None:
    assert remaining(one, other)[0] == one


def test_likely_correction_in_later_turns_keeps_both_values() -> None:
    earlier, later = "I see the dentist at 11:20.", "14:50 is when the dentist expects me."
    assert remaining(earlier, "Hello there, friend.", later, count=2) == [
        f"About “I see the dentist at ….” the latest is: {later} (It was 11:20 before.)"
    ]


def test_second_correction_replaces_both_earlier_values() -> None:
    first, second = "I see the dentist at 11:20.", "14:50 is when the dentist expects me."
    last = "Correction: the dentist expects me at 9:40."
    assert remaining(first, second, last) == [last]


def test_last_of_three_values_is_kept() -> None:
    assert remaining(
        "The dentist is at 8:15.", "Correction: the dentist is at 9:40.", "The dentist is at 8:15."
    ) == ["The dentist is at 8:15."]
