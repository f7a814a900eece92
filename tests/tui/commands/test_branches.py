"""Branches in the chat: edited prompts, regenerated and continued answers, navigation, rewind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ..conftest import Chat, FakeDaemon, OpenChat


async def _two_answers(chat: Chat, fake_daemon: FakeDaemon) -> None:
    fake_daemon.script("First answer.")
    fake_daemon.script("Second answer.")
    await chat.send("question")
    await chat.until_shown("First answer.")
    await chat.until(lambda: chat.screen.turn is None)
    await chat.pilot.press("f5")
    await chat.until_shown("Second answer.")
    await chat.until(lambda: chat.screen.turn is None)


@pytest.mark.slow
async def test_regenerated_answer_is_a_sibling_of_the_first(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat(size=(100, 30)) as chat:
        await _two_answers(chat, fake_daemon)
        assert "First answer." not in chat.screen_text
        await chat.pilot.press("alt+left")
        await chat.until_shown("First answer.")
        assert "1/2 ‹alt+←→›" in chat.screen_text
        assert "Second answer." not in chat.screen_text
        await chat.pilot.press("alt+right")
        await chat.until_shown("Second answer.")
        assert "2/2 ‹alt+←→›" in chat.screen_text
    assert fake_daemon.prompts[0] == fake_daemon.prompts[1]


async def test_request_follows_the_selected_branch(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat() as chat:
        await _two_answers(chat, fake_daemon)
        await chat.pilot.press("alt+left")
        await chat.until_shown("First answer.")
        await chat.send("and then?")
        await chat.until(lambda: len(fake_daemon.prompts) == 3)
    assert [m["content"] for m in fake_daemon.prompts[2]] == [
        "question",
        "First answer.",
        "and then?",
    ]


async def test_edited_prompt_starts_a_branch(open_chat: OpenChat, fake_daemon: FakeDaemon) -> None:
    fake_daemon.script("To the first.")
    fake_daemon.script("To the edited one.")
    async with open_chat(size=(100, 30)) as chat:
        await chat.send("first wording")
        await chat.until_shown("To the first.")
        await chat.send("/edit")
        await chat.until(lambda: chat.draft == "first wording")
        assert "editing" in chat.screen_text
        await chat.send("second wording")
        await chat.until_shown("To the edited one.")
        assert "first wording" not in chat.screen_text
        await chat.until(lambda: chat.screen.turn is None)
        await chat.pilot.press("alt+left")
        await chat.until_shown("To the first.")
    assert fake_daemon.prompts[1] == [{"role": "user", "content": "second wording"}]


async def test_escape_cancels_an_edit(open_chat: OpenChat, fake_daemon: FakeDaemon) -> None:
    async with open_chat() as chat:
        await chat.send("one")
        await chat.until_shown("Hello there.")
        await chat.send("/edit")
        await chat.until(lambda: chat.draft == "one")
        await chat.pilot.press("escape")
        assert chat.draft == ""
        await chat.send("two")
        await chat.until(lambda: len(fake_daemon.prompts) == 2)
    assert [m["content"] for m in fake_daemon.prompts[1]] == ["one", "Hello there.", "two"]


async def test_stopped_answer_can_be_continued(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script("Once upon ", "never", gate_before=1)
    fake_daemon.script("a time.")
    async with open_chat() as chat:
        await chat.send("tell")
        await chat.until_shown("Once upon")
        await chat.pilot.press("escape")
        await chat.until_shown("■ stopped")
        await chat.send("/continue")
        await chat.until_shown("Once upon a time.")
        await chat.until(lambda: chat.screen.turn is None)
        leaf = chat.screen.chat.leaf
        assert leaf is not None
        assert leaf.content == "Once upon a time."
        assert len(chat.screen.chat.siblings(leaf)) == 2
    body = [r for r in fake_daemon.requests if r.target == "/ingle/v1/generations"][-1].body
    assert body["continues"] is True
    assert body["messages"][-1] == {"role": "assistant", "content": "Once upon "}


async def test_branch_command_opens_a_separate_chat(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat() as chat:
        await chat.send("one")
        await chat.until_shown("Hello there.")
        await chat.until(lambda: chat.screen.turn is None)
        before = chat.screen.chat
        await chat.send("/branch")
        await chat.until(lambda: chat.screen.chat is not before)
        await chat.until_shown("(branch)")
        await chat.send("two")
        await chat.until(lambda: len(fake_daemon.prompts) == 2)
        assert len(before.path) == 2
    assert [m["content"] for m in fake_daemon.prompts[1]] == ["one", "Hello there.", "two"]


async def test_rewind_edits_an_earlier_prompt(open_chat: OpenChat, fake_daemon: FakeDaemon) -> None:
    async with open_chat() as chat:
        for prompt in ("one", "two"):
            await chat.send(prompt)
            await chat.until(lambda: chat.screen.turn is None and not chat.draft)
            await chat.until(lambda: len(chat.screen.chat.path) % 2 == 0)
        await chat.send("/rewind")
        await chat.until_shown("Back to a prompt")
        await chat.pilot.press("up", "enter")
        await chat.until(lambda: chat.draft == "one")
        await chat.send("uno")
        await chat.until(lambda: len(fake_daemon.prompts) == 3)
    assert fake_daemon.prompts[2] == [{"role": "user", "content": "uno"}]


async def test_missing_branches_and_prompts_are_reported(open_chat: OpenChat) -> None:
    async with open_chat(size=(100, 30)) as chat:
        await chat.pilot.press("alt+left")
        await chat.until_shown("No message has a second version")
        await chat.pilot.press("f5")
        await chat.until_shown("There is no prompt to ask again.")


async def test_regeneration_waits_for_the_daemon(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat(size=(100, 30)) as chat:
        await chat.send("question")
        await chat.until_shown("Hello there.")
        await chat.until(lambda: chat.screen.turn is None)
        tree = chat.screen.chat
        path = list(tree.path)
        await fake_daemon.stop()
        await chat.until(lambda: chat.screen.state.trouble is not None)
        await fake_daemon.start()
        chat.screen.run_command("again")
        assert tree.path == path
        await chat.until_notified("as soon as")
        await chat.until(lambda: len(fake_daemon.prompts) == 2 and chat.screen.turn is None)
        assert len(tree.children(None)) == 1
        assert len(tree.siblings(path[-1])) == 2


async def test_regeneration_is_dropped_if_the_daemon_does_not_start(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat(size=(100, 30)) as chat:
        await chat.send("question")
        await chat.until_shown("Hello there.")
        await chat.until(lambda: chat.screen.turn is None)
        await fake_daemon.stop()
        await chat.until(lambda: chat.screen.state.trouble is not None)
        await chat.pilot.press("f5")
        await chat.until(lambda: chat.screen.state.trouble is not None)  # it does not start
        await fake_daemon.start()
        chat.screen.wake_daemon()
        await chat.until(lambda: chat.screen.state.connected)
        assert len(fake_daemon.prompts) == 1


@pytest.mark.slow
async def test_queued_prompt_returns_to_the_draft_if_daemon_is_lost(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script("The first half", "never", gate_before=1)
    async with open_chat(size=(100, 30)) as chat:
        await chat.send("tell me")
        await chat.until_shown("The first half")
        await chat.send("and then?")
        await chat.until(lambda: len(chat.screen.queue.prompts) == 1)
        await chat.pilot.press(*"more")
        await fake_daemon.stop()
        await chat.until(lambda: chat.draft == "and then?\n\nmore")
        assert len(chat.screen.queue.prompts) == 0
    assert len(fake_daemon.prompts) == 1
