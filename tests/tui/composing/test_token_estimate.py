"""The estimate of a text's tokens without a tokenizer."""

from __future__ import annotations

import pytest

from ingle.tui.composing.token_estimate import estimate_tokens


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0),
        ("Hi", 1, 2),
        ("The quick brown fox jumps over the lazy dog.", 9, 13),
        ("京都は美しい町です。", 6, 12),
        ("a b c d e f", 6, 6),
    ],
)
def test_token_estimate_is_close(text: str, least: int, most: int) -> None:
    assert least <= estimate_tokens(text) <= most
