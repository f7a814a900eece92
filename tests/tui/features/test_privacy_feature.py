"""Privacy in the chat: the route line, findings in the draft, redaction, and `/sent`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual.events import Paste

from ingle.tui.chats.message import MessageFacts
from ingle.tui.settings.chat_folders import ChatFolders
from ingle.tui.widgets.composer.composer import Composer
from ingle.tui.widgets.route_line import RouteLine

if TYPE_CHECKING:
    from ..conftest import OpenChat

DRAFT = "Write to max@mail.example.org and pay to DE89 3704 0044 0532 0130 00."


@pytest.mark.slow
@pytest.mark.parametrize("size", [(60, 20), (80, 24), (160, 45)])
async def test_route_and_findings_are_shown_before_sending(
    open_chat: OpenChat, size: tuple[int, int]
) -> None:
    async with open_chat(size=size) as chat:
        await chat.until_shown("⌂ LOCAL · nothing leaves this machine")
        assert "found" not in chat.screen_text
        chat.app.query_one(Composer).replace_text(DRAFT)
        await chat.until_shown("found: IBAN, e-mail")
        chat.app.query_one(Composer).replace_text("Nothing here.")
        await chat.until(lambda: "IBAN" not in str(chat.app.query_one(RouteLine).found))
        chat.app.query_one(Composer).replace_text("")
        await chat.until(lambda: chat.app.query_one(RouteLine).found is None)
        assert "safe" not in chat.screen_text


@pytest.mark.slow
async def test_long_draft_is_scanned(open_chat: OpenChat) -> None:
    async with open_chat() as chat:
        chat.app.query_one(Composer).replace_text("word " * 20_000 + DRAFT)
        await chat.until_shown("found: IBAN, e-mail")


@pytest.mark.slow
async def test_route_has_one_choice_without_a_provider(open_chat: OpenChat) -> None:
    async with open_chat(size=(100, 40)) as chat:
        await chat.send("/route")
        only = "Route: local. The model runs on this machine, and no cloud provider is configured."
        await chat.until_notified(only)
        await chat.send("/route ask")
        await chat.until(lambda: chat.notification_text.count(only) == 2)
        assert chat.screen.chat.settings.route == ""
        await chat.send("/route moon")
        await chat.until_notified("There is no route moon. /route takes auto, local, ask.")
        await chat.pilot.press("shift+tab")
        await chat.until(lambda: chat.notification_text.count(only) == 3)


async def test_why_shows_the_route_and_the_reason(open_chat: OpenChat) -> None:
    async with open_chat(size=(100, 40)) as chat:
        await chat.until_shown("smollm2:135m")
        await chat.send("/why")
        await chat.until_notified("no cloud provider is configured")
        assert "Route: local. The model runs on this machine" in chat.notification_text


async def test_redaction_can_be_lifted_for_each_finding(open_chat: OpenChat) -> None:
    async with open_chat(size=(100, 40)) as chat:
        await chat.send(DRAFT)
        await chat.until_shown("Hello there.")
        await chat.send("/redact")
        await chat.until_shown("Write to ⟦e-mail⟧ and pay to ⟦IBAN⟧.")
        assert "Nothing is sent now" in chat.screen_text
        await chat.pilot.press("space")
        await chat.until_shown("Write to max@mail.example.org and pay to ⟦IBAN⟧.")
        await chat.pilot.press("a")
        await chat.until_shown("Write to ⟦e-mail⟧ and pay to ⟦IBAN⟧.")
        await chat.pilot.press("y")
        await chat.until(lambda: "⟦IBAN⟧" in chat.app.clipboard)


async def test_redact_in_an_empty_chat_is_reported(open_chat: OpenChat) -> None:
    async with open_chat() as chat:
        await chat.send("/redact")
        await chat.until_notified("There is no text to look at")


async def test_redact_without_findings_is_reported(open_chat: OpenChat) -> None:
    async with open_chat() as chat:
        chat.app.query_one(Composer).replace_text("Hello")
        chat.screen.run_command("redact")
        await chat.until_shown("Nothing was found to mask.")
        await chat.pilot.press("space", "a", "escape")
        await chat.until(lambda: chat.app.screen is chat.screen)


async def test_sent_counts_answers_by_route(open_chat: OpenChat) -> None:
    async with open_chat(size=(100, 40)) as chat:
        await chat.send("hello")
        await chat.until_shown("Hello there.")
        await chat.send("/sent")
        await chat.until_notified(
            "Nothing of this chat left this machine: 1 answer, all made here."
        )
        leaf = chat.screen.chat.leaf
        assert leaf is not None
        leaf.facts = MessageFacts(route="remote")
        await chat.send("/sent")
        await chat.until_notified("Answered elsewhere in this chat: 1 by remote; here: 0.")


async def test_attached_files_are_scanned(
    open_chat: OpenChat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("Pay to DE89 3704 0044 0532 0130 00.")
    async with open_chat(size=(100, 40)) as chat:
        await chat.until_shown("smollm2:135m")
        composer = chat.app.query_one(Composer)
        composer.replace_text("Sum up @notes.txt for max@mail.example.org ")
        await chat.until_shown("found: IBAN, e-mail")
        chat.screen.run_command("redact")
        await chat.until_shown('<file name="notes.txt">')
        assert "Pay to ⟦IBAN⟧." in chat.screen_text


async def test_pasted_chip_is_scanned(open_chat: OpenChat) -> None:
    async with open_chat(size=(100, 40)) as chat:
        await chat.until_shown("smollm2:135m")
        text = "line\n" * 400 + "my card is 4111 1111 1111 1111\n"
        await chat.app.query_one(Composer)._on_paste(Paste(text))  # pyright: ignore[reportPrivateUsage]
        await chat.until_shown("found: card number")
        assert "4111" not in chat.draft


async def test_sent_counts_all_saved_chats(open_chat: OpenChat, tmp_path: Path) -> None:
    folders = ChatFolders(tmp_path / "chats", tmp_path / "config")
    async with open_chat(size=(100, 40), folders=folders) as chat:
        await chat.send("hello")
        await chat.until_shown("Hello there.")
        await chat.send("/new")
        await chat.send("/sent")
        await chat.until_notified("In all chats: 1 here, 0 elsewhere.")
