"""Saved chats: search, chat list, rename, pin, folders, delete, export, import."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual.widgets import Input

from ingle.tui.chats.chat import Chat, ChatSettings
from ingle.tui.chats.message import Message
from ingle.tui.history.history_store import HistoryStore, open_history
from ingle.tui.settings.chat_folders import ChatFolders

if TYPE_CHECKING:
    from ..conftest import OpenChat

SIZES = [(60, 20), (80, 24), (160, 45)]


@pytest.fixture
def folders(tmp_path: Path) -> ChatFolders:
    store = open_history(tmp_path / "chats", pytest.fail)
    add_chats(store)
    store.close()
    return ChatFolders(tmp_path / "chats", tmp_path / "config")


def add_chats(store: HistoryStore) -> None:
    add_saved_chat(
        store, "tides", ["Why are there tides?", "The moon \x1b[31mpulls\x1b[0m at the sea."]
    )
    add_saved_chat(
        store, "kyoto", ["京都の車椅子", "Take the flat lane."], ChatSettings(folder="travel")
    )
    add_saved_chat(
        store,
        "soup",
        ["How long do lentils cook?", "Twenty minutes.", "And chickpeas?", "Two hours."],
        ChatSettings(title="Soups & stews", pinned=True),
    )


def add_saved_chat(
    store: HistoryStore, name: str, texts: Sequence[str], settings: ChatSettings | None = None
) -> None:
    chat = Chat(settings, id=name)
    store.add_chat(chat)
    parent: str | None = None
    for place, text in enumerate(texts):
        message = Message(role="user", content=text, parent=parent, id=f"{name}-{place}")
        if place % 2:
            message.role, message.ending, message.model = "assistant", "answered", "smollm2:135m"
        chat.add(message)
        store.add_message(name, message)
        parent = message.id


def bytes_under(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def flushed(screen_store: HistoryStore | None) -> HistoryStore:
    assert screen_store is not None
    assert screen_store.flush(5)
    return screen_store


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
async def test_search_as_you_type_opens_the_hit(
    open_chat: OpenChat, folders: ChatFolders, size: tuple[int, int]
) -> None:
    async with open_chat(folders=folders, size=size) as chat:
        await chat.pilot.press("ctrl+r")
        await chat.until_shown("Search all chats")
        await chat.pilot.press(*"chickp")
        await chat.until_shown("And chickpeas?")
        assert "1 hit" in chat.screen_text
        assert "Soups & stews" in chat.screen_text
        await chat.pilot.press("enter")
        await chat.until(lambda: chat.screen.chat.id == "soup")
        await chat.until_shown("Two hours.")


async def test_search_hit_selects_its_branch(open_chat: OpenChat, folders: ChatFolders) -> None:
    store = open_history(folders.chats, pytest.fail)
    other = Message(role="assistant", content="An otter did it.", parent="tides-0", id="other")
    other.ending = "answered"
    store.add_message("tides", other)
    store.choose("tides", "tides-1")
    store.close()
    async with open_chat(folders=folders) as chat:
        await chat.send("/search otter")
        await chat.until_shown("1 hit")
        await chat.pilot.press("enter")
        await chat.until(lambda: chat.screen.chat.id == "tides")
        await chat.until_shown("An otter did it.")
        loaded = flushed(chat.screen.store).load("tides")
    assert loaded is not None
    assert [message.id for message in loaded.path] == ["tides-0", "other"]


@pytest.mark.slow
async def test_search_command_with_query_and_without_hits(
    open_chat: OpenChat, folders: ChatFolders
) -> None:
    async with open_chat(folders=folders) as chat:
        await chat.send("/search 車椅")
        await chat.until_shown("京都の車椅子")
        await chat.pilot.press(*"zz")
        await chat.until_shown("Nothing found.")
        await chat.pilot.press("enter", "escape")
        await chat.until(lambda: chat.app.screen is chat.screen)
        assert chat.screen.chat.messages == {}


async def test_terminal_sequences_do_not_reach_the_lists_of_chats(
    open_chat: OpenChat, folders: ChatFolders
) -> None:
    async with open_chat(folders=folders, size=(100, 40)) as chat:
        await chat.send("/search moon")
        await chat.until_shown("The moon pulls at the sea.")
        assert "\x1b" not in chat.screen_text


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
async def test_chat_list_shows_groups_and_opens_a_chat(
    open_chat: OpenChat, folders: ChatFolders, size: tuple[int, int]
) -> None:
    async with open_chat(folders=folders, size=size) as chat:
        await chat.pilot.press("ctrl+g")
        await chat.until_shown("Soups & stews")
        lines = [line.strip(" █▎▊▁▔") for line in chat.screen_text.splitlines()]
        places = [
            next(place for place, line in enumerate(lines) if line.startswith(text))
            for text in (
                "Pinned",
                "◆ Soups & stews",
                "Today",
                "京都の車椅子",
                "Why are there tides?",
            )
        ]
        assert places == sorted(places)
        await chat.pilot.press("down", "enter")
        await chat.until(lambda: chat.screen.chat.id == "kyoto")


@pytest.mark.slow
async def test_chat_list_filters_by_text_and_folder(
    open_chat: OpenChat, folders: ChatFolders
) -> None:
    async with open_chat(folders=folders) as chat:
        await chat.send("/open")
        await chat.until_shown("3 chats")
        await chat.pilot.press(*"tides")
        await chat.until_shown("1 chat")
        assert "Soups" not in chat.screen_text
        chat.app.screen.query_one(Input).value = ""
        await chat.pilot.press("tab")
        await chat.until_shown("[travel]")
        await chat.until(lambda: "Soups" not in chat.screen_text)
        assert "京都の車椅子" in chat.screen_text


@pytest.mark.slow
async def test_chat_list_loads_more_at_its_end(open_chat: OpenChat, tmp_path: Path) -> None:
    store = open_history(tmp_path / "chats", pytest.fail)
    for number in range(120):
        add_saved_chat(store, f"chat-{number:03}", [f"Question {number:03}"])
    store.close()
    async with open_chat(folders=ChatFolders(tmp_path / "chats", tmp_path / "config")) as chat:
        await chat.pilot.press("ctrl+g")
        await chat.until_shown("120 chats")
        await chat.pilot.press(*["pagedown"] * 12)
        await chat.until_shown("Question 000")
        await chat.pilot.press("enter")
        await chat.until(lambda: chat.screen.chat.id == "chat-000")


@pytest.mark.slow
async def test_chat_list_renames_pins_moves_and_deletes(
    open_chat: OpenChat, folders: ChatFolders
) -> None:
    async with open_chat(folders=folders) as chat:
        await chat.pilot.press("ctrl+g")
        await chat.until_shown("Why are there tides?")
        await chat.pilot.press(*"tides", "f2")
        await chat.until_shown("enter saves")
        chat.app.screen.query_one(Input).value = "The moon and the tides"
        await chat.pilot.press("enter")
        await chat.until_shown("The moon and the tides")
        await chat.pilot.press("f3")
        await chat.until_shown("Pinned")
        await chat.pilot.press("f4")
        await chat.until_shown("empty: no folder")
        await chat.pilot.press(*"sea", "enter")
        await chat.until_shown("sea")
        store = flushed(chat.screen.store)
        settings = store.settings("tides")
        assert (settings.title, settings.pinned, settings.folder) == (
            "The moon and the tides",
            True,
            "sea",
        )
        await chat.pilot.press("f8")
        await chat.until_shown("It has 2 messages")
        await chat.pilot.press("escape")
        await chat.until(lambda: "It has 2" not in chat.screen_text)
        assert flushed(store).load("tides") is not None
        await chat.pilot.press("f8")
        await chat.until_shown("It has 2 messages")
        await chat.pilot.press("y")
        await chat.until_shown("0 chats")
        assert flushed(store).load("tides") is None


@pytest.mark.slow
async def test_open_chat_is_renamed_pinned_moved_and_deleted(
    open_chat: OpenChat, folders: ChatFolders
) -> None:
    async with open_chat(folders=folders) as chat:
        await chat.send("/rename Before the first word")
        await chat.send("hello")
        await chat.until_shown("Hello there.")
        await chat.until(lambda: chat.screen.turn is None)
        name = chat.screen.chat.id
        store = flushed(chat.screen.store)
        assert store.settings(name).title == "Before the first word"
        await chat.send("/folder work")
        await chat.send("/keep")
        await chat.until(lambda: chat.screen.chat.settings.pinned)
        settings = flushed(store).settings(name)
        assert (settings.folder, settings.pinned) == ("work", True)
        await chat.send("/delete")
        await chat.until_shown("It has 2 messages")
        await chat.pilot.press("y")
        await chat.until(lambda: chat.screen.chat.id != name)
        await chat.until(lambda: flushed(store).load(name) is None)


@pytest.mark.slow
async def test_temporary_chat_is_not_written_to_disk(open_chat: OpenChat, tmp_path: Path) -> None:
    folders = ChatFolders(tmp_path / "data" / "chats", tmp_path / "data" / "config")
    async with open_chat(folders=folders) as chat:
        await chat.send("a kept marigold")
        await chat.until(lambda: chat.screen.turn is None and len(chat.screen.chat.messages) == 2)
        await chat.pilot.press("ctrl+t")
        await chat.send("a secret xylophone")
        await chat.until(lambda: chat.screen.turn is None and len(chat.screen.chat.messages) == 2)
        await chat.send("/rename xylophones")
        await chat.send("/folder xylophone")
        await chat.send("/keep")
        await chat.pilot.press(*"xylophone draft")
        await chat.pilot.pause()
        await chat.pilot.press("ctrl+n")
        store = flushed(chat.screen.store)
        assert store.prompts() == ["a kept marigold"]
        assert store.search("xylophone") == []
    content = bytes_under(tmp_path)
    assert b"marigold" in content
    assert b"xylo" not in content


async def test_chat_list_without_a_store_shows_a_message(open_chat: OpenChat) -> None:
    async with open_chat() as chat:
        await chat.pilot.press("ctrl+g")
        await chat.until_shown("Chats are not saved here")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["md", "json", "html"])
async def test_chat_is_exported(
    open_chat: OpenChat,
    folders: ChatFolders,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_chat(folders=folders, size=(120, 40)) as chat:
        await chat.send(f"/export {kind}")
        await chat.until_shown("nothing to export")
        await chat.send("/search moon")
        await chat.until_shown("1 hit")
        await chat.pilot.press("enter")
        await chat.until(lambda: chat.screen.chat.id == "tides")
        await chat.send(f"/export {kind}")
        await chat.until_shown("Written to")
    assert "The moon" in (tmp_path / f"Why-are-there-tides.{kind}").read_text()


@pytest.mark.slow
async def test_chats_are_imported(
    open_chat: OpenChat, folders: ChatFolders, tmp_path: Path
) -> None:
    message = {"uuid": "m", "sender": "human", "text": "What is a quokka?"}
    exported = tmp_path / "conversations.json"
    exported.write_text(json.dumps([{"uuid": "c", "name": "", "chat_messages": [message]}]))
    async with open_chat(folders=folders, size=(120, 40)) as chat:
        await chat.send(f"/import {exported}")
        await chat.until_shown("Imported 1 new chat with 1 message.")
        await chat.send(f"/import {tmp_path / 'no.json'}")
        await chat.until_shown("No such file")
        await chat.until(lambda: chat.app.screen is chat.screen)
        await chat.send("/import")
        await chat.until_shown("Known are ChatGPT's")
        chat.app.screen.query_one(Input).value = f"'{exported}'"
        await chat.pilot.press("enter")
        await chat.until_shown("all its chats are here already")
        assert [hit.snippet.text for hit in flushed(chat.screen.store).search("quokka")] == [
            "What is a quokka?"
        ]
