"""Compaction in the chat: by command, automatic, for a prompt that does not fit, and undo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual.widgets import Input, OptionList, TextArea

from ingle.tui.chats.chat import Chat as ChatTree
from ingle.tui.chats.context_view import request_messages
from ingle.tui.chats.message import Message, MessageFacts
from ingle.tui.commands.chat_session import SummaryRequest
from ingle.tui.compaction.summary_notes import HEADINGS
from ingle.tui.features.context import compaction_feature
from ingle.tui.features.context.compaction_feature import CompactionFeature
from ingle.tui.screens.choices import CompactChoice, PinsScreen
from ingle.tui.screens.context.summary_screen import SummaryScreen
from ingle.tui.session.chat_events import DaemonConnected
from ingle.tui.settings.chat_folders import ChatFolders

if TYPE_CHECKING:
    from ...conftest import Chat, FakeDaemon, OpenChat

FILLER = "That is worth a thought, and there are several good ways to go about it from here. " * 6
NOTES = "\n".join(
    f"{heading}:\n- {'the gate has a code' if heading == 'Facts' else 'none'}"
    for heading in HEADINGS
)


def tree(*prompts: str) -> ChatTree:
    """A chat with long answers."""
    made = ChatTree()
    for prompt in prompts:
        leaf = made.leaf
        message = made.add(
            Message(role="user", content=prompt, parent=None if leaf is None else leaf.id)
        )
        made.add(Message(role="assistant", content=FILLER, parent=message.id, ending="answered"))
    return made


async def open_long_chat(chat: Chat, *prompts: str) -> ChatTree:
    """Open a chat once the daemon is connected."""
    await chat.until(lambda: chat.screen.state.connected)
    made = tree(*prompts or ("The gate code is 4417.", "Tell me of tulips.", "What now?"))
    chat.screen.open_chat(made)
    await chat.until_shown(made.path[-2].content)
    return made


@pytest.mark.slow
async def test_compaction_replaces_the_first_turns_by_a_summary(
    fake_daemon: FakeDaemon, open_chat: OpenChat
) -> None:
    async with open_chat(size=(100, 30)) as chat:
        made = await open_long_chat(chat)
        before = request_messages(made)
        fake_daemon.script(NOTES)
        await chat.pilot.press("f6")
        await chat.until(lambda: made.compactions)
        await chat.until_shown("compacted 2 turns")
        assert "4417" in request_messages(made)[0]["content"]
        await chat.until(lambda: len(fake_daemon.prompts) == 2)
        warm_up = [r for r in fake_daemon.requests if r.target == "/ingle/v1/generations"][-1].body
        assert warm_up["messages"] == request_messages(made)
        assert (warm_up["max_tokens"], warm_up["priority"]) == (0, "batch")
        assert warm_up["conversation"] == made.label != made.id
        await chat.pilot.press("f7")
        await chat.until(lambda: "compacted" not in chat.screen_text)
        assert request_messages(made) == before


async def test_prefill_of_a_summary_shows_its_share(
    fake_daemon: FakeDaemon, open_chat: OpenChat
) -> None:
    async with open_chat(size=(100, 30)) as chat:
        made = await open_long_chat(chat)
        fake_daemon.prompt_tokens = 3008
        fake_daemon.script(NOTES, prefilled=1208, gate_before=0)
        await chat.pilot.press("f6")
        await chat.until_shown("Compacting: prefill of 3 000 tokens, 40 %")
        fake_daemon.gate.set()
        await chat.until(lambda: made.compactions)


@pytest.mark.slow
async def test_escape_cancels_compaction_without_changes(
    fake_daemon: FakeDaemon, open_chat: OpenChat
) -> None:
    async with open_chat(size=(100, 30)) as chat:
        made = await open_long_chat(chat)
        fake_daemon.script("User", NOTES, gate_before=1)
        await chat.pilot.press("f6")
        await chat.until_shown("Compacting: 1 token written")
        await chat.pilot.press("escape")
        await chat.until_shown("Cancelled. Nothing changed.")
        await chat.until(lambda: fake_daemon.cancelled)
        assert made.compactions == {}
        assert "Compacting" not in chat.screen_text


async def test_invalid_summary_is_refused_with_a_message(
    fake_daemon: FakeDaemon, open_chat: OpenChat
) -> None:
    async with open_chat(size=(100, 30)) as chat:
        made = await open_long_chat(chat)
        fake_daemon.script("I would rather not.")
        await chat.pilot.press("f6")
        await chat.until_shown("The summary lacks")
        assert made.compactions == {}


@pytest.mark.slow
async def test_compact_with_question_sends_it_after_the_summary(
    fake_daemon: FakeDaemon, open_chat: OpenChat
) -> None:
    async with open_chat(size=(100, 30)) as chat:
        made = await open_long_chat(chat)
        fake_daemon.script(NOTES)
        await chat.send("/compact+ What is the code?")
        await chat.until(lambda: made.path[-1].ending == "answered" and len(made.path) == 8)
        (active,) = made.compaction_chain()
        assert "4417" in active.summary
        asked = next(p for p in fake_daemon.prompts if p[-1]["content"] == "What is the code?")
        assert "- The gate code is 4417." in asked[0]["content"]


@pytest.mark.slow
async def test_cancelled_compaction_returns_the_question_to_the_draft(
    fake_daemon: FakeDaemon, open_chat: OpenChat
) -> None:
    async with open_chat(size=(100, 30)) as chat:
        made = await open_long_chat(chat)
        before = request_messages(made)
        fake_daemon.script(NOTES, gate_before=0)
        await chat.send("/compact+ What is the code?")
        await chat.until(lambda: len(chat.screen.queue.prompts) == 1)
        await chat.pilot.press("escape")
        await chat.until(lambda: chat.draft == "What is the code?")
        assert request_messages(made) == before
        assert not made.compactions
        assert not any(p[-1]["content"] == "What is the code?" for p in fake_daemon.prompts)


@pytest.mark.slow
async def test_question_waits_for_a_running_automatic_compaction(
    fake_daemon: FakeDaemon, open_chat: OpenChat
) -> None:
    async with open_chat(size=(100, 30)) as chat:
        made = await open_long_chat(chat)
        fake_daemon.script(NOTES, gate_before=0)
        chat.screen.feature(CompactionFeature).start(SummaryRequest(batch=True))
        await chat.send("/compact+ What is the code?")
        await chat.until(lambda: len(chat.screen.queue.prompts) == 1)
        fake_daemon.gate.set()
        await chat.until(lambda: made.path[-1].ending == "answered" and len(made.path) == 8)
        assert made.compaction_chain()


@pytest.mark.slow
async def test_branch_keeps_the_compactions_on_its_path(
    fake_daemon: FakeDaemon, open_chat: OpenChat, tmp_path: Path
) -> None:
    folders = ChatFolders(tmp_path / "chats", tmp_path / "config")
    async with open_chat(size=(100, 30), folders=folders) as chat:
        made = await compacted_chat(chat, fake_daemon)
        sent = request_messages(made)
        await chat.send("/branch")
        await chat.until(lambda: chat.screen.chat is not made)
        branch = chat.screen.chat
        assert request_messages(branch) == sent
        store = chat.screen.store
        assert store is not None
        kept = store.load(branch.id)
        assert kept is not None
        assert request_messages(kept) == sent
        (step,) = kept.compaction_chain()
        chat.screen.run_command("undo")
        await chat.until(lambda: step.id in branch.undone)
        assert request_messages(branch) != sent
        assert request_messages(made) == sent


@pytest.fixture
def brief_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notices of zero duration."""
    monkeypatch.setattr(compaction_feature, "NOTICE_SECONDS", 0)


