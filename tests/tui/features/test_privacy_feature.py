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
    from ..conftest import FakeDaemon, OpenChat

CLOUD = {"enabled": True, "providers": [{"name": "acme", "models": ["big"]}]}
DRAFT = "Write to max@mail.acme.org and pay to DE89 3704 0044 0532 0130 00."


@pytest.mark.slow
@pytest.mark.parametrize("size", [(60, 20), (80, 24), (160, 45)])
async def test_route_and_findings_are_shown_before_sending(
    open_chat: OpenChat, fake_daemon: FakeDaemon, size: tuple[int, int]
) -> None:
    fake_daemon.routing = CLOUD
    fake_daemon.route_for_real("acme")
    async with open_chat(size=size) as chat:
        await chat.until_shown("⌂ LOCAL · nothing leaves this machine")
        assert "found" not in chat.screen_text
        chat.app.query_one(Composer).replace_text(DRAFT)
        await chat.until_shown("e-mail address, I")  # the rest may have no room
        chat.app.query_one(Composer).replace_text("Nothing here.")
        await chat.until(lambda: "IBAN" not in str(chat.app.query_one(RouteLine).found))
        chat.app.query_one(Composer).replace_text("")
        await chat.until(lambda: chat.app.query_one(RouteLine).found is None)
        assert "safe" not in chat.screen_text


@pytest.mark.slow
async def test_long_draft_is_scanned(open_chat: OpenChat, fake_daemon: FakeDaemon) -> None:
    fake_daemon.routing = CLOUD
    fake_daemon.route_for_real("acme")
    async with open_chat() as chat:
        chat.app.query_one(Composer).replace_text("word " * 20_000 + DRAFT)
        await chat.until_shown("e-mail address, IBAN")


@pytest.mark.slow
async def test_route_has_one_choice_without_a_provider(open_chat: OpenChat) -> None:
    async with open_chat(size=(100, 40)) as chat:
        await chat.send("/route")
        only = "Route: local. The model runs on this machine, and no cloud provider is configured."
        await chat.until_notified(only)
        await chat.send("/route ask")
        await chat.until(lambda: not chat.draft)
        assert chat.screen.chat.settings.route == ""
        await chat.send("/route moon")
        await chat.until_notified("There is no route moon. /route takes auto, local, ask.")
        await chat.pilot.press("shift+tab")
        await chat.until(lambda: chat.notification_text.count(only) == 2)


async def test_why_shows_the_route_and_the_reason(open_chat: OpenChat) -> None:
    async with open_chat(size=(100, 40)) as chat:
        await chat.until_shown("smollm2:135m")
        await chat.send("/why")
        await chat.until_notified("no cloud provider is configured")
        assert "Route: local. The model runs on this machine" in chat.notification_text


