"""The composer: editing keys, chips, paste, attachments, prompt history, and token counts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual import events

from ingle.tui.chats.message import Attachment

if TYPE_CHECKING:
    from ..conftest import OpenComposer

LONG = "\n".join(f"line {number}" for number in range(120))


@pytest.mark.slow
async def test_composer_grows_to_a_third_of_the_screen(open_composer: OpenComposer) -> None:
    async with open_composer(size=(80, 30)) as harness:
        await harness.type("one\ntwo\nthree")
        assert harness.text == "one\ntwo\nthree"
        await harness.until(lambda: harness.composer.size.height == 3)
        await harness.type("\n" * 20)
        await harness.until(lambda: harness.composer.outer_size.height == 10)
        dock = harness.app.query_one("#dock")
        assert dock.outer_size.height == 10
        await harness.pilot.resize_terminal(80, 15)
        await harness.until(lambda: dock.outer_size.height <= 5)


@pytest.mark.parametrize("key", ["ctrl+j", "shift+enter", "alt+enter"])
async def test_enter_sends_and_other_keys_insert_newlines(
    open_composer: OpenComposer, key: str
) -> None:
    async with open_composer() as harness:
        await harness.press("a", key, "b", "enter")
        await harness.until(lambda: harness.app.submitted)
        assert harness.app.submitted[0].text == "a\nb"
        assert harness.text == ""
        harness.composer.enter_sends = False
        await harness.press("a", "enter", "b", key)
        await harness.until(lambda: len(harness.app.submitted) == 2)
        assert harness.app.submitted[1].text == "a\nb"


async def test_wrapped_line_is_cut_as_one(open_composer: OpenComposer) -> None:
    text = "a word " * 20
    async with open_composer() as harness:
        harness.composer.replace_text(f"above\n{text}")
        await harness.press("ctrl+u")
        assert harness.text == "above\n"
        await harness.press("alt+y", *["alt+b"] * 39, "ctrl+k")
        assert harness.text == "above\na "
        await harness.press("ctrl+a", "ctrl+u", "ctrl+a", "ctrl+k")
        assert harness.text == ""


@pytest.mark.slow
async def test_readline_keys_edit(open_composer: OpenComposer) -> None:
    async with open_composer() as harness:
        await harness.type("one two three")
        await harness.press("ctrl+w")
        assert harness.text == "one two "
        await harness.press("alt+y", "alt+b", "alt+b", "alt+d")
        assert harness.text == "one  three"
        await harness.press("ctrl+a", "ctrl+k")
        assert harness.text == ""
        await harness.press("alt+y")
        assert harness.text == "one  three"
        await harness.press("ctrl+u")
        assert harness.text == ""
        await harness.press("ctrl+underscore")
        assert harness.text == "one  three"
        await harness.press("alt+r")
        assert harness.text == ""


async def test_unbound_alt_key_types_nothing(open_composer: OpenComposer) -> None:
    async with open_composer() as harness:
        await harness.press("a")
        harness.composer.post_message(events.Key("alt+q", "q"))  # as terminals send it
        await harness.press("b")
        assert harness.text == "ab"


async def test_escape_twice_clears_and_undo_restores(open_composer: OpenComposer) -> None:
    async with open_composer() as harness:
        await harness.type("precious")
        assert harness.composer.escape(clears=True)
        assert harness.text == "precious"
        assert harness.composer.escape(clears=True)
        assert harness.text == ""
        await harness.press("ctrl+underscore")
        assert harness.text == "precious"
        harness.composer.replace_text("")
        await harness.press("up")
        assert harness.text == "precious"


@pytest.mark.slow
async def test_escape_keeps_the_draft_during_an_answer(open_composer: OpenComposer) -> None:
    async with open_composer() as harness:
        await harness.type("precious")
        assert not harness.composer.escape(clears=False)
        assert not harness.composer.escape(clears=False)
        assert harness.text == "precious"


@pytest.mark.slow
async def test_long_paste_is_a_chip_edited_as_one_character(open_composer: OpenComposer) -> None:
    async with open_composer() as harness:
        await harness.type("see ")
        await harness.paste(LONG)
        assert harness.text == "see [pasted 120 lines]"
        await harness.until_shown("+ pasted 120 lines (969 B)")
        await harness.press("left")
        assert harness.composer.cursor_location == (0, 4)
        await harness.press("right")
        assert harness.composer.cursor_location == (0, 22)
        await harness.press("backspace")
        assert harness.text == "see "
        await harness.press("ctrl+underscore", "end", "enter")
        await harness.until(lambda: harness.app.submitted)
        assert harness.app.submitted[0].text == "see [pasted 120 lines]"
        assert harness.app.submitted[0].attachments == (Attachment("pasted 120 lines", LONG),)


async def test_chip_is_expanded_in_place(open_composer: OpenComposer) -> None:
    async with open_composer() as harness:
        await harness.type("a ")
        await harness.paste(LONG)
        await harness.type(" b")
        await harness.press("left", "left", "ctrl+e")
        assert harness.text == f"a {LONG} b"
        await harness.press("ctrl+underscore")
        assert harness.text == "a [pasted 120 lines] b"


async def test_click_in_a_chip_moves_the_cursor_beside_it(open_composer: OpenComposer) -> None:
    async with open_composer() as harness:
        await harness.paste(LONG)
        await harness.pilot.click("#composer", offset=(8, 1))
        assert harness.composer.cursor_location in ((0, 0), (0, 21))


async def test_short_paste_is_cleaned_text(open_composer: OpenComposer) -> None:
    async with open_composer() as harness:
        await harness.paste("\x1b[31mred\x1b[0m\r\nnext\x1b[201~")
        assert harness.text == "red\nnext"


@pytest.mark.slow
async def test_dropped_file_is_attached_and_undo_restores_its_path(
    open_composer: OpenComposer, tmp_path: Path
) -> None:
    file = tmp_path / "two words.txt"
    file.write_text("inside")
    async with open_composer() as harness:
        await harness.paste(f"'{file}'")
        await harness.until(lambda: harness.text == '@"two words.txt" ')
        await harness.until_shown("Attached two words.txt")
        await harness.press("enter")
        await harness.until(lambda: harness.app.submitted)
        assert harness.app.submitted[0].attachments == (Attachment("two words.txt", "inside"),)
        await harness.paste(f"'{file}'")
        await harness.until(lambda: "@" in harness.text)
        for _ in range(2):
            await harness.press("ctrl+underscore")
        assert harness.text == f"'{file}'"


async def test_files_are_read_when_the_prompt_is_sent(
    open_composer: OpenComposer, tmp_path: Path
) -> None:
    file = tmp_path / "notes.md"
    file.write_text("old")
    async with open_composer() as harness:
        harness.composer.replace_text("sum up @notes.md please")
        await harness.until_shown("+ notes.md (3 B)")
        file.write_text("new")
        await harness.press("enter", "m", "o", "r", "e")
        await harness.until(lambda: harness.app.submitted)
        assert harness.app.submitted[0].text == "sum up @notes.md please"
        assert harness.app.submitted[0].attachments == (Attachment("notes.md", "new"),)
        await harness.until(lambda: harness.text == "more")


async def test_vanished_file_is_confirmed_before_sending(
    open_composer: OpenComposer, tmp_path: Path
) -> None:
    file = tmp_path / "notes.md"
    file.write_text("old")
    async with open_composer(size=(100, 24)) as harness:
        harness.composer.replace_text("sum up @notes.md")
        await harness.until_shown("+ notes.md")
        file.unlink()
        await harness.press("enter")
        await harness.until_shown("notes.md no longer exists.")
        assert harness.text == "sum up @notes.md"
        await harness.press("enter")
        await harness.until(lambda: harness.app.submitted)
        assert harness.app.submitted[0].attachments == ()


@pytest.mark.slow
async def test_up_recalls_prompts_that_contain_the_draft(open_composer: OpenComposer) -> None:
    async def earlier() -> list[str]:
        return ["run docker", "bake bread", "build docker"]

    async with open_composer() as harness:
        harness.composer.earlier_prompts = earlier
        await harness.type("docker")
        await harness.press("up")
        assert harness.text == "run docker"
        await harness.until_shown("earlier prompt 1/2 with “docker”")
        await harness.press("up")
        assert harness.text == "build docker"
        await harness.press("up")
        assert harness.text == "build docker"
        await harness.press("down", "down")
        assert harness.text == "docker"


async def test_up_recalls_a_queued_prompt_first(open_composer: OpenComposer) -> None:
    async def earlier() -> list[str]:
        return ["earlier"]

    async with open_composer() as harness:
        harness.composer.earlier_prompts = earlier
        waiting = ["waiting"]
        harness.composer.recall_queued = lambda: bool(waiting and waiting.pop())
        await harness.press("up")
        assert (waiting, harness.text) == ([], "")
        await harness.press("up")
        assert harness.text == "earlier"


async def test_ctrl_d_quits_only_with_an_empty_draft(open_composer: OpenComposer) -> None:
    async with open_composer() as harness:
        await harness.press("a", "left", "ctrl+d")
        assert harness.text == ""
        assert harness.app.command_screen.commands == []
        await harness.press("ctrl+d")
        await harness.until(lambda: harness.app.command_screen.commands == ["quit"])


async def test_saved_draft_includes_its_chips(open_composer: OpenComposer) -> None:
    async with open_composer() as harness:
        await harness.type("see ")
        await harness.paste(LONG)
        kept = harness.composer.kept_draft()
    async with open_composer() as harness:
        harness.composer.replace_text(kept)
        assert harness.text == "see [pasted 120 lines]"
        await harness.press("enter")
        await harness.until(lambda: harness.app.submitted)
        assert harness.app.submitted[0].attachments[0].text == LONG


async def test_prompt_is_loaded_with_its_attachments(open_composer: OpenComposer) -> None:
    sent = (Attachment("pasted 3 lines", "a\nb\nc"), Attachment("gone.py", "print()"))
    async with open_composer() as harness:
        harness.composer.load("[pasted 3 lines] in @gone.py", sent)
        await harness.press("enter")
        await harness.until(lambda: harness.app.submitted)
        assert set(harness.app.submitted[0].attachments) == set(sent)


@pytest.mark.slow
async def test_tab_moves_through_template_places(open_composer: OpenComposer) -> None:
    async with open_composer() as harness:
        harness.composer.replace_text("Review {{file}}\nfor {{goal}}.")
        await harness.press("tab")
        assert harness.composer.selected_text == "{{file}}"
        await harness.type("app.py")
        await harness.press("tab")
        assert harness.composer.selected_text == "{{goal}}"
        await harness.type("speed")
        assert harness.text == "Review app.py\nfor speed."


@pytest.mark.slow
async def test_tokens_are_estimated_until_they_are_counted(open_composer: OpenComposer) -> None:
    async with open_composer() as harness:
        harness.composer.hints = "enter send"
        await harness.type("hello world")
        await harness.until_shown("≈ 3 tok · enter send")
        harness.composer.show_count("hello world", 2)
        await harness.until(lambda: " 2 tok · enter send" in harness.screen_text)
        await harness.type("!")
        await harness.until_shown("≈ 3 tok")


async def test_cursor_stays_visible(open_composer: OpenComposer) -> None:
    async with open_composer(size=(80, 30)) as harness:
        harness.composer.replace_text(LONG)
        await harness.until_shown("line 119")
        harness.composer.replace_text(f"{LONG}\nthe end")
        await harness.until_shown("the end")
        await harness.pilot.resize_terminal(70, 20)
        await harness.until_shown("the end")
