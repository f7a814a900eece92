"""The block cursor of the transcript: keys, mouse, block actions and links."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ingle.tui.chats.message import Attachment, CompactionRecord
from ingle.tui.transcript.entries.answer_entry import AnswerEntry
from ingle.tui.transcript.entries.entry import Entry
from ingle.tui.transcript.entries.program_entries import CompactionEntry, NoticeEntry
from ingle.tui.transcript.entries.prompt_entry import PromptEntry

if TYPE_CHECKING:
    from ...conftest import FakeDaemon, OpenChat
    from ..conftest import OpenTranscript, Shown

CODE = "Look:\n\n```python\nx = 1\ny = 2\n```\n\nand\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"


def entries() -> list[Entry]:
    return [
        PromptEntry("first", id="p1", attachments=[Attachment("a.txt", "file")]),
        AnswerEntry("m", id="a1").complete(CODE, "thoughts"),
        CompactionEntry(CompactionRecord(at="a1", summary="Sum.", id="c1", turns=1)),
        NoticeEntry("A word from the chat."),
        PromptEntry("second", id="p2"),
    ]


def cursor_position(shown: Shown) -> tuple[str, str | None]:
    stop = shown.transcript.cursor
    assert stop is not None
    return stop.entry.id, None if stop.block is None else stop.block.kind


async def test_cursor_visits_all_blocks_and_leaves_after_the_last(
    open_transcript: OpenTranscript,
) -> None:
    async with open_transcript(*entries(), size=(80, 40)) as shown:
        visited: list[tuple[str, str | None]] = []
        for _ in range(9):
            shown.transcript.walk(-1)
            await shown.pilot.pause()
            visited.append(cursor_position(shown))
        assert visited == [
            ("p2", None), ("c1", "seam"), ("a1", "table"), ("a1", "fence"), ("a1", "thought"),
            ("a1", None), ("p1", "attachment"), ("p1", None), ("p1", None)
        ]  # fmt: skip
        assert shown.screen_lines[0] == "▌▌ you"
        await shown.pilot.press(*["down"] * 7)
        assert cursor_position(shown) == ("p2", None)
        await shown.pilot.press("down")
        assert shown.transcript.cursor is None
        assert not shown.transcript.has_focus


async def test_vim_keys_move_the_cursor(open_transcript: OpenTranscript) -> None:
    async with open_transcript(*entries(), size=(80, 40)) as shown:
        shown.transcript.has_vim_keys = True
        shown.transcript.walk(-1)
        await shown.pilot.press("k", "k")
        assert cursor_position(shown) == ("a1", "table")
        await shown.pilot.press("j")
        assert cursor_position(shown) == ("c1", "seam")
        await shown.pilot.press("g")
        assert cursor_position(shown) == ("p1", None)
        await shown.pilot.press("G")
        assert cursor_position(shown) == ("p2", None)


@pytest.mark.slow
async def test_cursor_scrolls_only_as_far_as_needed(open_transcript: OpenTranscript) -> None:
    many = [PromptEntry(f"prompt {number}", id=f"m{number}") for number in range(60)]
    async with open_transcript(*many, size=(60, 12)) as shown:
        for _ in range(30):
            shown.transcript.walk(-1)
            await shown.pilot.pause()
            assert f"prompt {cursor_position(shown)[0][1:]}" in shown.screen_text
        assert cursor_position(shown)[0] == "m30"
        assert shown.screen_lines[0] == "▌▌ you"


async def test_keys_trigger_block_actions(open_transcript: OpenTranscript) -> None:
    async with open_transcript(*entries(), size=(80, 40)) as shown:
        for _ in range(4):
            shown.transcript.walk(-1)
        await shown.pilot.press("y", "r", "b", "p", "enter")
        actions = [(event.action, event.at.entry.id) for event in shown.app.block_actions]
        assert actions == [
            ("copy", "a1"), ("again", "a1"), ("branch", "a1"), ("pin", "a1"), ("menu", "a1")
        ]  # fmt: skip
        assert shown.app.block_actions[0].at.text == "x = 1\ny = 2"
        await shown.pilot.press("escape")
        assert shown.transcript.cursor is None


async def test_clicks_fold_copy_and_open_links(open_transcript: OpenTranscript) -> None:
    answer = AnswerEntry("m", id="a").complete(
        "see [this](https://example.org/x) word\n\n```py\nx = 1\n```\n", "deep thoughts"
    )
    async with open_transcript(answer, size=(60, 20)) as shown:
        thought = next(n for n, line in enumerate(shown.screen_lines) if "thought" in line)
        await shown.pilot.click(offset=(6, thought))
        await shown.until_shown("▏ deep thoughts")
        await shown.pilot.click(offset=(6, thought))
        await shown.until(lambda: "deep" not in shown.screen_text)
        label = next(n for n, line in enumerate(shown.screen_lines) if "copy y" in line)
        await shown.pilot.click(offset=(54, label))
        await shown.until(lambda: shown.app.block_actions)
        assert shown.app.block_actions[0].at.text == "x = 1"
        text = next(n for n, line in enumerate(shown.screen_lines) if "see this" in line)
        await shown.pilot.click(offset=(8, text))
        await shown.until(lambda: shown.app.links == ["https://example.org/x"])


async def test_double_click_selects_a_word_and_triple_click_a_line(
    open_transcript: OpenTranscript,
) -> None:
    async with open_transcript(PromptEntry("one two-three four")) as shown:
        await shown.pilot.double_click(offset=(9, 1))
        await shown.until(lambda: shown.app.screen.get_selected_text() == "two-three")
        await shown.pilot.triple_click(offset=(9, 1))
        await shown.until(lambda: shown.app.screen.get_selected_text() == "one two-three four")


@pytest.mark.slow
async def test_block_actions_run_chat_commands(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script("Look:\n\n```python\nx = 1\n```\n")
    fake_daemon.script("Another.")
    async with open_chat(size=(100, 40)) as chat:
        await chat.send("hello")
        await chat.until_shown("x = 1")
        await chat.until(lambda: "▍" not in chat.screen_text)
        await chat.pilot.press("alt+up")
        await chat.until_shown("y copy")
        assert "x = 1" in chat.screen_text
        assert "▌▌" not in chat.screen_text
        await chat.pilot.press("y")
        await chat.until(lambda: chat.app.clipboard == "x = 1")
        await chat.pilot.press("alt+up", "enter")
        await chat.until_shown("Answer again, beside this one")
        await chat.pilot.press("r")
        await chat.until_shown("Another.")
        await chat.until_shown("2/2")
        await chat.pilot.press("alt+up", "alt+up")
        await chat.until_shown("e edit")
        await chat.pilot.press("e")
        await chat.until(lambda: chat.draft == "hello")


async def test_escape_leaves_the_cursor_before_it_stops_an_answer(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script("Some ", "words", gate_before=1)
    async with open_chat() as chat:
        await chat.send("talk")
        await chat.until_shown("Some")
        await chat.pilot.press("alt+up")
        await chat.until(lambda: chat.transcript.cursor)
        await chat.pilot.press("escape")
        await chat.until(lambda: chat.transcript.cursor is None)
        assert fake_daemon.cancelled == []
        await chat.pilot.press("alt+up", "x", "x")
        await chat.until(lambda: chat.draft == "xx")


async def test_link_address_is_shown_before_it_is_opened(
    open_chat: OpenChat,
    fake_daemon: FakeDaemon,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[str] = []
    monkeypatch.setenv("DISPLAY", ":9")
    monkeypatch.setattr("webbrowser.open", opened.append)
    fake_daemon.script("[here](https://example.org/page) it is")
    async with open_chat(size=(160, 45)) as chat:
        await chat.send("where?")
        await chat.until_shown("here (https://example.org/page) it is")
        y = next(n for n, line in enumerate(chat.screen_text.split("\n")) if "here (" in line)
        await chat.pilot.click(offset=(chat.transcript.margin + 3, y))
        await chat.until(lambda: opened == ["https://example.org/page"])
        await chat.until_shown("Opening https://example.org/page")