async def overfill_context(chat: Chat, fake_daemon: FakeDaemon) -> None:
    """Add a turn after which the chat takes most of 600 tokens, so that no prompt fits."""
    fake_daemon.context, fake_daemon.prompt_tokens = 600, 560
    await chat.send("And then?")
    await chat.until_shown("Hello there.")


async def fill_context(chat: Chat, fake_daemon: FakeDaemon, share: float) -> None:
    """Add a turn after which this share of the context is used."""
    fake_daemon.context = round(20 / share)
    await chat.send("And then?")
    await chat.until_shown("Hello there.")


@pytest.mark.slow
@pytest.mark.usefixtures("brief_notice")
async def test_full_context_is_compacted_automatically(
    fake_daemon: FakeDaemon, open_chat: OpenChat
) -> None:
    async with open_chat(size=(100, 30)) as chat:
        made = await open_long_chat(chat)
        fake_daemon.script("Hello there.")
        fake_daemon.script(NOTES)
        await fill_context(chat, fake_daemon, 0.95)
        await chat.until(lambda: made.compactions)
        bodies = [r.body for r in fake_daemon.requests if r.target == "/ingle/v1/generations"]
        assert bodies[1]["priority"] == "batch"


async def test_automatic_compaction_is_announced_and_can_be_cancelled(
    fake_daemon: FakeDaemon, open_chat: OpenChat
) -> None:
    async with open_chat(size=(100, 30)) as chat:
        made = await open_long_chat(chat)
        fake_daemon.script("Hello there.")
        await fill_context(chat, fake_daemon, 0.95)
        await chat.until_shown("esc postpones it")
        await chat.pilot.press("escape")
        await chat.until(lambda: "esc postpones it" not in chat.screen_text)
        feature = chat.screen.feature(CompactionFeature)
        assert not feature.running
        assert made.compactions == {}


