"""The pieces of a reviewed text: words, masks, and what is between them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.daemon.client.routing_types import Explanation, RedactedText, ReplacedSpan
from ingle.tui.privacy.text_review import TextReview


def reviewed(text: str, *spans: tuple[int, int]) -> TextReview:
    """A review of one text with placeholders for these spans."""
    review = TextReview(AsyncDaemonClient("/nowhere/ingle.sock"), {}, {"messages[0].content": text})
    replaced = [ReplacedSpan(start, end, "CARD_1") for start, end in spans]
    redacted = [RedactedText("messages[0].content", "", replaced)]
    review.said = Explanation(verdict="redact", redacted=redacted)
    return review


@given(st.text(), st.integers(0, 20), st.integers(1, 20))
def test_pieces_cover_the_text_in_order(text: str, start: int, length: int) -> None:
    spans = [(start, start + length)] if start + length <= len(text) else []
    pieces = list(reviewed(text, *spans).pieces(0))
    assert "".join(text[piece.start : piece.end] for piece in pieces) == text
    assert all(piece.end > piece.start for piece in pieces)
    assert [(p.start, p.end) for p in pieces if p.state == "masked"] == spans
    assert all(p.is_word or not any(map(str.isalnum, p.text)) for p in pieces)


def test_words_keep_inner_signs_and_not_the_full_stop() -> None:
    review = reviewed("Ask O'Neil, ann@example.org or 22-33. 张伟!")
    words = [piece.text for piece in review.pieces(0) if piece.is_word]
    assert words == ["Ask", "O'Neil", "ann@example.org", "or", "22-33", "张", "伟"]
    assert reviewed("My card 41 42.", (8, 13)).leaving(0) == "My card [CARD_1]."
