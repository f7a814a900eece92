"""`StrictCallPrefix`: how early an answer is recognized as not being a tool call."""

from __future__ import annotations

import pytest

from ingle.backends.text.answers.answer_output import StrictCallPrefix

NAMES = {"now", "get_weather"}


def characters_until_free(text: str) -> int | None:
    """The number of characters after which the text is certainly not a call."""
    prefix = StrictCallPrefix(NAMES)
    for count, char in enumerate(text, 1):
        prefix.push(char)
        if prefix.is_free:
            return count
    return None


@pytest.mark.parametrize(
    ("text", "characters"),
    [
        ("Hello", 1),
        ("\n\n Hello", 4),
        ("<b>", 2),
        ("```python\nprint", 11),
        ("```json\n[1]", 9),
        ('{"age": 3}', 3),
        ('{"name": "Ada"', 14),
        ('{"name": 3', 10),
        ('{"name": "now"', None),
        ('```json\n{\n  "name": "get_weather",\n  "arguments": {}\n}\n```', None),
        ('<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>\n', None),
        ("  ", None),
    ],
)
def test_non_calls_are_recognized_as_early_as_possible(text: str, characters: int | None) -> None:
    assert characters_until_free(text) == characters


def test_call_prefix_is_never_released() -> None:
    prefix = StrictCallPrefix(NAMES)
    prefix.push('{"name": "now", ')
    prefix.push("x" * 10_000)
    assert not prefix.is_free
