"""The history of prompts that the up key recalls."""

from __future__ import annotations

from ingle.tui.composing.input_history import InputHistory

PROMPTS = ["newest docker", "middle", "Docker build", "middle", "oldest"]


def older_prompts(walk: InputHistory) -> list[str]:
    found: list[str] = []
    while walk.older():
        found.append(walk.text)
    return found


def test_empty_draft_visits_every_prompt_once() -> None:
    walk = InputHistory("", PROMPTS)
    assert older_prompts(walk) == ["newest docker", "middle", "Docker build", "oldest"]
    assert walk.place == "earlier prompt 4/4"


def test_draft_filters_earlier_prompts() -> None:
    walk = InputHistory("docker", PROMPTS)
    assert older_prompts(walk) == ["newest docker", "Docker build"]
    assert walk.place == "earlier prompt 2/2 with “docker”"


def test_newer_ends_at_the_draft() -> None:
    walk = InputHistory(" docker ", PROMPTS)
    assert walk.older()
    assert walk.newer()
    assert walk.text == " docker "
    assert walk.is_at_draft
    assert not walk.newer()
