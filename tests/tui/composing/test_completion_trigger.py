"""The trigger of completion: commands, files and chats before the cursor."""

from __future__ import annotations

import pytest

from ingle.tui.composing.completion_trigger import CompletionTrigger, find_trigger


@pytest.mark.parametrize(
    ("line", "trigger"),
    [
        ("/", CompletionTrigger("command", "", 0)),
        ("/comp", CompletionTrigger("command", "comp", 0)),
        ("/compact focus", None),
        ("say /x", None),
        ("see @src/a", CompletionTrigger("file", "src/a", 4)),
        ("@", CompletionTrigger("file", "", 0)),
        ('(@"two wo', CompletionTrigger("file", "two wo", 1)),
        ("me@host", None),
        ("@done ", None),
        ("#", CompletionTrigger("chat", "", 0)),
        ("as in #kyo", CompletionTrigger("chat", "kyo", 6)),
        ("# Heading", None),
        ("C#x", None),
        ("## ", None),
    ],
)
def test_trigger_depends_on_the_word_before_the_cursor(
    line: str, trigger: CompletionTrigger | None
) -> None:
    assert find_trigger(line, first=True) == trigger


def test_commands_are_completed_only_in_the_first_line() -> None:
    assert find_trigger("/comp", first=False) is None
