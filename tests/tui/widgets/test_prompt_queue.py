"""The queue of prompts above the composer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ..conftest import FakeDaemon, OpenChat


@pytest.mark.slow
async def test_click_returns_a_queued_prompt_to_the_draft(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script("One.", "more", gate_before=1)
    async with open_chat() as chat:
        await chat.until_shown("on disk")
        await chat.send("first")
        await chat.until_shown("One.")
        await chat.send("second\nline")
        await chat.send("third")
        await chat.until_shown("↳ next  third  ↑ takes it back")
        await chat.pilot.press(*"draft")
        await chat.pilot.click("PromptQueue", offset=(4, 0))
        await chat.until(lambda: chat.draft == "second\nline\n\ndraft")
        assert "↳ next  third" in chat.screen_text
        fake_daemon.gate.set()
        await chat.until(lambda: len(fake_daemon.prompts) == 2)
        assert fake_daemon.prompts[1][-1]["content"] == "third"


async def test_ctrl_d_quits_with_an_empty_draft(open_chat: OpenChat) -> None:
    async with open_chat() as chat:
        await chat.until_shown("on disk")
        await chat.pilot.press("a", "ctrl+d", "backspace", "ctrl+d")
        await chat.until(lambda: not chat.app.is_running)
