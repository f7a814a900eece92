"""Encryption of the saved chats with a passphrase, and unlocking from the keyring."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from ingle.tui.chats.chat import Chat
from ingle.tui.chats.message import Message
from ingle.tui.history.history_store import open_history
from ingle.tui.settings.chat_folders import ChatFolders

if TYPE_CHECKING:
    from ..conftest import OpenChat

needs_sqlcipher = pytest.mark.skipif(
    importlib.util.find_spec("sqlcipher3") is None, reason="SQLCipher is not installed"
)


@pytest.fixture
def folders(tmp_path: Path) -> ChatFolders:
    store = open_history(tmp_path / "chats", pytest.fail)
    chat = Chat(id="one")
    store.add_chat(chat)
    store.add_message("one", Message(role="user", content="Where is the marimba?"))
    store.close()
    return ChatFolders(tmp_path / "chats", tmp_path / "config")


@pytest.mark.slow
@needs_sqlcipher
async def test_encrypting_asks_twice_and_unlocking_asks_once(
    open_chat: OpenChat, folders: ChatFolders
) -> None:
    async with open_chat(folders=folders, size=(100, 30)) as chat:
        for second in ("another one", "open sesame"):
            await chat.send("/encrypt")
            await chat.until_shown("New passphrase")
            await chat.pilot.press(*"open sesame", "enter")
            await chat.until_shown("Repeat the passphrase")
            assert "sesame" not in chat.screen_text
            await chat.pilot.press(*second, "enter")
            expected = "are encrypted." if second == "open sesame" else "passphrases differ"
            await chat.until_shown(expected)
        await chat.until(lambda: not chat.app.screen.is_modal)
    assert b"marimba" not in b"".join(path.read_bytes() for path in folders.chats.iterdir())
    async with open_chat(folders=folders, size=(100, 30)) as chat:
        await chat.until_shown("Passphrase of your chats")
        await chat.pilot.press(*"wrong one", "enter")
        await chat.until_shown("does not open the chats")
        await chat.pilot.press(*"open sesame", "enter")
        await chat.until(lambda: chat.screen.store and not chat.screen.store.database.is_locked)
        await chat.pilot.press("ctrl+g")
        await chat.until_shown("Where is the marimba?")


@pytest.mark.slow
@needs_sqlcipher
async def test_chatting_works_before_unlocking_and_the_list_asks(
    open_chat: OpenChat, folders: ChatFolders
) -> None:
    store = open_history(folders.chats, pytest.fail)
    store.encrypt("open sesame")
    store.close()
    async with open_chat(folders=folders, size=(100, 30)) as chat:
        await chat.until_shown("Passphrase of your chats")
        await chat.pilot.press("escape")
        await chat.send("talk of a celesta")
        await chat.until_shown("Hello there.")
        await chat.pilot.press("ctrl+g")
        await chat.until_shown("Passphrase of your chats")
        await chat.pilot.press(*"open sesame", "enter")
        await chat.until_shown("Where is the marimba?")
        await chat.until_shown("Talk of a celesta")


class Keyring(ModuleType):
    """A stand-in for the system's keyring."""

    def __init__(self) -> None:
        super().__init__("keyring")
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, name: str) -> str | None:
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, password: str) -> None:
        self.kept[service, name] = password

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[service, name]


@pytest.mark.slow
@needs_sqlcipher
async def test_keyring_unlocks_the_chats_if_enabled(
    open_chat: OpenChat, folders: ChatFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_history(folders.chats, pytest.fail)
    store.encrypt("open sesame")
    store.close()
    monkeypatch.setitem(sys.modules, "keyring", keyring := Keyring())
    async with open_chat(folders=folders, size=(100, 30)) as chat:
        await chat.until_shown("Passphrase of your chats")
        await chat.pilot.press(*"open sesame", "enter")
        await chat.until(lambda: not chat.app.screen.is_modal)
        opened = chat.screen.store
        assert opened is not None
        await chat.until(lambda: not opened.database.is_locked)
        await chat.send("/encrypt remember")
        await chat.until_shown("keyring unlocks the chats")
        await chat.until(lambda: "open sesame" in keyring.kept.values())
    async with open_chat(folders=folders, size=(100, 30)) as chat:
        kept = chat.screen.store
        assert kept is not None
        await chat.until(lambda: not kept.database.is_locked)
        await chat.send("/encrypt forget")
        await chat.until_shown("has forgotten")
    assert keyring.kept == {}


async def test_missing_sqlcipher_is_reported_with_a_hint(
    open_chat: OpenChat, folders: ChatFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sqlcipher3", None)
    monkeypatch.setitem(sys.modules, "sqlcipher3.dbapi2", None)
    async with open_chat(folders=folders, size=(100, 30)) as chat:
        await chat.send("/encrypt")
        await chat.until_shown("ingle[encryption]")