@pytest.mark.slow
async def test_prompt_that_does_not_fit_opens_the_compact_choice(
    fake_daemon: FakeDaemon, open_chat: OpenChat
) -> None:
    async with open_chat(size=(100, 30)) as chat:
        made = await open_long_chat(chat)
        fake_daemon.script("Hello there.")
        await overfill_context(chat, fake_daemon)
        fake_daemon.script(NOTES)
        await chat.send("One more question?")
        await chat.until(lambda: isinstance(chat.app.screen, CompactChoice))
        assert made.path[-1].content == "Hello there."
        await chat.pilot.press("enter")
        await chat.until(lambda: len(made.path) == 10 and made.path[-1].ending == "answered")
        assert made.compaction_chain()
        assert made.path[-2].content == "One more question?"


@pytest.mark.slow
async def test_reconnection_does_not_open_a_second_compact_choice(
    fake_daemon: FakeDaemon, open_chat: OpenChat
) -> None:
    async with open_chat(size=(100, 30)) as chat:
        await open_long_chat(chat)
        fake_daemon.script("Hello there.")
        await overfill_context(chat, fake_daemon)
        await chat.send("One more question?")
        await chat.until(lambda: isinstance(chat.app.screen, CompactChoice))
        chat.screen.post_message(DaemonConnected(chat.screen.state.models))
        chat.screen.call_later(chat.screen.send_next)
        await chat.pilot.pause()
        await chat.pilot.press("escape")
        await chat.until(lambda: chat.draft == "One more question?")
        assert chat.app.screen is chat.screen


@pytest.mark.slow
async def test_escape_in_the_compact_choice_restores_the_draft(
    fake_daemon: FakeDaemon, open_chat: OpenChat
) -> None:
    async with open_chat(size=(100, 30)) as chat:
        await open_long_chat(chat)
        fake_daemon.script("Hello there.")
        await overfill_context(chat, fake_daemon)
        await chat.send("One more question?")
        await chat.until(lambda: isinstance(chat.app.screen, CompactChoice))
        await chat.pilot.press("escape")
        await chat.until(lambda: chat.draft == "One more question?")


@pytest.mark.parametrize("facts", [MessageFacts(), MessageFacts(prompt_tokens=9, context=32768)])
async def test_chat_that_this_model_has_not_answered_is_counted(
    fake_daemon: FakeDaemon, open_chat: OpenChat, facts: MessageFacts
) -> None:
    """An imported chat, and one after a change to a smaller model."""
    async with open_chat(size=(100, 30)) as chat:
        made = await open_long_chat(chat)
        made.path[-1].model, made.path[-1].facts = "large:7b", facts
        fake_daemon.context = 500
        await chat.send("long " * 1800)
        await chat.until(lambda: isinstance(chat.app.screen, CompactChoice))
        assert "2 148 tokens; 500 is the limit" in chat.screen_text
        titles = ("More context", "Shorten the prompt", "Send anyway")
        places = [chat.screen_text.index(title) for title in titles]
        assert places == sorted(places)
        assert "Compact" not in chat.screen_text  # the prompt alone is too long
        await chat.pilot.press("enter")  # what works is another prompt, or more context
        await chat.until(lambda: len(chat.app.screen_stack) == 2)
        assert len(made.path) == 6


