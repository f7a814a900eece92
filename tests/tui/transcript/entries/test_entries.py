"""Entries of the transcript as lines: prompts, answers, reasoning, notices, and folding."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

from ingle.tui.chats.message import Attachment, CompactionRecord
from ingle.tui.transcript.entries.answer_entry import AnswerEntry
from ingle.tui.transcript.entries.entry import Entry, RenderOptions
from ingle.tui.transcript.entries.program_entries import CompactionEntry, NoticeEntry, SystemEntry
from ingle.tui.transcript.entries.prompt_entry import PromptEntry
from ingle.tui.transcript.view.block_navigation import stops

pytestmark = pytest.mark.quick

if TYPE_CHECKING:
    from ingle.tui.transcript.lines import TranscriptStyles

    from ..conftest import ShowLines

NINE = time.mktime((2026, 5, 4, 9, 12, 0, 0, 0, -1))
SEAM = CompactionRecord(
    at="m", summary="Sum.", turns=14, tokens_before=6912, tokens_after=611, seconds=3.1
)


def test_prompt_header_has_role_and_time(show: ShowLines) -> None:
    entry = PromptEntry("Hello\nthere", id="m1", created=NINE)
    assert show(entry) == ["▌ you  09:12", "  Hello", "  there", ""]
    assert entry.id == "m1"


def test_header_shows_branch_and_pin(show: ShowLines) -> None:
    entry = AnswerEntry("qwen3", "⌂ local · 61 tok/s", created=NINE, place=(2, 3), pinned=True)
    entry.complete("Yes.")
    assert show(entry, 70)[0] == ("▌ qwen3  09:12 · ⌂ local · 61 tok/s · 2/3 ‹alt+←→› · ◆ pinned")
    entry.set_pinned(False)
    entry.annotate("")
    assert show(entry)[0] == "▌ qwen3  09:12 · 2/3 ‹alt+←→›"


def test_only_the_latest_answer_shows_its_facts(show: ShowLines) -> None:
    entry = AnswerEntry("qwen3", facts="61 tok/s").complete("Yes.")
    assert show(entry) == ["▌ qwen3", "  Yes.", ""]
    entry.set_latest(True)
    assert show(entry) == ["▌ qwen3", "  Yes.", "  61 tok/s", ""]


@pytest.mark.parametrize("width", range(10, 80))
def test_narrow_header_drops_the_hint_then_the_note(show: ShowLines, width: int) -> None:
    note = "⌂ local · 61 tok/s · first token 0.21 s"
    entry = AnswerEntry("qwen3", note, created=NINE, place=(2, 3)).complete("Yes.")
    head = show(entry, width)[0]
    assert cell_len(head) <= width
    if width >= 24:
        assert "2/3" in head
        assert "09:12" in head
    assert ("‹alt+←→›" in head) == (width >= 71)


def test_attachments_are_foldable_chips(show: ShowLines) -> None:
    file = Attachment("notes.md", "one\ntwo\n" + "x" * 2333)
    entry = PromptEntry("Read this", attachments=[file])
    assert show(entry) == ["▌ you", "  ⊞ notes.md · 2 341 characters", "  Read this", ""]
    entry.fold("attachment:0", False)
    assert show(entry)[1:4] == ["  ⊞ notes.md · 2 341 characters ▾", "  ▏ one", "  ▏ two"]


def test_picture_is_a_chip(show: ShowLines) -> None:
    picture = Attachment("cat.png", "", "data:image/png;base64," + "A" * 4000)
    entry = PromptEntry("See", attachments=[picture])
    entry.fold("attachment:0", False)
    assert show(entry)[1].startswith("  ⊞ cat.png · picture, 3")
    assert show(entry)[2:] == ["  See", ""]


def test_reasoning_streams_and_folds_when_the_answer_starts(show: ShowLines) -> None:
    entry = AnswerEntry("qwen3")
    entry.append_reasoning("The user\nwants ", tokens=4)
    assert show(entry) == ["▌ qwen3", "  ▾ thinking · 4 tokens", "  ▏ The user", "  ▏ wants",
                           "", "  ▍", ""]  # fmt: skip
    entry.append_reasoning("a word.", tokens=308)
    assert "  ▏ wants a word." in show(entry)
    entry.append("Hello")
    lines = show(entry)
    assert lines[1].startswith("  ▸ thought for ")
    assert lines[1].endswith(" · 312 tokens")
    assert lines[2:] == ["", "  Hello▍", ""]
    assert entry.text == "Hello"
    assert entry.reasoning == "The user\nwants a word."
    entry.fold("thought", False)
    assert show(entry)[2:4] == ["  ▏ The user", "  ▏ wants a word."]


def test_loaded_answer_equals_the_streamed_one(show: ShowLines) -> None:
    text = "Some **bold**\n\n```python\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    streamed = AnswerEntry("m")
    for character in text:
        streamed.append(character)
        show(streamed)
    streamed.finish("■ stopped")
    loaded = AnswerEntry("m").complete(text, ending="■ stopped")
    assert show(streamed) == show(loaded)


def test_loaded_reasoning_is_folded(show: ShowLines) -> None:
    entry = AnswerEntry("m").complete("Yes.", "Long thoughts", reasoning_tokens=312)
    assert show(entry)[1:] == ["  ▸ thought · 312 tokens", "", "  Yes.", ""]
    only = AnswerEntry("m").complete("", "Long thoughts", "■ stopped")
    assert show(only)[1:] == ["  ▸ thought", "  ■ stopped", ""]


def test_compaction_entry_shows_the_saving(show: ShowLines) -> None:
    assert show(CompactionEntry(SEAM, "last 3 turns, 2 pins"), 100) == [
        "┄┄ compacted 14 turns · 6 912 → 611 tok (−91 %) · 3.1 s · kept: last 3 turns, 2 pins ┄┄",
        "   ▸ enter summary · u undo · o originals",
        "",
    ]
    assert show(CompactionEntry(SEAM, "last 3 turns"), 60)[0] == (
        "┄┄ compacted 14 turns · 6 912 → 611 tok (−91 %) · 3.1 s ┄┄"
    )


def test_system_prompt_is_folded_to_one_line(show: ShowLines) -> None:
    entry = SystemEntry("Be brief.\nBe kind.")
    assert show(entry) == ["── system prompt · 18 characters ▸ ──", ""]
    entry.fold("system", False)
    assert show(entry) == [
        "── system prompt · 18 characters ▾ ──", "  Be brief.", "  Be kind.", ""
    ]  # fmt: skip


def test_long_code_is_folded_unless_it_was_streamed(show: ShowLines) -> None:
    code = "\n".join(f"line {number}" for number in range(105))
    entry = AnswerEntry("m").complete(f"```text\n{code}\n```")
    lines = show(entry)
    assert lines[1].split() == ["text", "copy", "y"]
    assert lines[-3:] == ["   line 19", "   ▸ 85 more lines", ""]
    entry.fold("fence:0", False)
    assert show(entry)[-3:] == ["   line 104", "   ▾ fold", ""]
    watched = AnswerEntry("m")
    watched.append(f"```text\n{code}\n```")
    watched.finish()
    assert show(watched)[-3:] == ["   line 104", "   ▾ fold", ""]


@pytest.mark.parametrize(
    "entry",
    [
        PromptEntry("word " * 50, attachments=[Attachment("a-long-file-name.py", "x" * 99)]),
        AnswerEntry("a-model-with-a-long-name:7b-q4", "note " * 9).complete("漢字 " * 40, "deep"),
        CompactionEntry(SEAM, "last 3 turns"),
        SystemEntry("Be brief. " * 30),
        NoticeEntry("It failed. " * 9, "Press enter."),
    ],
)
@pytest.mark.parametrize("width", [10, 14, 30, 58, 100])
def test_entries_fit_the_width(show: ShowLines, entry: Entry, width: int) -> None:
    for key in ("attachment:0", "thought", "system"):
        entry.fold(key, False)
    assert max(cell_len(line) for line in show(entry, width)) <= width


def test_unfinished_code_block_can_be_copied(show: ShowLines) -> None:
    entry = AnswerEntry("m")
    entry.append("Look:\n\n```python\nx = 1\ny = ")
    show(entry)
    stop = stops(entry, entry.previous_lines)[-1]
    assert stop.text == "x = 1\ny = "


def test_secondary_text_has_muted_styles(styles: TranscriptStyles) -> None:
    options = RenderOptions(styles, 60)
    answer = AnswerEntry("m").complete("Yes.", "thoughts", "■ stopped")
    handle, ending = answer.lines(options)[1], answer.lines(options)[-2]
    assert handle.segments[-1].style == styles.thought
    assert ending.segments[-1].style == styles.muted
    failure = NoticeEntry("It failed.", "Press enter.", "error").lines(options)
    assert [line.segments[-1].style for line in failure[:2]] == [styles.error, styles.muted]


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("/models/qwen.gguf", "qwen.gguf"),
        ("C:\\models\\qwen.gguf", "qwen.gguf"),
        ("org/model:7b", "org/model:7b"),
    ],
)
def test_model_path_is_shown_as_file_name(show: ShowLines, model: str, name: str) -> None:
    assert show(AnswerEntry(model).complete("Yes."))[0] == f"▌ {name}"
