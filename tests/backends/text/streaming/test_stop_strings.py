"""`StopStrings`: detection in streamed text."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ingle.backends.text.streaming.text_output import StopStrings

# A small alphabet, so that stop strings overlap themselves and each other.
letters = st.text("ab", max_size=40)
stop_lists = st.lists(st.text("ab", min_size=1, max_size=5), max_size=4)
pieces_lists = st.lists(st.text("abc", max_size=6), max_size=12)


def find_stop(text: str, stops: list[str]) -> tuple[str, bool]:
    """Reference: the first stop string to end cuts the text at its earliest start."""
    for end in range(1, len(text) + 1):
        starts = [end - len(stop) for stop in stops if text[:end].endswith(stop)]
        if starts:
            return text[: min(starts)], True
    return text, False


def held_back_from(text: str, stops: list[str]) -> int:
    """The start of the longest suffix that is a prefix of a stop string."""
    return min(
        (i for i in range(len(text)) if any(stop.startswith(text[i:]) for stop in stops)),
        default=len(text),
    )


@given(pieces_lists, stop_lists)
@example(["ab", "ab", "ac"], ["ababac"])
@example(["a", "b", "c"], ["abcc", "bc"])
def test_matches_the_reference_for_any_split(pieces: list[str], stops: list[str]) -> None:
    expected, hit = find_stop("".join(pieces), stops)
    finder = StopStrings(stops)
    shown = ""
    for count, piece in enumerate(pieces, start=1):
        shown += finder.push(piece)
        stopped = finder.found is not None
        so_far = "".join(pieces[:count])
        assert stopped == find_stop(so_far, stops)[1]
        # Exactly the possible start of a stop string is held back.
        assert shown == (expected if stopped else so_far[: held_back_from(so_far, stops)])
    assert shown + finder.flush() == expected
    assert (finder.found is not None) == hit


@given(letters, stop_lists, st.text("ab", max_size=5))
def test_no_text_is_emitted_after_a_stop(text: str, stops: list[str], more: str) -> None:
    finder = StopStrings(stops)
    finder.push(text)
    if finder.found is not None:
        assert finder.push(more) == ""
        assert finder.flush() == ""


def test_stop_string_across_pieces() -> None:
    finder = StopStrings(["</answer>"])
    assert finder.push("42</ans") == "42"
    assert finder.push("wer") == ""
    assert finder.found is None
    assert finder.push("> and more") == ""
    assert finder.found == "</answer>"


def test_partial_match_is_released() -> None:
    finder = StopStrings(["</answer>"])
    assert finder.push("a</ans") == "a"
    assert finder.push("a<") == "</ansa"
    assert finder.flush() == "<"


def test_without_stop_strings_nothing_is_held_back() -> None:
    finder = StopStrings([])
    assert finder.push("abc") == "abc"
    assert finder.flush() == ""


def test_longer_of_two_stop_strings_ending_together_wins() -> None:
    finder = StopStrings(["c", "bc"])
    assert (finder.push("abc"), finder.found) == ("a", "bc")


def test_first_completed_stop_string_wins() -> None:
    finder = StopStrings(["abcd", "bc"])
    assert (finder.push("xabcd"), finder.found) == ("xa", "bc")


def test_unicode_stop_strings() -> None:
    finder = StopStrings(["終わり"])
    assert finder.push("続く終") == "続く"
    assert (finder.push("わり。"), finder.found) == ("", "終わり")


def test_empty_stop_strings_are_rejected() -> None:
    with pytest.raises(ValueError, match="empty"):
        StopStrings(["a", ""])


def test_held_back_text_is_bounded() -> None:
    finder = StopStrings(["x" * 50 + "!", "ab" * 30 + "!"])
    shown = sum(len(finder.push("xyab")) for _ in range(20_000))
    held = len(finder.flush())
    assert held <= 60
    assert shown + held == 80_000
