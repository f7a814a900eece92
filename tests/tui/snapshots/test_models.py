"""Snapshots of the model picker, its dialogs, downloads, and the comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from textual.widgets import OptionList

from ingle.tui.chats.chat import Chat as ChatTree
from ingle.tui.settings.chat_folders import ChatFolders
from ingle.tui.widgets.composer.composer import Composer

if TYPE_CHECKING:
    from ..conftest import Chat, FakeDaemon, OpenChat
    from .conftest import AssertSnapshot

GB = 10**9


def fit(state: str, needs: int) -> dict[str, Any]:
    return {
        "device": "cpu",
        "state": state,
        "needs_bytes": needs,
        "free_bytes": 8 * GB,
        "context": 4096,
    }


async def close_dialog(chat: Chat) -> None:
    await chat.pilot.press("escape")
    await chat.until(lambda: chat.app.screen is chat.screen)


@pytest.mark.slow
async def test_models(
    open_chat: OpenChat,
    fake_daemon: FakeDaemon,
    folders: ChatFolders,
    tree: ChatTree,
    assert_snapshot: AssertSnapshot,
) -> None:
    fake_daemon.add_model("smollm2:135m", state="ready", fit=fit("fits", GB))
    fake_daemon.add_model("qwen3:8b", size=5 * GB, fit=fit("spills", 9 * GB), draft="qwen3:0.6b")
    fake_daemon.add_model("big:70b", size=42 * GB, installed=False, fit=fit("no", 45 * GB))
    fake_daemon.add_model("a-name-that-is-rather-long:7b", size=4 * GB, installed=False)
    fake_daemon.add_model("nomic:v1.5", chat=False, task="embed", size=GB // 4)
    async with open_chat(size=(80, 24), folders=folders) as chat:
        await chat.until_shown("smollm2:135m")
        chat.screen.open_chat(tree)
        await chat.pilot.press("ctrl+o")
        await chat.until_shown("filter, or hf.co")
        await assert_snapshot(chat, "models")
        await chat.pilot.press("down", "tab")
        await chat.until(lambda: isinstance(chat.app.screen.focused, OptionList))
        await assert_snapshot(chat, "models_keys")
        await chat.pilot.press("d")
        await chat.until_shown("Delete qwen3:8b?")
        await assert_snapshot(chat, "models_delete")
        await close_dialog(chat)
        await chat.pilot.press("ctrl+o")
        await chat.until(lambda: chat.app.screen.is_modal)
        await chat.pilot.press(*"big", "enter")
        await chat.until_shown("Download big:70b anyway?")
        await assert_snapshot(chat, "models_doubt")


@pytest.mark.slow
async def test_pull(
    open_chat: OpenChat,
    fake_daemon: FakeDaemon,
    folders: ChatFolders,
    tree: ChatTree,
    assert_snapshot: AssertSnapshot,
) -> None:
    fake_daemon.add_model("far:2b", installed=False)
    async with open_chat(size=(80, 24), folders=folders) as chat:
        await chat.until_shown("smollm2:135m")
        chat.screen.open_chat(tree)
        chat.screen.run_command("pull", "far:2b")
        await chat.until_shown("40 MB")
        await assert_snapshot(chat, "pull")
        chat.screen.run_command("pull")
        await chat.until_shown("Stop the download of far:2b?")
        await assert_snapshot(chat, "pull_stop")


@pytest.mark.slow
async def test_compare(
    open_chat: OpenChat,
    fake_daemon: FakeDaemon,
    folders: ChatFolders,
    assert_snapshot: AssertSnapshot,
) -> None:
    fake_daemon.add_model("other:1b")
    fake_daemon.script("The **left** lane is ", "shorter, by about `200 m`.")
    fake_daemon.script("Right.\n\n", "- flat\n- dry")
    async with open_chat(size=(80, 24), folders=folders) as chat:
        await chat.until_shown("smollm2:135m")
        chat.screen.run_command("compare", "other")
        await chat.until_shown("Ask both")
        await assert_snapshot(chat, "compare_empty")
        chat.app.screen.query_one(Composer).replace_text("Which way?")
        await chat.pilot.press("enter")
        await chat.until(lambda: chat.screen_text.count("2 tokens") == 2)
        await assert_snapshot(chat, "compare")
