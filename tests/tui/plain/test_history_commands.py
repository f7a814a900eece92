"""History commands of the plain chat: search, open, export, import, delete, encrypt."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.tui.history.history_store import open_history

from .test_plain_session import needs_terminal

if TYPE_CHECKING:
    from ..conftest import FakeDaemon, OpenTerminal
    from .conftest import Piped


async def test_search_opens_a_chat_to_continue(piped: Piped, fake_daemon: FakeDaemon) -> None:
    fake_daemon.script("The moon pulls at the sea.")
    fake_daemon.script("Of lentils.")
    await piped("Why are there tides?\n/new\nA soup?\n")
    _, out, errors = await piped("/search moon\n1\nGo on\n/search saxophone\n/search\n")
    assert "1. Why are there tides?, smollm2:135m: The moon pulls at the sea." in out
    assert "Nothing is found for saxophone." in out
    assert errors == "Error: Say what to look for: /search TEXT.\n"
    contents = ["Why are there tides?", "The moon pulls at the sea.", "Go on"]
    assert [m["content"] for m in fake_daemon.prompts[-1]] == contents


async def test_search_hit_selects_its_branch(piped: Piped, fake_daemon: FakeDaemon) -> None:
    for text in ("A heron.", "A crane."):
        fake_daemon.script(text)
    await piped("Which bird?\n/again\n")
    await piped("/search heron\n1\nWhy?\n")
    assert [m["content"] for m in fake_daemon.prompts[-1]] == ["Which bird?", "A heron.", "Why?"]


async def test_find_in_the_open_chat(piped: Piped) -> None:
    _, out, _ = await piped("Tides?\n/find HELLO\n/find nowhere\n")
    assert "Found in 1 of 2 messages:\nMessage 2, Model: Hello there.\n" in out
    assert "Found in 0 of 2 messages:\n" in out


async def test_chat_is_organized_exported_deleted_and_imported(
    piped: Piped, tmp_path: Path
) -> None:
    lines = ["Hi", "/folder  my  trips", "/keep", "/rename  A   name", "/export md", "/export json"]
    _, out, errors = await piped("\n".join([*lines, "/open name", ""]))
    assert errors == ""
    assert "1. A name, pinned, 2 messages, in my trips" in out
    assert "Hello there." in (tmp_path / "A-name.md").read_text()
    exported = tmp_path / "A-name.json"
    _, out, _ = await piped("/open\n1\n/delete\nyes\n/open\n")
    assert "The chat is deleted." in out
    assert "There are no chats yet." in out
    _, out, errors = await piped(f"/import {exported}\n/import {tmp_path / 'none.json'}\n")
    assert "Imported 1 new chat with 2 messages." in out
    assert "none.json" in errors


async def test_temporary_chat_is_not_saved(piped: Piped, tmp_path: Path) -> None:
    _, _, errors = await piped("/temp\nHi\n/keep\n/delete\n")
    assert "This chat is temporary: it is not saved and cannot be pinned." in errors
    assert "This chat is not saved, so there is nothing to delete." in errors
    store = open_history(tmp_path / "chats", pytest.fail)
    assert store.recent() == []
    store.close()


@pytest.mark.slow
@needs_terminal
@pytest.mark.skipif(
    importlib.util.find_spec("sqlcipher3") is None, reason="SQLCipher is not installed"
)
async def test_chats_are_encrypted_unlocked_and_decrypted(
    arguments: list[str], fake_daemon: FakeDaemon, open_terminal: OpenTerminal
) -> None:
    def drive() -> None:
        with open_terminal(arguments) as terminal:
            terminal.until(lambda screen: screen.rstrip().endswith("You:"))
            terminal.type("Hi\n")
            terminal.until(lambda screen: "Model: Hello there." in screen)
            terminal.type("/encrypt\n")
            terminal.until(lambda screen: "New passphrase" in screen)
            terminal.type("open sesame\n")
            terminal.until(lambda screen: "Repeat the passphrase (empty: not now):" in screen)
            terminal.type("open sesame\n")
            terminal.until(lambda screen: "The chats are encrypted." in screen)
            terminal.until(lambda screen: screen.rstrip().endswith("You:"))
            terminal.type("\x04")
            assert terminal.wait() == 0
        with open_terminal(arguments) as terminal:
            terminal.until(lambda screen: "Passphrase of your chats" in screen)
            terminal.type("open sesame\n")
            terminal.until(lambda screen: screen.rstrip().endswith("You:"))
            terminal.type("/encrypt off\n")
            terminal.until(lambda screen: "Store the chats unencrypted? Yes or no:" in screen)
            terminal.type("yes\n")
            terminal.until(lambda screen: "stored unencrypted again." in screen)
            terminal.type("/open\n")
            terminal.until(lambda screen: "1. Hi, 2 messages" in screen)
            terminal.type("\n")
            terminal.until(lambda screen: screen.rstrip().endswith("You:"))
            terminal.type("\x04")
            assert terminal.wait() == 0
            assert "sesame" not in terminal.text

    await asyncio.to_thread(drive)
