"""Searching in the open chat: hits, marks, and the find bar."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingle.tui.transcript.entries.answer_entry import AnswerEntry
from ingle.tui.transcript.entries.entry import Entry
from ingle.tui.transcript.entries.prompt_entry import PromptEntry
from ingle.tui.transcript.lines import RenderedLine, wrap_plain
from ingle.tui.transcript.view.transcript_search import TextSearch, folded, hit_spans

if TYPE_CHECKING:
    from ...conftest import FakeDaemon, OpenChat


def search(entries: list[Entry], *queries: str) -> TextSearch:
    found = TextSearch(entries)
    for query in queries:
        for _ in found.steps(query):
            pass
    return found


def marked_texts(lines: list[RenderedLine], query: str) -> list[str]:
    return [
        "".join(lines[number].text[start:end] for number, start, end in hit)
        for hit in hit_spans(lines, query)
    ]


def test_hits_are_counted_and_located_in_entries() -> None:
    entries: list[Entry] = [PromptEntry("Red red"), PromptEntry("blue"), PromptEntry("a RED one")]
    found = search(entries, "red")
    assert found.total == 3
    assert [found.locate(number) for number in range(3)] == [
        (entries[0], 0), (entries[0], 1), (entries[2], 0)
    ]  # fmt: skip
    assert [found.first_from(entry) for entry in entries] == [0, 2, 2]
    assert [found.covers(some) for some in (entries, entries[1:])] == [True, False]
    assert search(entries, "nobody").total == 0
    assert search(entries, "").total == 0


@given(st.lists(st.text("ab ", max_size=20), max_size=9), st.text("ab", min_size=1, max_size=4))
def test_incremental_search_equals_a_new_search(texts: list[str], query: str) -> None:
    entries: list[Entry] = [PromptEntry(text) for text in texts]
    prefixes = [query[:length] for length in range(1, len(query) + 1)]
    assert search(entries, *prefixes).total == search(entries, query).total
    assert search(entries, query).total == sum(text.count(query) for text in texts)


def test_growing_answer_is_searched_again() -> None:
    entry = AnswerEntry("m")
    entry.append("red ")
    found = search([entry], "red")
    entry.append("red")
    for _ in found.steps("red"):
        pass
    assert found.total == 2


def test_hits_span_soft_wraps() -> None:
    lines = [line.prefixed("  ") for line in wrap_plain("one two three four five", 9)]
    assert marked_texts(lines, "three") == ["three"]
    assert marked_texts(lines, "two three") == ["twothree"]
    assert marked_texts(lines, "e") == ["e"] * 4
    assert marked_texts(lines, "nine") == []


@given(st.text("abc İ漢é\n", max_size=60), st.sampled_from(["a", "ab", "é", "漢", "c a"]))
def test_every_hit_in_plain_text_is_marked(text: str, query: str) -> None:
    wide = wrap_plain(text, 1000)
    rows = [row.rstrip() for row in text.split("\n")]
    assert len(marked_texts(wide, query)) == sum(folded(row).count(query) for row in rows)


def test_case_folding_keeps_the_length() -> None:
    assert folded("İSTANBUL") == "İstanbul"
    assert folded("ÄB") == "äb"


@pytest.mark.slow
async def test_find_bar_moves_through_the_hits(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script("A needle.\n\n" + "hay\n\n" * 60 + "Another **needle**.")
    async with open_chat() as chat:
        await chat.send("Where is the needle?")
        await chat.until_shown("Another needle.")
        await chat.until(lambda: "▍" not in chat.screen_text)
        await chat.pilot.press("ctrl+f")
        await chat.until_shown("find")
        await chat.pilot.press(*"Needle")
        await chat.until_shown("3 of 3")
        await chat.pilot.press("up")
        await chat.until_shown("2 of 3")
        assert "A needle." in chat.screen_text
        await chat.pilot.press("up")
        await chat.until_shown("1 of 3")
        assert "Where is the needle?" in chat.screen_text
        await chat.pilot.press("up")
        await chat.until_shown("3 of 3")
        await chat.pilot.press("enter")
        await chat.until_shown("1 of 3")
        await chat.pilot.press("x")
        await chat.until_shown("not in this chat")
        before = chat.transcript.scroll_offset
        await chat.pilot.press("escape")
        await chat.until(lambda: "find" not in chat.screen_text)
        assert chat.transcript.scroll_offset.y == before.y
        await chat.pilot.press("h", "i")
        assert chat.draft == "hi"


@pytest.mark.slow
async def test_find_command_takes_a_query(open_chat: OpenChat, fake_daemon: FakeDaemon) -> None:
    fake_daemon.script("A needle.")
    async with open_chat() as chat:
        await chat.send("hello")
        await chat.until_shown("A needle.")
        await chat.send("/find needle")
        await chat.until_shown("1 of 1")


async def test_slow_typing_finds_the_same_hit(open_chat: OpenChat, fake_daemon: FakeDaemon) -> None:
    """The hit of the first letter moves the view, which the whole word is not looked for from."""
    fake_daemon.script("A needle.\n\n" + "hay\n\n" * 40 + "A needle.\n\n" + "ha\n\n" * 40)
    async with open_chat() as chat:
        await chat.send("Where is the needle? A number comes first.")
        await chat.until(lambda: chat.screen.turn is None and chat.screen.chat.path[1:])
        await chat.pilot.press("ctrl+f")
        await chat.pilot.press("n")
        await chat.until_shown("4 of 4")
        await chat.until(lambda: not chat.transcript.following)
        await chat.pilot.press("e")
        await chat.until_shown("3 of 3")
