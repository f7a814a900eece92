"""The transcript view: lazy rendering, scrolling, following, and reloading."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from textual.geometry import Region
from textual.widget import Widget

from ingle.tui.transcript.entries.answer_entry import AnswerEntry
from ingle.tui.transcript.entries.entry import Entry
from ingle.tui.transcript.entries.prompt_entry import PromptEntry
from ingle.tui.transcript.view.line_view import RenderedLinesCache

if TYPE_CHECKING:
    from ..conftest import OpenTranscript


def long_chat(messages: int) -> list[Entry]:
    """A typical chat: short prompts, answers of several paragraphs, some code."""
    chance = random.Random(1)
    entries: list[Entry] = []
    for number in range(messages):
        if number % 2 == 0:
            words = " ".join(["prompt"] * chance.randint(3, 60))
            entries.append(PromptEntry(f"{number} {words}", id=f"m{number}"))
            continue
        paragraphs = [
            " ".join(["answer"] * chance.randint(10, 80)) for _ in range(chance.randint(1, 3))
        ]
        if number % 5 == 0:
            paragraphs.append("```python\n" + "x = 1\n" * chance.randint(2, 20) + "```")
        text = f"{number} " + "\n\n".join(paragraphs)
        entries.append(AnswerEntry("qwen3", id=f"m{number}").complete(text))
    return entries


async def test_long_chat_renders_only_entries_near_the_view(
    open_transcript: OpenTranscript,
) -> None:
    entries = long_chat(2000)
    async with open_transcript() as shown:
        shown.transcript.load(entries)
        rendered = [entry for entry in entries if entry.previous_lines]
        assert rendered
        assert rendered[0] in entries[-30:]
        await shown.pilot.pause()
        assert entries[-1].previous_lines[-2].text.rstrip() in shown.screen_text
        await shown.until(lambda: sum(1 for e in entries if e.previous_lines) >= 100)
        # Then measuring stops: the other heights stay estimates until they are near the view.
        await shown.until(lambda: not shown.transcript.is_measuring)
        assert not entries[0].previous_lines
        assert not entries[1500].previous_lines
        assert shown.transcript.following


@pytest.mark.slow
async def test_transcript_opens_at_a_message(open_transcript: OpenTranscript) -> None:
    async with open_transcript(*long_chat(600), at="m300") as shown:
        assert shown.screen_lines[0].strip() == "▌ you"
        assert shown.screen_lines[1].startswith("   300 prompt")
        assert not shown.transcript.following
        await shown.until(lambda: not shown.transcript.is_measuring)
        assert shown.screen_lines[1].startswith("   300 prompt")


@pytest.mark.slow
async def test_measuring_entries_above_does_not_move_the_view(
    open_transcript: OpenTranscript,
) -> None:
    async with open_transcript(*long_chat(400)) as shown:
        for target in ("m200", "m100", "m390", "m2"):
            assert shown.transcript.scroll_to_entry(target)
            await shown.pilot.pause()
            first = shown.screen_lines[:10]
            await shown.until(lambda: not shown.transcript.is_measuring)
            assert shown.screen_lines[:10] == first
        assert not shown.transcript.scroll_to_entry("nobody")


@pytest.mark.slow
async def test_scrolling_up_through_estimates_does_not_jump(
    open_transcript: OpenTranscript,
) -> None:
    async with open_transcript(*long_chat(300)) as shown:
        transcript = shown.transcript
        for _ in range(40):
            above = shown.screen_lines[:6]
            transcript.scroll_relative(y=-10, animate=False, immediate=True)
            await shown.until(lambda: not transcript.is_measuring)
            assert shown.screen_lines[10:16] == above


async def test_scroll_to_a_line_of_an_entry(open_transcript: OpenTranscript) -> None:
    text = "\n\n".join(f"paragraph {number}" for number in range(100))
    entries = [*long_chat(50), AnswerEntry("m", id="long").complete(text), *long_chat(50)]
    async with open_transcript(*entries) as shown:
        assert shown.transcript.scroll_to_entry("long", 101)
        await shown.until_shown("paragraph 50")
        assert shown.screen_lines[8].strip() == "paragraph 50"


async def test_change_above_the_view_does_not_move_it(open_transcript: OpenTranscript) -> None:
    entries = long_chat(100)
    extra = AnswerEntry("m").complete("Yes.", "one\n" * 30)
    entries.insert(40, extra)
    async with open_transcript(*entries, at="m60") as shown:
        await shown.until(lambda: not shown.transcript.is_measuring)
        before = shown.screen_lines
        extra.fold("thought", False)
        shown.transcript.update_entry(extra)
        await shown.pilot.pause()
        assert shown.screen_lines == before


async def test_view_follows_a_growing_answer(open_transcript: OpenTranscript) -> None:
    entry = AnswerEntry("m")
    async with open_transcript(*long_chat(50), entry) as shown:
        for number in range(30):
            entry.append(f"line {number}\n\n")
            shown.transcript.update_entry(entry)
        await shown.until_shown("line 29")
        shown.transcript.scroll_relative(y=-20, animate=False, immediate=True)
        entry.append("line 30\n\nline 31\n\n")
        shown.transcript.update_entry(entry)
        await shown.pilot.pause()
        assert "line 31" not in shown.screen_text
        assert [event.count for event in shown.app.new_lines] == [4]


async def test_a_growing_answer_is_drawn_like_a_complete_one(
    open_transcript: OpenTranscript,
) -> None:
    entry = AnswerEntry("m")
    async with open_transcript(*long_chat(6), entry) as shown:
        for number in range(16):
            entry.append(f"{'word ' * (number % 5)}\n" + "\n" * (number % 3))
            shown.transcript.update_entry(entry)
            entry.append("late ")  # after its height was measured
            await shown.pilot.pause()
        shown.transcript.update_entry(entry)
        await shown.pilot.pause(0.3)  # paints are paced
        grown = shown.app.export_screenshot(simplify=True)
        shown.transcript.vertical_scrollbar.refresh()
        shown.transcript.redraw()
        await shown.pilot.pause()
        assert shown.app.export_screenshot(simplify=True) == grown


def test_least_recently_shown_lines_are_evicted() -> None:
    cache = RenderedLinesCache(max_lines=1000)
    entries = [PromptEntry("x") for _ in range(100)]
    for entry in entries:
        cache.touch(entry, 100)
    cache.touch(entries[60], 100)
    assert cache.total == 48 * 100
    cache.discard(entries[99])
    assert cache.total == 47 * 100
    cache.clear()
    assert cache.total == 0


@pytest.mark.slow
async def test_scrolling_through_a_long_chat_bounds_cached_lines(
    open_transcript: OpenTranscript,
) -> None:
    entries = [
        AnswerEntry("m", id=f"m{number}").complete("line\n\n" * 100) for number in range(120)
    ]
    async with open_transcript(*entries) as shown:
        for number in range(0, 120, 3):
            shown.transcript.scroll_to_entry(f"m{number}")
        held = sum(len(entry.previous_lines) for entry in entries)
        assert held <= 201 * 60
        shown.transcript.scroll_to_entry("m0")
        await shown.until(lambda: shown.screen_lines[0].strip() == "▌ m")


@pytest.mark.slow
async def test_reloading_the_same_chat_keeps_the_scroll_position(
    open_transcript: OpenTranscript,
) -> None:
    async with open_transcript(*long_chat(200), at="m100") as shown:
        shown.transcript.scroll_relative(y=3, animate=False, immediate=True)
        await shown.until(lambda: not shown.transcript.is_measuring)
        before = shown.screen_lines
        shown.transcript.load(long_chat(202))
        await shown.pilot.pause()
        assert shown.screen_lines == before
        assert not shown.transcript.following
        shown.transcript.load([PromptEntry("another chat", id="other")])
        await shown.pilot.pause()
        assert shown.transcript.following


async def test_reloading_keeps_folds_and_the_cursor(open_transcript: OpenTranscript) -> None:
    def entries() -> list[Entry]:
        return [
            PromptEntry("question", id="p"),
            AnswerEntry("m", id="a").complete("Yes.", "deep thoughts"),
        ]

    async with open_transcript(*entries()) as shown:
        shown.transcript.walk(-1)
        await shown.pilot.press("z")
        shown.transcript.walk(-1)
        await shown.pilot.pause()
        stop = shown.transcript.cursor
        assert stop is not None
        assert stop.entry.id == "a"
        stop.entry.fold("thought", False)
        shown.transcript.load(entries())
        await shown.until_shown("▏ deep thoughts")
        stop = shown.transcript.cursor
        assert stop is not None
        assert stop.entry is shown.transcript.entries[1]
        shown.transcript.load([PromptEntry("another chat", id="other")])
        await shown.pilot.pause()
        assert shown.transcript.cursor is None
        assert not shown.transcript.has_focus


@pytest.mark.parametrize("crop", [Region(0, 0, 80, 24), Region(7, 3, 30, 12)])
async def test_rendered_lines_equal_those_of_textual(
    open_transcript: OpenTranscript, crop: Region
) -> None:
    async with open_transcript(*long_chat(20)) as shown:
        transcript = shown.transcript
        transcript.mark("answer")
        usual = Widget.render_lines(transcript, crop)
        own = transcript.render_lines(crop)
        assert [list(strip) for strip in own] == [list(strip) for strip in usual]
        assert any("answer" in strip.text for strip in own)
        # An unchanged line is the same strip object, which has its rendering cached.
        again = transcript.render_lines(crop)
        assert all(before is after for before, after in zip(own, again, strict=True))
