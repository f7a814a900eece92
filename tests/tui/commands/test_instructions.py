"""The system prompt, sampling and reasoning settings of a chat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ingle.tui.commands.sampling_options import ChatOption, changed_sampling

if TYPE_CHECKING:
    from ..conftest import FakeDaemon, OpenChat


async def test_system_prompt_is_sent_first(open_chat: OpenChat, fake_daemon: FakeDaemon) -> None:
    async with open_chat() as chat:
        await chat.send("/system Be brief.")
        await chat.until(lambda: chat.screen.chat.settings.system == "Be brief.")
        await chat.send("hello")
        await chat.until_shown("Hello there.")
    assert fake_daemon.prompts[0] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hello"},
    ]


@pytest.mark.slow
async def test_system_prompt_editor_saves_and_cancels(open_chat: OpenChat) -> None:
    async with open_chat() as chat:
        await chat.send("/system")
        await chat.until_shown("System prompt of this chat")
        await chat.pilot.press(*"Rhyme")
        await chat.pilot.press("ctrl+s")
        await chat.until(lambda: chat.screen.chat.settings.system == "Rhyme")
        await chat.send("/system")
        await chat.until_shown("System prompt of this chat")
        await chat.pilot.press("x", "escape")
        assert chat.screen.chat.settings.system == "Rhyme"


async def test_sampling_options_are_sent(open_chat: OpenChat, fake_daemon: FakeDaemon) -> None:
    async with open_chat(size=(100, 30)) as chat:
        await chat.send("/sampling temperature=0 max_tokens=40")
        await chat.until_shown("Sampling of this chat")
        await chat.send("hello")
        await chat.until_shown("Hello there.")
        await chat.send("/sampling temperature=hot")
        await chat.until_shown("temperature is a number")
    body = [r for r in fake_daemon.requests if r.target == "/ingle/v1/generations"][-1].body
    assert body["sampling"] == {"temperature": 0}
    assert body["max_tokens"] == 40


@pytest.mark.slow
async def test_reasoning_effort_is_sent(open_chat: OpenChat, fake_daemon: FakeDaemon) -> None:
    async with open_chat(size=(100, 30)) as chat:
        await chat.send("/think high")
        await chat.until_shown("Thinking in this chat: high")
        await chat.send("/think hard")
        await chat.until_shown("/think takes one of")
        await chat.send("hello")
        await chat.until_shown("Hello there.")
    body = [r for r in fake_daemon.requests if r.target == "/ingle/v1/generations"][-1].body
    assert body["reasoning"] == {"enabled": True, "effort": "high"}


OPTIONS = {
    option.name: option
    for option in (
        ChatOption(name="temperature", minimum=0, maximum=2),
        ChatOption(name="top_p", minimum=0, maximum=1, exclusive=True),
        ChatOption(name="top_k", minimum=-1, maximum=100, is_integer=True),
        ChatOption(name="seed", minimum=0, maximum=100, is_integer=True),
    )
}


def test_sampling_pairs_are_parsed() -> None:
    assert changed_sampling({"seed": 1}, "temperature=0.5, top_k=3", OPTIONS) == {
        "seed": 1,
        "temperature": 0.5,
        "top_k": 3,
    }
    assert changed_sampling({"seed": 1}, "seed=", OPTIONS) == {}


@pytest.mark.parametrize(
    "text", ["warm", "warmth=1", "temperature=9", "top_k=1.5", "seed=nan", "top_p=0"]
)
def test_invalid_sampling_pairs_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        changed_sampling({}, text, OPTIONS)
