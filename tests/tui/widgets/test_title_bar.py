"""The title bar: branch, saved state, width, and clicks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.tui.chats.chat import Chat as ChatTree
from ingle.tui.chats.message import Message
from ingle.tui.session.chat_entries import branch_of
from ingle.tui.session.chat_events import HistoryStatusChanged
from ingle.tui.session.chat_state import ChatStatus
from ingle.tui.settings.chat_folders import ChatFolders
from ingle.tui.widgets.route_line import RouteLine
from ingle.tui.widgets.status_line import StatusLine
from ingle.tui.widgets.title_bar import TitleBar

if TYPE_CHECKING:
    from ..conftest import OpenChat


def test_branch_position_is_of_the_last_fork() -> None:
    tree = ChatTree()
    assert branch_of(tree) == ""
    prompt = tree.add(Message(role="user", content="a"))
    first = tree.add(Message(role="assistant", content="b", parent=prompt.id))
    assert branch_of(tree) == ""
    tree.add(Message(role="assistant", content="c", parent=prompt.id))
    assert branch_of(tree) == "2/2"
    tree.choose(first)
    assert branch_of(tree) == "1/2"


@pytest.mark.parametrize("width", [60, 80, 160])
async def test_narrow_title_bar_keeps_the_most_important_parts(
    open_chat: OpenChat, width: int
) -> None:
    async with open_chat(size=(width, 30)) as chat:
        await chat.until_shown("smollm2:135m")
        await chat.send("Kyoto with parents in four days")
        await chat.until_shown("Hello there.")
        await chat.pilot.press("f5")
        await chat.until_shown("⎇ 2/2")
        chat.app.query_one(TitleBar).pulls = 1
        chat.screen.post_message(HistoryStatusChanged("The disk is full."))
        await chat.until_shown("NOT SAVED")
        top = chat.screen_text.splitlines()[0]
        assert "Kyoto with p" in top
        assert "⎇ 2/2" in top
        assert len(top) <= width


async def test_long_name_of_a_model_leaves_its_state(open_chat: OpenChat) -> None:
    async with open_chat(size=(80, 24)) as chat:
        await chat.until_shown("smollm2:135m on disk")
        line = chat.app.query_one(StatusLine)
        name = "qwen2.5-coder-0.5b-instruct:q4_k_m"
        line.status = ChatStatus(model=name, state="starting 40 %", context=8192)
        await chat.until_shown(" qwen2.5-coder-0.5b-")
        assert "… starting 40 % " in chat.screen_text


async def test_temporary_chat_is_marked(open_chat: OpenChat) -> None:
    async with open_chat(size=(100, 30)) as chat:
        await chat.until_shown("smollm2:135m")
        await chat.pilot.press("ctrl+t")
        await chat.until_shown("temporary, not saved")
        await chat.until_shown("this chat is never written to disk")
        await chat.pilot.press("ctrl+n")
        await chat.until(lambda: "temporary" not in chat.screen_text)


@pytest.mark.slow
async def test_saved_state_and_errors_are_shown(open_chat: OpenChat, tmp_path: Path) -> None:
    folders = ChatFolders(tmp_path / "chats", tmp_path / "config")
    async with open_chat(size=(100, 30), folders=folders) as chat:
        await chat.until_shown("smollm2:135m")
        await chat.send("hello")
        await chat.until_shown(" saved\n")
        chat.screen.post_message(HistoryStatusChanged("The disk is full."))
        await chat.until_shown(" NOT SAVED\n")
        chat.screen.post_message(HistoryStatusChanged("Chats are kept again.", is_over=True))
        await chat.until_shown(" saved\n")


async def test_clicks_open_models_and_the_route_reason(open_chat: OpenChat) -> None:
    async with open_chat(size=(100, 30)) as chat:
        await chat.until_shown("smollm2:135m")
        await chat.pilot.click(RouteLine)
        await chat.until_notified("no cloud provider is configured")
        await chat.pilot.click(StatusLine)
        await chat.until_shown("filter, or hf.co")
