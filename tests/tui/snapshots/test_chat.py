"""Snapshots of the chat and of the dialogs over it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import pytest

from ingle.daemon.client.tool_types import ConsentRequest
from ingle.tui.chats.chat import Chat as ChatTree
from ingle.tui.chats.message import (
    CompactionRecord,
    Message,
    MessageFacts,
    RequestedCall,
    ToolStep,
)
from ingle.tui.features.privacy_feature import PrivacyFeature
from ingle.tui.screens.consent_screen import ConsentScreen
from ingle.tui.settings.chat_folders import ChatFolders

from ..widgets.composer.test_routes import CLOUD, PRIVATE

if TYPE_CHECKING:
    from ..conftest import Chat, FakeDaemon, OpenChat
    from .conftest import AssertSnapshot

Scene = Callable[["Chat", "FakeDaemon", ChatTree], Awaitable[None]]


async def welcome(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    await chat.until_shown("smollm2:135m on disk")


async def welcome_pull(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    daemon.models = []
    daemon.add_model("smollm2:135m", installed=False)
    chat.screen.link.wake()
    await daemon.stop()
    await daemon.start()
    chat.screen.wake_daemon()
    await chat.until(lambda: chat.screen.state.must_pull)


async def daemon_lost(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    await chat.until_shown("smollm2:135m on disk")
    chat.screen.open_chat(tree)
    await daemon.stop()
    await chat.until_shown("enter starts it again")


async def conversation(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    await chat.until_shown("smollm2:135m on disk")
    chat.screen.open_chat(tree)
    await chat.until(lambda: chat.transcript.entries)


async def compacted(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    await chat.until_shown("smollm2:135m on disk")
    tree.add_compaction(
        CompactionRecord(
            at="c",
            summary="## Wishes\n- Kyoto, four days",
            id="2" * 22,
            created=1_790_000_000.0,
            turns=1,
            tokens_before=6912,
            tokens_after=611,
            kv_pages=394,
            seconds=3.1,
        )
    )
    chat.screen.open_chat(tree)
    await chat.until(lambda: chat.transcript.entries)


async def scrolled_up(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    await conversation(chat, daemon, tree)
    await chat.pilot.press("pageup")


async def draft(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    await conversation(chat, daemon, tree)
    chat.screen.composer.replace_text("A draft of\ntwo lines: 京都 🙂 שלום")


async def help_screen(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    await conversation(chat, daemon, tree)
    await chat.pilot.press("f1")


async def palette(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    await conversation(chat, daemon, tree)
    await chat.pilot.press("ctrl+p")
    await chat.until(lambda: len(chat.app.screen_stack) == 2)
    await chat.pilot.press("t", "h", "e", "m", "e")


async def themes(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    await conversation(chat, daemon, tree)
    chat.screen.run_command("theme")
    await chat.until_shown("ingle-contrast-light")


async def rewind(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    await conversation(chat, daemon, tree)
    chat.screen.run_command("rewind")


async def system_prompt(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    await conversation(chat, daemon, tree)
    chat.screen.run_command("system")


FOUND = {
    "verdict": "local",
    "findings": [
        {"kind": "card", "where": "messages[0].content", "start": 11, "end": 30},
        {"kind": "person", "where": "messages[0].content", "start": 37, "end": 44},
    ],
    "redacted": [
        {
            "where": "messages[0].content",
            "text": "My card is [CARD_1], mail Ann Lee",
            "replaced": [{"start": 11, "end": 30, "name": "CARD_1"}],
        }
    ],
    "show": ["Ann Lee"],
}
"""A card that is masked, and a name that the user showed."""


async def route_choice(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    daemon.routing = CLOUD
    daemon.explanation = PRIVATE
    await chat.until_shown("smollm2:135m on disk")
    chat.screen.chat.settings.route = "auto"
    await chat.screen.feature(PrivacyFeature).choose_route("ask")
    await chat.until_shown("⇄ ASK")
    chat.app.clear_notifications()
    await chat.send("John Smith was here")
    await chat.until_shown("May acme/big see this?")


async def redaction(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    daemon.explanation = FOUND
    await conversation(chat, daemon, tree)
    chat.screen.composer.replace_text("My card is 4111 1111 1111 1111, mail Ann Lee")
    chat.screen.run_command("redact")
    await chat.until_shown("A preview: nothing")


async def completion(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    await conversation(chat, daemon, tree)
    await chat.pilot.press("slash", "m", "o")


async def blocks(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    await conversation(chat, daemon, tree)
    await chat.pilot.press("alt+up", "alt+up")


def screen_of_command(name: str) -> Scene:
    """The scene of the screen that a command opens over the conversation."""

    async def scene(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
        await conversation(chat, daemon, tree)
        chat.screen.run_command(name)
        await chat.until(lambda: len(chat.app.screen_stack) == 2)

    return scene


def save_conversation(chat: Chat, tree: ChatTree) -> None:
    """Save the conversation, as the chat does before it continues."""
    store = chat.screen.store
    assert store is not None
    store.add_chat(tree)
    for message in tree.messages.values():
        store.add_message(tree.id, message)


async def find(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    await conversation(chat, daemon, tree)
    chat.screen.run_command("find", "gion")  # at once: each letter would move the view
    await chat.until_shown("3 of 3")


async def block_menu(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    await blocks(chat, daemon, tree)
    await chat.pilot.press("enter")
    await chat.until(lambda: len(chat.app.screen_stack) == 2)


async def pins(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    tree.messages["a"].pinned = tree.messages["c"].pinned = True
    await conversation(chat, daemon, tree)
    chat.screen.run_command("pins")
    await chat.until_shown("Pinned messages")


async def no_pins(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    await conversation(chat, daemon, tree)
    chat.screen.run_command("pins")
    await chat.until_shown("No message is pinned.")


async def compact_choice(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    await conversation(chat, daemon, tree)
    chat.screen.send("word " * 8000)
    await chat.until_shown("The prompt does not fit")


async def compact_suggested(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    daemon.context = 27  # an answer leaves five of them
    chat.screen.preferences = chat.screen.preferences._replace(auto_compact=False)
    await conversation(chat, daemon, tree)
    save_conversation(chat, tree)
    await chat.send("And now?")
    await chat.until_shown("F6 compacts")


async def compacting(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    daemon.script("## User", " and goal", gate_before=1)
    await conversation(chat, daemon, tree)
    save_conversation(chat, tree)
    chat.screen.run_command("compact")
    await chat.until_shown("1 token written")


async def answering(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    daemon.script("It **depends** on", " more", gate_before=1, thoughts=["Taxis cost most."])
    await conversation(chat, daemon, tree)
    save_conversation(chat, tree)
    await chat.send("Per person?")
    await chat.until_shown("It depends on")
    await chat.send("And in winter?")
    await chat.until_shown("And in winter?")
    await chat.until_shown("23 / 8 192")  # of the running prompt, no estimate any more


DIFF = "--- a/cost.py\n+++ b/cost.py\n@@ -1 +1 @@\n-taxi = 1\n+taxi = 2\n"


async def steps(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    found = (
        ToolStep(RequestedCall("1", "read_file", '{"path": "cost.py"}'), "1 line of cost.py"),
        ToolStep(
            RequestedCall("2", "edit_file", '{"path": "cost.py"}'),
            "changed cost.py",
            DIFF,
            seconds=0.4,
            undoable=True,
        ),
        ToolStep(RequestedCall("3", "run_command", "{}"), "exit status 1", seconds=12, failed=True),
    )
    last = "e"
    for step in found:
        facts = MessageFacts(step=step)
        message = Message(role="tool", content="text", parent=last, facts=facts, id=step.call.id)
        last = tree.add(message).id
    await conversation(chat, daemon, tree)
    await chat.until(lambda: "≈" not in chat.screen_text)  # its tokens are counted
    await chat.pilot.press("alt+up", "up", "z")


async def consent(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    await conversation(chat, daemon, tree)
    asked = ConsentRequest(
        "1", "edit", "Edit cost.py", "edits in this folder", preview=DIFF, preview_format="diff"
    )
    chat.app.push_screen(ConsentScreen(asked))
    await chat.until_shown("+taxi = 2")


async def failure(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    error = {"code": "memory_busy", "message": "There is no room.", "hint": "Close something."}
    daemon.script(refuse=(503, error))
    await conversation(chat, daemon, tree)
    save_conversation(chat, tree)
    await chat.send("Per person?")
    await chat.until_shown("There is no room.")


async def summary(chat: Chat, daemon: FakeDaemon, tree: ChatTree) -> None:
    await compacted(chat, daemon, tree)
    chat.screen.run_command("summary")


SCENES: dict[str, Scene] = {name: screen_of_command(name) for name in ("settings", "keys")} | {
    scene.__name__: scene
    for scene in (
        welcome,
        welcome_pull,
        daemon_lost,
        conversation,
        compacted,
        scrolled_up,
        draft,
        help_screen,
        palette,
        themes,
        rewind,
        system_prompt,
        redaction,
        route_choice,
        completion,
        blocks,
        block_menu,
        summary,
        find,
        pins,
        no_pins,
        compact_choice,
        compact_suggested,
        compacting,
        answering,
        steps,
        consent,
        failure,
    )
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENES)
async def test_screen(
    open_chat: OpenChat,
    fake_daemon: FakeDaemon,
    folders: ChatFolders,
    tree: ChatTree,
    assert_snapshot: AssertSnapshot,
    name: str,
) -> None:
    async with open_chat(size=(80, 24), folders=folders) as chat:
        await SCENES[name](chat, fake_daemon, tree)
        await assert_snapshot(chat, name)
