"""What the daemon says of a text, in the words of the chat."""

from __future__ import annotations

from ingle.daemon.client.routing_types import ExplainedFinding, Explanation
from ingle.tui.privacy.chat_route import kinds_found


def test_kinds_are_named_once_and_in_words() -> None:
    found = [
        ExplainedFinding(kind=kind)
        for kind in ("api_key", "person", "api_key", "own_word", "new_kind")
    ]
    said = Explanation(verdict="local", findings=found)
    assert kinds_found(said) == "API key, person, word from your list, new kind"