async def test_masks_of_a_preview_are_changed_by_word(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.route_for_real()
    async with open_chat(size=(100, 40)) as chat:
        await chat.send(DRAFT)
        await chat.until_shown("Hello there.")
        await chat.send("/redact")
        await chat.until_shown("Write to [EMAIL_1] and pay to [IBAN_1].")
        assert "nothing is sent now" in chat.screen_text
        await chat.pilot.press("space")  # the first word
        await chat.until_shown("[MASKED_1] to [EMAIL_1] and")
        await chat.pilot.press("space")
        await chat.until_shown("Write to [EMAIL_1] and")
        await chat.pilot.press("right", "right", "space")
        await chat.until_shown("Write to max@mail.acme.org and pay to [IBAN_1].")
        await chat.pilot.press("space")  # masked again, and shown again
        await chat.until_shown("Write to [EMAIL_1] and pay to [IBAN_1].")
        await chat.pilot.press("space")
        await chat.until_shown("Write to max@mail.acme.org and")
        await chat.pilot.press("right", "v", "right", "shift+right", "space")
        await chat.until_shown("max@mail.acme.org [MASKED_1] [IBAN_1].")
        await chat.pilot.press("end", "space")
        await chat.until_shown("[MASKED_1] DE89 3704 0044 0532 0130 00.")
        await chat.pilot.press("y")
        await chat.until(lambda: "[MASKED_1] DE89" in chat.app.clipboard)
        await chat.until(lambda: chat.app.screen is chat.screen)


async def test_clicked_word_is_masked(open_chat: OpenChat, fake_daemon: FakeDaemon) -> None:
    fake_daemon.route_for_real()
    async with open_chat(size=(100, 40)) as chat:
        await chat.send("/redact Ask Zephyr about 张伟, the tall one.")
        await chat.until_shown("Ask Zephyr about")
        line = next(row for row in chat.screen_text.splitlines() if "Ask Zephyr" in row)
        row = chat.screen_text.splitlines().index(line)
        await chat.pilot.click(offset=(line.index("Zephyr") + 2, row))
        await chat.until_shown("Ask [MASKED_1] about")
        assert "张伟" in chat.screen_text


async def test_words_are_taught_from_the_preview(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.route_for_real()
    async with open_chat(size=(100, 40)) as chat:
        await chat.send("/redact Is max@mail.acme.org in the Zephyr team?")
        await chat.until_shown("Is [EMAIL_1] in the Zephyr team?")
        await chat.pilot.press("right", "p")
        await chat.until_shown("Is max@mail.acme.org in the Zephyr team?")
        await chat.pilot.press("right", "right", "right", "n")
        await chat.until_shown("in the [OWN_WORD_1] team?")
        assert fake_daemon.real_routing is not None
        policy = fake_daemon.real_routing.policy.current()
        assert (policy.words, policy.public_words) == (("Zephyr",), ("max@mail.acme.org",))


async def test_redact_in_an_empty_chat_is_reported(open_chat: OpenChat) -> None:
    async with open_chat() as chat:
        await chat.send("/redact")
        await chat.until_notified("There is no text to inspect")


async def test_redact_without_findings_is_reported(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.route_for_real()
    async with open_chat() as chat:
        chat.app.query_one(Composer).replace_text("Hello")
        chat.screen.run_command("redact")
        await chat.until_shown("Nothing was found in it.")
        await chat.pilot.press("escape")
        await chat.until(lambda: chat.app.screen is chat.screen)


async def test_older_daemon_is_reported(open_chat: OpenChat, fake_daemon: FakeDaemon) -> None:
    fake_daemon.explanation = {"verdict": "cloud", "hide": None}
    async with open_chat(size=(100, 40)) as chat:
        await chat.send("/redact Hello")
        await chat.until_notified("The running daemon is older than this chat")


async def test_sent_counts_answers_by_route(open_chat: OpenChat) -> None:
    async with open_chat(size=(100, 40)) as chat:
        await chat.send("hello")
        await chat.until_shown("Hello there.")
        await chat.send("/sent")
        await chat.until_notified(
            "Nothing of this chat left this machine: 1 answer, all generated here."
        )
        leaf = chat.screen.chat.leaf
        assert leaf is not None
        leaf.facts = MessageFacts(route="remote")
        await chat.send("/sent")
        await chat.until_notified("Answers in this chat: 1 by remote; 0 by this machine.")


async def test_attached_files_are_scanned(
    open_chat: OpenChat, fake_daemon: FakeDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_daemon.routing = CLOUD
    fake_daemon.route_for_real("acme")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("Pay to DE89 3704 0044 0532 0130 00.")
    async with open_chat(size=(100, 40)) as chat:
        await chat.until_shown("smollm2:135m")
        composer = chat.app.query_one(Composer)
        composer.replace_text("Sum up @notes.txt for max@mail.acme.org ")
        await chat.until_shown("e-mail address, IBAN")
        chat.screen.run_command("redact")
        await chat.until_shown('<file name="notes.txt">')
        assert "Pay to [IBAN_1]." in chat.screen_text


async def test_pasted_chip_is_scanned(open_chat: OpenChat, fake_daemon: FakeDaemon) -> None:
    fake_daemon.routing = CLOUD
    fake_daemon.route_for_real("acme")
    async with open_chat(size=(100, 40)) as chat:
        await chat.until_shown("smollm2:135m")
        text = "line\n" * 400 + "my card is 4539 5787 6362 1486\n"
        await chat.app.query_one(Composer)._on_paste(Paste(text))  # pyright: ignore[reportPrivateUsage]
        await chat.until_shown("card number")
        assert "4539" not in chat.draft


async def test_sent_counts_all_saved_chats(open_chat: OpenChat, tmp_path: Path) -> None:
    folders = ChatFolders(tmp_path / "chats", tmp_path / "config")
    async with open_chat(size=(100, 40), folders=folders) as chat:
        await chat.send("hello")
        await chat.until_shown("Hello there.")
        await chat.send("/new")
        await chat.send("/sent")
        await chat.until_notified("In all chats: 1 here, 0 elsewhere.")


async def test_redact_without_a_daemon_is_reported(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat(size=(100, 40)) as chat:
        await chat.until_shown("smollm2:135m")
        chat.app.query_one(Composer).replace_text("Hello")
        await fake_daemon.stop()
        chat.screen.run_command("redact")
        await chat.until_notified("The daemon finds private data; `ingle serve` starts it.")
