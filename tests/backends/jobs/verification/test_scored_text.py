"""The text that engines are compared on, and its windows."""

from __future__ import annotations

import pytest

from ingle.backends.base.errors import LoadFailed
from ingle.backends.jobs.verification.scored_text import default_text, split_into_windows


def test_text_is_long_and_diverse() -> None:
    text = default_text()
    assert len(text) > 10_000
    for part in ("def count_words", "Großmutter", "春天", "Утром", "0.63", "Dear all"):
        assert part in text
    assert all(c.isprintable() or c == "\n" for c in text if c != "\u3000")


def test_long_context_has_one_window() -> None:
    assert split_into_windows(range(5), tokens=None, context=5, bos=9) == [[0, 1, 2, 3, 4]]
    assert split_into_windows(range(5), tokens=3, context=5, bos=None) == [[0, 1, 2]]


def test_short_context_has_several_windows() -> None:
    windows = split_into_windows(range(10), tokens=None, context=4, bos=None)
    assert windows == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    # A single last token has no predecessor, unless the window starts with BOS.
    assert split_into_windows(range(9), tokens=None, context=4, bos=None) == windows[:2]
    with_bos = split_into_windows([99, *range(6)], tokens=None, context=3, bos=99)
    assert with_bos == [[99, 0, 1], [99, 2, 3], [99, 4, 5]]


@pytest.mark.parametrize(
    ("count", "tokens", "context", "words"),
    [
        (5, 6, 100, "has 5 tokens in this model's vocabulary, not 6"),
        (1, None, 100, "has nothing to predict"),
        (0, None, 100, "has nothing to predict"),
        (50, None, 2, "too short to compare"),
    ],
)
def test_too_short_text_or_context_is_rejected(
    count: int, tokens: int | None, context: int, words: str
) -> None:
    with pytest.raises(LoadFailed, match=words):
        split_into_windows(range(count), tokens=tokens, context=context, bos=None)
