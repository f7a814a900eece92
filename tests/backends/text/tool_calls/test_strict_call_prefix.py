"""When an answer has begun as something else than a call."""

from __future__ import annotations

import pytest

from ingle.backends.text.answers.answer_output import StrictCallPrefix

NAMES = {"now", "get_weather"}


def free_after(text: str) -> int | None:
    """How many characters it takes until it is certain that this is no call."""
    held = StrictCallPrefix(NAMES)
    for count, char in enumerate(text, 1):
        held.push(char)
        if held.is_free:
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
def test_it_is_certain_as_soon_as_it_can_be(text: str, characters: int | None) -> None:
    assert free_after(text) == characters


def test_what_is_a_call_stays_one() -> None:
    held = StrictCallPrefix(NAMES)
    held.push('{"name": "now", ')
    held.push("x" * 10_000)
    assert not held.is_free
