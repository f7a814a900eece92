"""The composer: editing keys, chips, paste, attachments, prompt history, and token counts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual import events

from ingle.tui.chats.message import Attachment

if TYPE_CHECKING:
    from ..conftest import OpenDesk

LONG = "\n".join(f"line {number}" for number in range(120))


@pytest.mark.slow
async def test_composer_grows_to_a_third_of_the_screen(open_desk: OpenDesk) -> None:
    async with open_desk(size=(80, 30)) as desk:
        await desk.type("one\ntwo\nthree")
        assert desk.text == "one\ntwo\nthree"
        await desk.until(lambda: desk.composer.size.height == 3)
        await desk.type("\n" * 20)
        await desk.until(lambda: desk.composer.outer_size.height == 10)
        dock = desk.app.query_one("#dock")
        assert dock.outer_size.height == 10
        await desk.pilot.resize_terminal(80, 15)
        await desk.until(lambda: dock.outer_size.height <= 5)


@pytest.mark.parametrize("key", ["ctrl+j", "shift+enter", "alt+enter"])
async def test_enter_sends_and_other_keys_insert_newlines(open_desk: OpenDesk, key: str) -> None:
    async with open_desk() as desk:
        await desk.press("a", key, "b", "enter")
        await desk.until(lambda: desk.app.submitted)
        assert desk.app.submitted[0].text == "a\nb"
        assert desk.text == ""
        desk.composer.enter_sends = False
        await desk.press("a", "enter", "b", key)
        await desk.until(lambda: len(desk.app.submitted) == 2)
        assert desk.app.submitted[1].text == "a\nb"


@pytest.mark.slow
async def test_readline_keys_edit(open_desk: OpenDesk) -> None:
    async with open_desk() as desk:
        await desk.type("one two three")
        await desk.press("ctrl+w")
        assert desk.text == "one two "
        await desk.press("alt+y", "alt+b", "alt+b", "alt+d")
        assert desk.text == "one  three"
        await desk.press("ctrl+a", "ctrl+k")
        assert desk.text == ""
        await desk.press("alt+y")
        assert desk.text == "one  three"
        await desk.press("ctrl+u")
        assert desk.text == ""
        await desk.press("ctrl+underscore")
        assert desk.text == "one  three"
        await desk.press("alt+r")
        assert desk.text == ""


async def test_unbound_alt_key_types_nothing(open_desk: OpenDesk) -> None:
    async with open_desk() as desk:
        await desk.press("a")
        desk.composer.post_message(events.Key("alt+q", "q"))  # as terminals send it
        await desk.press("b")
        assert desk.text == "ab"


async def test_escape_twice_clears_and_undo_restores(open_desk: OpenDesk) -> None:
    async with open_desk() as desk:
        await desk.type("precious")
        assert desk.composer.escape(clears=True)
        assert desk.text == "precious"
        assert desk.composer.escape(clears=True)
        assert desk.text == ""
        await desk.press("ctrl+underscore")
        assert desk.text == "precious"
        desk.composer.replace_text("")
        await desk.press("up")
        assert desk.text == "precious"


@pytest.mark.slow
async def test_escape_keeps_the_draft_during_an_answer(open_desk: OpenDesk) -> None:
    async with open_desk() as desk:
        await desk.type("precious")
        assert not desk.composer.escape(clears=False)
        assert not desk.composer.escape(clears=False)
        assert desk.text == "precious"


@pytest.mark.slow
async def test_long_paste_is_a_chip_edited_as_one_character(open_desk: OpenDesk) -> None:
    async with open_desk() as desk:
        await desk.type("see ")
        await desk.paste(LONG)
        assert desk.text == "see [pasted 120 lines #1]"
        await desk.until_shown("+ pasted 120 lines #1 969 characters")
        await desk.press("left")
        assert desk.composer.cursor_location == (0, 4)
        await desk.press("right")
        assert desk.composer.cursor_location == (0, 25)
        await desk.press("backspace")
        assert desk.text == "see "
        await desk.press("ctrl+underscore", "end", "enter")
        await desk.until(lambda: desk.app.submitted)
        assert desk.app.submitted[0].text == "see [pasted 120 lines #1]"
        assert desk.app.submitted[0].attachments == (Attachment("pasted 120 lines #1", LONG),)


async def test_chip_is_expanded_in_place(open_desk: OpenDesk) -> None:
    async with open_desk() as desk:
        await desk.type("a ")
        await desk.paste(LONG)
        await desk.type(" b")
        await desk.press("left", "left", "ctrl+e")
        assert desk.text == f"a {LONG} b"
        await desk.press("ctrl+underscore")
        assert desk.text == "a [pasted 120 lines #1] b"


async def test_click_in_a_chip_moves_the_cursor_beside_it(open_desk: OpenDesk) -> None:
    async with open_desk() as desk:
        await desk.paste(LONG)
        await desk.pilot.click("#composer", offset=(8, 1))
        assert desk.composer.cursor_location in ((0, 0), (0, 21))


async def test_short_paste_is_cleaned_text(open_desk: OpenDesk) -> None:
    async with open_desk() as desk:
        await desk.paste("\x1b[31mred\x1b[0m\r\nnext\x1b[201~")
        assert desk.text == "red\nnext"


@pytest.mark.slow
async def test_dropped_file_is_attached_and_undo_restores_its_path(
    open_desk: OpenDesk, tmp_path: Path
) -> None:
    file = tmp_path / "two words.txt"
    file.write_text("inside")
    async with open_desk() as desk:
        await desk.paste(f"'{file}'")
        await desk.until(lambda: desk.text == '@"two words.txt" ')
        await desk.until_shown("Attached two words.txt")
        await desk.press("enter")
        await desk.until(lambda: desk.app.submitted)
        assert desk.app.submitted[0].attachments == (Attachment("two words.txt", "inside"),)
        await desk.paste(f"'{file}'")
        await desk.until(lambda: "@" in desk.text)
        for _ in range(2):
            await desk.press("ctrl+underscore")
        assert desk.text == f"'{file}'"


async def test_files_are_read_when_the_prompt_is_sent(open_desk: OpenDesk, tmp_path: Path) -> None:
    file = tmp_path / "notes.md"
    file.write_text("old")
    async with open_desk() as desk:
        desk.composer.replace_text("sum up @notes.md please")
        await desk.until_shown("+ notes.md 3 B")
        file.write_text("new")
        await desk.press("enter", "m", "o", "r", "e")
        await desk.until(lambda: desk.app.submitted)
        assert desk.app.submitted[0].text == "sum up @notes.md please"
        assert desk.app.submitted[0].attachments == (Attachment("notes.md", "new"),)
        await desk.until(lambda: desk.text == "more")


async def test_vanished_file_is_confirmed_before_sending(
    open_desk: OpenDesk, tmp_path: Path
) -> None:
    file = tmp_path / "notes.md"
    file.write_text("old")
    async with open_desk(size=(100, 24)) as desk:
        desk.composer.replace_text("sum up @notes.md")
        await desk.until_shown("+ notes.md")
        file.unlink()
        await desk.press("enter")
        await desk.until_shown("notes.md is not there any more.")
        assert desk.text == "sum up @notes.md"
        await desk.press("enter")
        await desk.until(lambda: desk.app.submitted)
        assert desk.app.submitted[0].attachments == ()


@pytest.mark.slow
async def test_up_recalls_prompts_that_contain_the_draft(open_desk: OpenDesk) -> None:
    async def earlier() -> list[str]:
        return ["run docker", "bake bread", "build docker"]

    async with open_desk() as desk:
        desk.composer.earlier_prompts = earlier
        await desk.type("docker")
        await desk.press("up")
        assert desk.text == "run docker"
        await desk.until_shown("earlier prompt 1/2 with “docker”")
        await desk.press("up")
        assert desk.text == "build docker"
        await desk.press("up")
        assert desk.text == "build docker"
        await desk.press("down", "down")
        assert desk.text == "docker"


async def test_up_recalls_a_queued_prompt_first(open_desk: OpenDesk) -> None:
    async def earlier() -> list[str]:
        return ["earlier"]

    async with open_desk() as desk:
        desk.composer.earlier_prompts = earlier
        waiting = ["waiting"]
        desk.composer.recall_queued = lambda: bool(waiting and waiting.pop())
        await desk.press("up")
        assert (waiting, desk.text) == ([], "")
        await desk.press("up")
        assert desk.text == "earlier"


async def test_ctrl_d_quits_only_with_an_empty_draft(open_desk: OpenDesk) -> None:
    async with open_desk() as desk:
        await desk.press("a", "left", "ctrl+d")
        assert desk.text == ""
        assert desk.app.command_screen.commands == []
        await desk.press("ctrl+d")
        await desk.until(lambda: desk.app.command_screen.commands == ["quit"])


async def test_saved_draft_includes_its_chips(open_desk: OpenDesk) -> None:
    async with open_desk() as desk:
        await desk.type("see ")
        await desk.paste(LONG)
        kept = desk.composer.kept_draft()
    async with open_desk() as desk:
        desk.composer.replace_text(kept)
        assert desk.text == "see [pasted 120 lines #1]"
        await desk.press("enter")
        await desk.until(lambda: desk.app.submitted)
        assert desk.app.submitted[0].attachments[0].text == LONG


async def test_prompt_is_loaded_with_its_attachments(open_desk: OpenDesk) -> None:
    sent = (Attachment("pasted 3 lines #1", "a\nb\nc"), Attachment("gone.py", "print()"))
    async with open_desk() as desk:
        desk.composer.load("[pasted 3 lines #1] in @gone.py", sent)
        await desk.press("enter")
        await desk.until(lambda: desk.app.submitted)
        assert set(desk.app.submitted[0].attachments) == set(sent)


@pytest.mark.slow
async def test_tab_moves_through_template_places(open_desk: OpenDesk) -> None:
    async with open_desk() as desk:
        desk.composer.replace_text("Review {{file}}\nfor {{goal}}.")
        await desk.press("tab")
        assert desk.composer.selected_text == "{{file}}"
        await desk.type("app.py")
        await desk.press("tab")
        assert desk.composer.selected_text == "{{goal}}"
        await desk.type("speed")
        assert desk.text == "Review app.py\nfor speed."


@pytest.mark.slow
async def test_tokens_are_estimated_until_they_are_counted(open_desk: OpenDesk) -> None:
    async with open_desk() as desk:
        desk.composer.hints = "enter send"
        await desk.type("hello world")
        await desk.until_shown("≈ 3 tok · enter send")
        desk.composer.show_count("hello world", 2)
        await desk.until(lambda: " 2 tok · enter send" in desk.screen_text)
        await desk.type("!")
        await desk.until_shown("≈ 3 tok")


async def test_cursor_stays_visible(open_desk: OpenDesk) -> None:
    async with open_desk(size=(80, 30)) as desk:
        desk.composer.replace_text(LONG)
        await desk.until_shown("line 119")
        desk.composer.replace_text(f"{LONG}\nthe end")
        await desk.until_shown("the end")
        await desk.pilot.resize_terminal(70, 20)
        await desk.until_shown("the end")
