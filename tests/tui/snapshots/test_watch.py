"""Snapshots of the page of requests, and what its keys do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from textual.widgets import OptionList, TextArea

from ingle.tui.screens import watch_screen
from ingle.tui.screens.watch_screen import SHOWN, WatchScreen, split_at

if TYPE_CHECKING:
    from ..conftest import Chat, FakeDaemon, OpenChat
    from .conftest import AssertSnapshot

MORNING = 1_790_000_000.0
PROMPT = "You are an agent.\n" * 40 + "Today is Tuesday.\nList the \x1b[31mfiles\x1b[0m.\n"
BROKE_AT = PROMPT.index("Tuesday")


def request(number: int, **changes: object) -> dict[str, Any]:
    """A `request` event of an agent's turn."""
    seconds = {"queue_seconds": 0.1, "prompt_seconds": 1.3, "decode_seconds": 3.1}
    event: dict[str, Any] = {
        "id": f"r-{number}",
        "time": MORNING + 60 * number,
        "client": "claude-cli/2.1.329 (external, cli)",
        "path": "/v1/messages",
        "model": "qwen2.5-coder:1.5b",
        "messages": 32,
        "tools": 18,
        "prompt_tokens": 17203,
        "cached_tokens": 16900,
        "completion_tokens": 310,
        "seconds": 4.5,
        "calls": ["Bash", "Read"],
        "outcome": "tool_calls",
    }
    return event | seconds | changes


async def watch(chat: Chat, daemon: FakeDaemon) -> WatchScreen:
    """Open the page, with three requests on it."""
    await chat.until_shown("smollm2:135m on disk")
    before = len(daemon.watchers)
    chat.screen.run_command("watch")
    await chat.until(lambda: len(daemon.watchers) > before)
    broke = {"at": BROKE_AT, "of": len(PROMPT), "before": "Monday.\n", "after": "Tuesday.\n"}
    error = "The prompt has 20 000 tokens, and the model's context 16 384."
    daemon.watch(
        request(0, client="codex", messages=1, tools=1, slimmed=1204),
        request(1, error=error, outcome="failed", cached_tokens=0),
        request(2, prefix=broke),
    )
    await chat.until_shown("prefix broke at byte")
    screen = chat.app.screen
    assert isinstance(screen, WatchScreen)
    return screen


@pytest.mark.slow
async def test_watch(
    open_chat: OpenChat, fake_daemon: FakeDaemon, assert_snapshot: AssertSnapshot
) -> None:
    fake_daemon.watched_prompts["r-2"] = PROMPT
    async with open_chat(size=(160, 45)) as chat:
        chat.screen.run_command("watch")
        await chat.until_shown("No request has ended")
        await assert_snapshot(chat, "watch_empty")
        await chat.pilot.press("escape")
        await watch(chat, fake_daemon)
        await assert_snapshot(chat, "watch", (120, 40))
        await chat.pilot.press("enter")
        await chat.until_shown("Today is Tuesday.")
        await assert_snapshot(chat, "watch_prompt")


async def test_requests_are_listed_and_their_prompts_shown(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.watched_prompts["r-2"] = PROMPT
    async with open_chat(size=(80, 24)) as chat:
        screen = await watch(chat, fake_daemon)
        assert "3 requests · 1 failed" in chat.screen_text
        await chat.pilot.press("enter")
        await chat.until_shown("Today is Tuesday.")
        area = screen.query_one(TextArea)
        await chat.until(lambda: area.selected_text == "Tuesday.")
        assert area.text.endswith("List the files.\n")  # without escape sequences
        await chat.pilot.press("escape", "up")
        await chat.until_shown("error: The prompt has 20 000 tokens")
        await chat.pilot.press("enter")
        await chat.until_notified("No prompt of this id is kept.")
        await chat.pilot.press("up")
        await chat.until_shown("1 message, 1 tool; 17 203 tokens")
        fake_daemon.watch(request(3, client="later"))
        await chat.until_shown("later")
        assert screen.query_one(OptionList).highlighted == 0  # it does not jump to the newest
        await chat.pilot.press("f1")
        await chat.until_shown("Where you are")
        await chat.pilot.press("escape", "escape")
        await chat.until(lambda: chat.app.screen is chat.screen)


async def test_chosen_request_stays_chosen_when_the_oldest_goes(
    open_chat: OpenChat, fake_daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_screen, "KEPT", 3)
    fake_daemon.watched_prompts["r-1"] = "List the files."
    async with open_chat(size=(80, 24)) as chat:
        await watch(chat, fake_daemon)
        await chat.pilot.press("up")
        await chat.until_shown("error: The prompt has 20 000 tokens")
        fake_daemon.watch(request(3, client="later"))
        await chat.until_shown("later")
        await chat.pilot.press("enter")
        await chat.until_shown("List the files.")


async def test_daemon_that_is_gone_is_said(
    open_chat: OpenChat, fake_daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_screen, "RETRY_SECONDS", 600.0)
    async with open_chat(size=(80, 24)) as chat:
        await watch(chat, fake_daemon)
        await fake_daemon.stop()
        await chat.until_shown("The connection to the daemon broke.")
        assert "claude-cli" in chat.screen_text


@pytest.mark.parametrize(("text", "at"), [("né 日本", 4), ("abc", 0), ("abc", 3)])
def test_prompt_is_split_at_a_byte(text: str, at: int) -> None:
    before, after = split_at(text, at)
    assert before + after == text
    assert len(before.encode()) <= at < len(before.encode()) + 3


def test_of_a_huge_prompt_what_is_near_is_shown() -> None:
    before, after = split_at("a" * (SHOWN + 7) + "b" * (SHOWN + 9), SHOWN + 7)
    assert before == "… 7 characters more\n" + "a" * SHOWN
    assert after == "b" * SHOWN + "\n… 9 characters more"
