"""Snapshots of saved chats: list, search, dialogs, import, encryption."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.tui.chats.chat import Chat as ChatTree
from ingle.tui.chats.chat import ChatSettings
from ingle.tui.chats.message import Message
from ingle.tui.history.history_store import HistoryStore, open_history
from ingle.tui.history.imports.import_chats import ImportReport
from ingle.tui.settings.chat_folders import ChatFolders

if TYPE_CHECKING:
    from ..conftest import Chat, FakeDaemon, OpenChat
    from .conftest import AssertSnapshot

DAY = 86_400.0
SOUPS = ChatSettings(title="Soups & stews", pinned=True)


def add_chats(store: HistoryStore, morning: float) -> None:
    add_saved_chat(
        store, "tides", morning + 2 * DAY, ["Why are there tides?", "The moon pulls at the sea."]
    )
    add_saved_chat(
        store, "kyoto", morning + DAY, ["京都の車椅子 🙂", "Take the flat lane."], folder="travel"
    )
    add_saved_chat(
        store, "soup", morning - 40 * DAY, ["How long do lentils cook?", "A while."], SOUPS
    )
    long = "A question which is a good deal longer than any line of a list could ever be, " * 3
    add_saved_chat(store, "long", morning - 400 * DAY, [long, "The moon, [bold]again[/bold]."])


def add_saved_chat(
    store: HistoryStore,
    name: str,
    created: float,
    texts: list[str],
    settings: ChatSettings | None = None,
    *,
    folder: str = "",
) -> None:
    chat = ChatTree(settings or ChatSettings(folder=folder), id=name, created=created)
    store.add_chat(chat)
    parent: str | None = None
    for place, text in enumerate(texts):
        message = Message(
            role="user", content=text, parent=parent, id=f"{name}-{place}", created=created + place
        )
        if place % 2:
            message.role, message.ending, message.model = "assistant", "answered", "qwen3:8b"
        chat.add(message)
        store.add_message(name, message)
        parent = message.id


@pytest.fixture
def folders_with_chats(folders: ChatFolders, tree: ChatTree) -> ChatFolders:
    """Folders with saved chats."""
    store = open_history(folders.chats, pytest.fail)
    add_chats(store, tree.created)
    assert store.flush(5)
    store.close()
    return folders


async def close_dialog(chat: Chat) -> None:
    await chat.pilot.press("escape")
    await chat.until(lambda: chat.app.screen is chat.screen)


@pytest.mark.slow
async def test_chats(
    open_chat: OpenChat,
    fake_daemon: FakeDaemon,
    folders_with_chats: ChatFolders,
    assert_snapshot: AssertSnapshot,
) -> None:
    async with open_chat(size=(80, 24), folders=folders_with_chats) as chat:
        await chat.until_shown("smollm2:135m on disk")
        await chat.pilot.press("ctrl+g")
        await chat.until_shown("Soups & stews")
        await assert_snapshot(chat, "chats")
        await chat.pilot.press("f2")
        await chat.until_shown("Title")
        await assert_snapshot(chat, "rename")
        await chat.pilot.press("escape")
        await chat.until_shown("Soups & stews")
        await chat.pilot.press("f8")
        await chat.until_shown("permanently")
        await assert_snapshot(chat, "delete")


@pytest.mark.slow
async def test_search(
    open_chat: OpenChat,
    fake_daemon: FakeDaemon,
    folders_with_chats: ChatFolders,
    assert_snapshot: AssertSnapshot,
) -> None:
    async with open_chat(size=(80, 24), folders=folders_with_chats) as chat:
        await chat.until_shown("smollm2:135m on disk")
        await chat.pilot.press("ctrl+r")
        await chat.until_shown("exactly so")
        await assert_snapshot(chat, "search_help")
        await chat.pilot.press(*"moon")
        await chat.until_shown("2 hits")
        await chat.until_shown("pulls at")
        await assert_snapshot(chat, "search")


@pytest.mark.slow
async def test_import(
    open_chat: OpenChat,
    fake_daemon: FakeDaemon,
    folders_with_chats: ChatFolders,
    assert_snapshot: AssertSnapshot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released = threading.Event()

    def import_file(
        store: HistoryStore, path: Path, progress: Callable[[ImportReport], bool]
    ) -> ImportReport:
        report = ImportReport(seen=1200, total=4000, messages=31_415)
        progress(report)
        released.wait(20)
        return report

    monkeypatch.setattr(HistoryStore, "import_file", import_file)
    async with open_chat(size=(80, 24), folders=folders_with_chats) as chat:
        await chat.until_shown("smollm2:135m on disk")
        chat.screen.run_command("import")
        await chat.until_shown("Import chats")
        await assert_snapshot(chat, "import")
        await close_dialog(chat)
        chat.screen.run_command("import", "conversations.json")
        await chat.until_shown("Chats read")
        await assert_snapshot(chat, "import_progress")
        released.set()


needs_sqlcipher = pytest.mark.skipif(
    importlib.util.find_spec("sqlcipher3") is None, reason="SQLCipher is not installed"
)


@pytest.mark.slow
@needs_sqlcipher
async def test_a_new_passphrase(
    open_chat: OpenChat,
    fake_daemon: FakeDaemon,
    folders_with_chats: ChatFolders,
    assert_snapshot: AssertSnapshot,
) -> None:
    async with open_chat(size=(80, 24), folders=folders_with_chats) as chat:
        await chat.until_shown("smollm2:135m on disk")
        chat.screen.run_command("encrypt")
        await chat.until_shown("New passphrase")
        await chat.pilot.press(*"open")
        await assert_snapshot(chat, "encrypt")


@pytest.mark.slow
@needs_sqlcipher
async def test_locked_chats(
    open_chat: OpenChat,
    fake_daemon: FakeDaemon,
    folders_with_chats: ChatFolders,
    assert_snapshot: AssertSnapshot,
) -> None:
    store = open_history(folders_with_chats.chats, pytest.fail)
    store.encrypt("open sesame")
    store.close()
    async with open_chat(size=(80, 24), folders=folders_with_chats) as chat:
        await chat.until_shown("Passphrase of your chats")
        await chat.until_shown("smollm2:135m on disk")
        await assert_snapshot(chat, "unlock")
        await chat.pilot.press(*"open sesame", "enter")
        await chat.until(lambda: chat.app.screen is chat.screen)
        await chat.until(lambda: not store_of(chat).database.is_locked)
        chat.screen.run_command("encrypt", "off")
        await chat.until_shown("Store the chats unencrypted?")
        await assert_snapshot(chat, "encrypt_off")


def store_of(chat: Chat) -> HistoryStore:
    assert chat.screen.store is not None
    return chat.screen.store