@pytest.mark.slow
async def test_import_of_500_messages_is_compacted_in_windows_and_answered(
    fake_daemon: FakeDaemon, open_chat: OpenChat, tmp_path: Path
) -> None:
    turns = [("user", f"Note {n}: room {n} has {'chairs ' * 28}") for n in range(250)]
    said = [m for turn in turns for m in (turn, ("assistant", "It is noted. " * 11))]
    messages = [{"sender": role, "text": content} for role, content in said]
    export = [{"uuid": "rooms", "name": "Rooms", "chat_messages": messages}]
    (tmp_path / "rooms.json").write_text(json.dumps(export))
    folders = ChatFolders(tmp_path / "chats", tmp_path / "config")
    async with open_chat(size=(100, 30), folders=folders) as chat:
        await chat.until(lambda: chat.screen.state.connected)
        await chat.send(f"/import {tmp_path / 'rooms.json'}")
        await chat.until_notified("500 messages")
        store = chat.screen.store
        assert store is not None
        made = store.load(store.recent()[0].id)
        assert made is not None
        assert len(made.path) == 500
        chat.screen.open_chat(made)
        for _ in range(3):
            fake_daemon.script(NOTES)
        await chat.send("Which room has no chairs?")
        await chat.until(lambda: isinstance(chat.app.screen, CompactChoice))
        await chat.pilot.press("enter")
        await chat.until(lambda: len(made.path) == 502 and made.path[-1].ending == "answered")
        (step,) = made.compaction_chain()
        assert step.turns > 200
        assert "Room 3 has" in step.summary or "room 3 has" in step.summary
        sizes = [sum(len(m["content"].split()) + 4 for m in p) for p in fake_daemon.prompts]
        assert max(sizes) <= fake_daemon.context
        assert len(fake_daemon.prompts) == 5  # three windows, the prefill and the question


async def compacted_chat(chat: Chat, fake_daemon: FakeDaemon) -> ChatTree:
    """A chat with a summary."""
    made = await open_long_chat(chat)
    fake_daemon.script(NOTES)
    await chat.pilot.press("f6")
    await chat.until(lambda: made.compactions and len(fake_daemon.prompts) == 2)
    return made


@pytest.mark.slow
async def test_summary_can_be_viewed_and_edited(
    fake_daemon: FakeDaemon, open_chat: OpenChat
) -> None:
    async with open_chat(size=(100, 30)) as chat:
        made = await compacted_chat(chat, fake_daemon)
        await chat.send("/summary")
        await chat.until(lambda: isinstance(chat.app.screen, SummaryScreen))
        area = chat.app.screen.query_one(TextArea)
        assert "4417" in area.text
        area.text = "The gate code is 9999."
        await chat.pilot.press("ctrl+s")
        await chat.until(lambda: made.compaction_chain()[0].summary == "The gate code is 9999.")
        assert len(made.compactions) == 2
        await chat.pilot.press("f7")
        await chat.until(lambda: not made.compaction_chain())


@pytest.mark.slow
async def test_summary_can_be_regenerated_with_a_focus(
    fake_daemon: FakeDaemon, open_chat: OpenChat
) -> None:
    async with open_chat(size=(100, 30)) as chat:
        made = await compacted_chat(chat, fake_daemon)
        (first,) = made.compaction_chain()
        await chat.send("/summary")
        await chat.until(lambda: isinstance(chat.app.screen, SummaryScreen))
        await chat.pilot.press("ctrl+r")
        chat.app.screen.query_one(Input).value = "tulips"
        fake_daemon.script(NOTES)
        await chat.pilot.press("enter")
        await chat.until(lambda: made.compaction_chain() != [first])
        (second,) = made.compaction_chain()
        assert second.focus == "tulips"
        assert second.tokens_before == first.tokens_before
        assert "tulips" in fake_daemon.prompts[2][-1]["content"]
        assert fake_daemon.prompts[2][0]["content"] == "The gate code is 4417."


@pytest.mark.slow
async def test_trimming_needs_no_model(fake_daemon: FakeDaemon, open_chat: OpenChat) -> None:
    async with open_chat(size=(100, 30)) as chat:
        made = await open_long_chat(chat, "log " * 900, "What is wrong with it?", "And now?")
        await chat.send("/trim")
        await chat.until_shown("trimmed 2 turns")
        assert fake_daemon.prompts == []
        assert "[left out:" in request_messages(made)[0]["content"]
        await chat.send("/trim")
        await chat.until_shown("nothing to trim")


@pytest.mark.slow
async def test_pins_are_listed_and_removed(open_chat: OpenChat) -> None:
    async with open_chat(size=(100, 30)) as chat:
        made = await open_long_chat(chat)
        await chat.send("/pin")
        await chat.until_shown("◆ pinned")
        assert made.path[-1].pinned
        await chat.send("/pins")
        await chat.until(lambda: isinstance(chat.app.screen, PinsScreen))
        assert chat.app.screen.query_one(OptionList).option_count == 1
        await chat.pilot.press("delete")
        await chat.until(lambda: not made.path[-1].pinned)
        await chat.until_shown("No message is pinned.")
        assert "esc closes" in chat.screen_text


async def test_undo_without_compaction_is_reported(open_chat: OpenChat) -> None:
    async with open_chat(size=(100, 30)) as chat:
        await open_long_chat(chat)
        await chat.pilot.press("f7")
        await chat.until_shown("no compaction here to undo")
