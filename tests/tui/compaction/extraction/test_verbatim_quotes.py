"""Extraction of verbatim quotes from user messages, without a model."""

from __future__ import annotations

import pytest

from ingle.tui.chats.message import Message
from ingle.tui.compaction.extraction.verbatim_quotes import find_quotes, missing, within


def prompts_of(*prompts: str) -> list[Message]:
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
def test_informative_sentence_is_quoted(sentence: str) -> None:
    assert [
        quote.text for quote in find_quotes(prompts_of(f"Hello. {sentence} Thanks a lot!"))
    ] == [sentence]


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
def test_small_talk_is_not_quoted(sentence: str) -> None:
    assert find_quotes(prompts_of(sentence)) == []


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
def test_lead_in_phrases_are_removed(written: str, kept: str) -> None:
    assert [quote.text for quote in find_quotes(prompts_of(written))] == [kept]


def test_code_at_the_end_of_a_sentence_is_kept_whole() -> None:
    quotes = find_quotes(
        prompts_of("The spare part is FE-8846-R. The shop is in Graz. Ask Dr. Okafor.")
    )
    assert [quote.text for quote in quotes] == [
        "The spare part is FE-8846-R.",
        "The shop is in Graz.",
        "Ask Dr. Okafor.",
    ]


def test_repeated_statement_moves_to_its_last_position() -> None:
    quotes = find_quotes(prompts_of("The code is 4417.", "The lock is new.", "The code is 4417."))
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
def test_values_are_extracted_whole(sentence: str, keys: tuple[str, ...]) -> None:
    assert [quote.keys for quote in find_quotes(prompts_of(sentence))] == [keys]


def test_short_reply_is_quoted_with_its_question() -> None:
    messages = [
        Message(role="assistant", content="Nice. What is the code of the gate?"),
        Message(role="user", content="It's 7731."),
    ]
    assert [quote.text for quote in find_quotes(messages)] == [
        "It's 7731. (asked: What is the code of the gate?)"
    ]


def test_missing_finds_quotes_absent_from_the_summary() -> None:
    quotes = find_quotes(prompts_of("The door code is 48-KX-913.", "The locker has the code 5512."))
    left = missing(quotes, "Facts:\n- the code of the door is 48-KX-913")
    assert [quote.text for quote in left] == ["The locker has the code 5512."]


def test_most_informative_quotes_fill_the_budget_in_order() -> None:
    quotes = find_quotes(
        prompts_of(
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


def test_pasted_text_is_not_quoted() -> None:
    assert find_quotes(prompts_of("ERROR 5512 at line 77 " * 60)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["http://" * 20_000, "A. " * 50_000, "so " * 50_000, "a@" * 50_000]
)
def test_long_nonsense_text_is_processed_quickly(text: str) -> None:
    assert find_quotes(prompts_of(text)) == []
