"""Comparing two models side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ingle.tui.screens.compare_screen import CompareScreen
from ingle.tui.settings.preferences import Preferences
from ingle.tui.widgets.composer.composer import Composer

if TYPE_CHECKING:
    from ...conftest import Chat, FakeDaemon, OpenChat

NO_ROOM = (503, {"code": "memory_busy", "message": "There is no room.", "hint": None})


async def _open(chat: Chat) -> None:
    await chat.until_shown("smollm2:135m")
    await chat.send("/compare other")
    await chat.until(lambda: isinstance(chat.app.screen, CompareScreen))
    await chat.until_shown("Ask both")


async def _ask(chat: Chat, text: str) -> None:
    chat.app.screen.query_one(Composer).replace_text(text)
    await chat.pilot.press("enter")


def _answers(chat: Chat) -> list[tuple[str, str]]:
    return [(m.model, m.content) for m in chat.screen.chat.messages.values() if m.model]


@pytest.mark.slow
@pytest.mark.parametrize("size", [(60, 20), (80, 24), (160, 45)])
async def test_both_models_get_the_prompt_and_one_is_chosen(
    open_chat: OpenChat, fake_daemon: FakeDaemon, size: tuple[int, int]
) -> None:
    fake_daemon.add_model("other:1b")
    fake_daemon.script("Left ", "one.")
    fake_daemon.script("Right ", "one.")
    async with open_chat(size=size) as chat:
        await _open(chat)
        await _ask(chat, "Which?")
        await chat.until_shown("Left one.")
        await chat.until_shown("Right one.")
        assert " 1 smollm2:135m" in chat.screen_text
        assert " 2 other:1b" in chat.screen_text
        assert "2 tokens" in chat.screen_text
        fake_daemon.script("Left two.")
        fake_daemon.script("Right two.")
        await _ask(chat, "And now?")
        await chat.until_shown("Right two.")
        await chat.until(lambda: "Left two." in chat.screen_text)
        await chat.pilot.press("alt+2")
        await chat.until(lambda: chat.app.screen is chat.screen)
        await chat.until_shown("Right two.")
        assert "Left" not in chat.screen_text
        assert chat.screen.state.model_name == "other:1b"
        assert len(chat.screen.chat.messages) == 7
        assert "⎇ 2/2" in chat.screen_text
    second = [prompt for prompt in fake_daemon.prompts if prompt[-1]["content"] == "And now?"]
    assert sorted(prompt[1]["content"] for prompt in second) == ["Left one.", "Right one."]


async def test_the_composer_has_the_keys_of_the_settings(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.add_model("other:1b")
    preferences = Preferences(enter_sends=False, vim_keys=True)
    async with open_chat(size=(120, 30), preferences=preferences) as chat:
        await chat.until_shown("smollm2:135m")
        chat.screen.run_command("compare", "other")
        await chat.until(lambda: isinstance(chat.app.screen, CompareScreen))
        await chat.until_shown("ctrl+j asks both")
        composer = chat.app.screen.query_one(Composer)
        await chat.pilot.press("a", "enter", "b", "escape", "d", "d")
        assert composer.text == "a"


@pytest.mark.slow
async def test_escape_stops_both_answers_then_keeps_them(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.add_model("other:1b")
    fake_daemon.script("Left ", "one.", gate_before=1)
    fake_daemon.script("Right ", "one.", gate_before=1)
    async with open_chat(size=(120, 30)) as chat:
        await _open(chat)
        await _ask(chat, "Which?")
        await chat.until(lambda: "Left" in chat.screen_text and "Right" in chat.screen_text)
        await chat.pilot.press("alt+1")
        await chat.until_notified("still answering")
        await _ask(chat, "More")
        assert chat.app.screen.query_one(Composer).text == "More"
        await chat.pilot.press("escape")
        await chat.until(lambda: chat.screen_text.count("stopped") >= 2)
        await chat.pilot.press("escape")
        await chat.until(lambda: chat.app.screen is chat.screen)
        assert _answers(chat) == [("smollm2:135m", "Left "), ("other:1b", "Right ")]
        await chat.until_shown("⎇ 1/2")


@pytest.mark.slow
async def test_models_answer_in_turn_without_enough_memory(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.add_model("other:1b")
    fake_daemon.script("Left one.")
    fake_daemon.script(refuse=NO_ROOM)
    fake_daemon.script("Right one.")
    async with open_chat(size=(120, 30)) as chat:
        await _open(chat)
        await _ask(chat, "Which?")
        await chat.until_shown("Right one.")
        await chat.until_notified("There is memory for one")
        await chat.until_shown("they answer in turn")
        assert "✗" not in chat.screen_text
        assert [text for _, text in _answers(chat)] == ["Left one.", "Right one."]


@pytest.mark.slow
async def test_leaving_the_comparison_without_prompt_changes_nothing(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.add_model("other:1b")
    async with open_chat() as chat:
        await chat.until_shown("smollm2:135m")
        await chat.send("hello")
        await chat.until_shown("Hello there.")
        await _open(chat)
        assert chat.screen_text.count("Hello there.") == 2
        await chat.pilot.press("escape")
        await chat.until(lambda: chat.app.screen is chat.screen)
        assert len(chat.screen.chat.messages) == 2


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("", "/compare NAME asks a second model"),
        ("nosuch", "There is no model nosuch; ctrl+o lists all."),
        ("other", "other:1b is not downloaded; /pull other:1b downloads it."),
        ("smollm2", "cannot be compared with smollm2:135m"),
    ],
)
async def test_invalid_comparison_is_reported(
    open_chat: OpenChat, fake_daemon: FakeDaemon, argument: str, message: str
) -> None:
    fake_daemon.add_model("other:1b", installed=False, state="available")
    async with open_chat() as chat:
        await chat.until_shown("smollm2:135m on disk")
        await chat.send(f"/compare {argument}")
        await chat.until_notified(message)


@pytest.mark.slow
async def test_model_picker_opens_the_comparison(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.add_model("other:1b")
    async with open_chat() as chat:
        await chat.until_shown("smollm2:135m on disk")
        await chat.pilot.press("ctrl+o")
        await chat.until_shown("filter, or")
        await chat.pilot.press(*"other", "tab", "c")
        await chat.until(lambda: isinstance(chat.app.screen, CompareScreen))
