"""What the daemon says of a text, in the words of the chat."""

from __future__ import annotations

from ingle.tui.client.routing_requests import DetectedKinds, RoutingExplanation


def test_kinds_are_named_once_and_in_words() -> None:
    found = [
        DetectedKinds(kind=kind)
        for kind in ("api_key", "person", "api_key", "own_word", "new_kind")
    ]
    said = RoutingExplanation(verdict="local", findings=found)
    assert said.kinds == "API key, person, word from your list, new kind"
