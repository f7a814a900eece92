"""The daemon's explanation of a text, as the chat shows it."""

from __future__ import annotations

from ingle.daemon.client.routing_types import ExplainedFinding, Explanation
from ingle.tui.privacy.chat_route import kinds_found


def test_kinds_are_listed_once_with_display_names() -> None:
    found = [
        ExplainedFinding(kind=kind)
        for kind in ("api_key", "person", "api_key", "own_word", "new_kind")
    ]
    explanation = Explanation(verdict="local", findings=found)
    assert kinds_found(explanation) == "API key, person, word from your list, new kind"
