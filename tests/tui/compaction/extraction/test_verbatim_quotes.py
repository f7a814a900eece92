"""What of a user's words is found worth keeping, without a model."""

from __future__ import annotations

import pytest

from ingle.tui.chats.message import Message
from ingle.tui.compaction.extraction.verbatim_quotes import find_quotes, missing, within


def said(*prompts: str) -> list[Message]:
    return [Message(role="user", content=prompt) for prompt in prompts]


@pytest.mark.parametrize(
    "sentence",
    [
        "The door code is 48-KX-913.",
        "Write to anna.berg@example.org when it is done.",
        "The form is at https://example.org/f/2291?x=1.",
        "We leave on 14 March at 7:40.",
        "My sister Margarethe looks after the cat.",
        "Never put coriander into anything.",
        "I prefer trains to planes.",
        "We went with the blue tiles because the grey ones were sold out.",
        "I still need to find out whether the ferry takes dogs.",
        "Ab jetzt bitte nie wieder mit Zwiebeln.",
        "Je préfère le train.",
    ],
)
def test_what_matters_is_kept(sentence: str) -> None:
    assert [quote.text for quote in find_quotes(said(f"Hello. {sentence} Thanks a lot!"))] == [
        sentence
    ]


@pytest.mark.parametrize(
    "sentence",
    [
        "That sounds lovely.",
        "Could you tell me more about that?",
        "Thank you so much.",
        "Hm, fine.",
        "Oh, and one more thing.",
    ],
)
def test_small_talk_is_not(sentence: str) -> None:
    assert find_quotes(said(sentence)) == []


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("By the way: the code is 4417.", "The code is 4417."),
        ("Oh, and the code is 4417.", "And the code is 4417."),
        ("No, the code is 4417.", "The code is 4417."),
        (
            "No dishwasher, because it blocks the door.",
            "No dishwasher, because it blocks the door.",
        ),
        ("So that it fits, we need 40 cm.", "So that it fits, we need 40 cm."),
    ],
)
def test_only_what_leads_up_to_a_statement_is_left_out(written: str, kept: str) -> None:
    assert [quote.text for quote in find_quotes(said(written))] == [kept]


def test_a_code_may_end_a_sentence() -> None:
    quotes = find_quotes(said("The spare part is FE-8846-R. The shop is in Graz. Ask Dr. Okafor."))
    assert [quote.text for quote in quotes] == [
        "The spare part is FE-8846-R.",
        "The shop is in Graz.",
        "Ask Dr. Okafor.",
    ]


def test_what_is_said_again_is_said_later() -> None:
    quotes = find_quotes(said("The code is 4417.", "The lock is new.", "The code is 4417."))
    assert [quote.text for quote in quotes] == ["The lock is new.", "The code is 4417."]


@pytest.mark.parametrize(
    ("sentence", "keys"),
    [
        ("14:50 is when the dentist expects me.", ("14:50",)),
        ("The printer takes hedge-44.", ("hedge-44",)),
        ("We fly on 3 March.", ("3 March",)),
        ("The parcel weighs 12 kg.", ("12 kg",)),
    ],
)
def test_values_are_found_whole_and_without_their_neighbours(
    sentence: str, keys: tuple[str, ...]
) -> None:
    assert [quote.keys for quote in find_quotes(said(sentence))] == [keys]


def test_a_short_reply_is_kept_with_its_question() -> None:
    messages = [
        Message(role="assistant", content="Nice. What is the code of the gate?"),
        Message(role="user", content="It's 7731."),
    ]
    assert [quote.text for quote in find_quotes(messages)] == [
        "It's 7731. (asked: What is the code of the gate?)"
    ]


def test_only_what_the_summary_lost_is_missing() -> None:
    quotes = find_quotes(said("The door code is 48-KX-913.", "The locker has the code 5512."))
    left = missing(quotes, "Facts:\n- the code of the door is 48-KX-913")
    assert [quote.text for quote in left] == ["The locker has the code 5512."]


def test_those_that_say_most_fill_the_budget_in_their_order() -> None:
    quotes = find_quotes(
        said(
            "My coat is blue and warm and I have had it for ages, and I like it.",
            "The door code is 48-KX-913.",
            "Never ring the bell.",
        )
    )
    assert len(quotes) == 3
    chosen = within(quotes, 20, lambda text: len(text.split()))
    assert [quote.text for quote in chosen] == [
        "The door code is 48-KX-913.",
        "Never ring the bell.",
    ]


def test_pasted_text_is_no_statement() -> None:
    assert find_quotes(said("ERROR 5512 at line 77 " * 60)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["http://" * 20_000, "A. " * 50_000, "so " * 50_000, "a@" * 50_000]
)
def test_long_text_without_sense_takes_no_time(text: str) -> None:
    assert find_quotes(said(text)) == []
