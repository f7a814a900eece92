"""Completion in the composer: commands, files, chats, templates, keys and mouse."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual import events

from ingle.tui.composing.prompt_templates import Template
from ingle.tui.widgets.composer.completer import Completer, CompletionItem

if TYPE_CHECKING:
    from ..conftest import Desk, OpenDesk


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name in ("src/app.py", "src/composer.py", "docs/two words.md", "ignored/app.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / ".gitignore").write_text("ignored\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def completer(desk: Desk) -> Completer:
    found = desk.composer.completing.completer
    assert found is not None
    return found


async def test_commands_are_completed_with_their_arguments(open_desk: OpenDesk) -> None:
    async with open_desk() as desk:
        await desk.type("/comp")
        await desk.until_shown("▌ /compare NAME")
        await desk.press("down")
        await desk.until_shown("▌ /compact FOCUS")
        assert "Sum up what was said earlier" in desk.screen_text
        await desk.press("tab")
        assert desk.text == "/compact "
        await desk.until(lambda: not desk.composer.completing.is_open)


async def test_enter_sends_a_command_without_arguments(open_desk: OpenDesk) -> None:
    async with open_desk() as desk:
        await desk.type("/doc")
        await desk.until_shown("▌ /doctor")
        await desk.press("enter")
        await desk.until(lambda: desk.app.submitted)
        assert desk.app.submitted[0].text == "/doctor"


async def test_enter_sends_a_fully_typed_command(open_desk: OpenDesk) -> None:
    async with open_desk() as desk:
        await desk.type("/model")
        await desk.until_shown("▌ /model NAME")
        await desk.press("enter")
        await desk.until(lambda: desk.app.submitted)
        assert desk.app.submitted[0].text == "/model"


async def test_enter_sends_type_ahead_not_the_outdated_item(open_desk: OpenDesk) -> None:
    async with open_desk() as desk:
        await desk.type("/ke")
        await desk.until_shown("▌ /keep")
        for key in ("y", "s", "enter"):  # at once, as terminals deliver type-ahead
            desk.composer.post_message(events.Key(key, key if len(key) == 1 else None))
        await desk.until(lambda: desk.app.submitted)
        assert desk.app.submitted[0].text == "/keys"


@pytest.mark.slow
async def test_file_is_found_by_fuzzy_match(open_desk: OpenDesk, files: Path) -> None:
    async with open_desk() as desk:
        await desk.type("explain @comp")
        await desk.until_shown("▌ src/composer.py")
        await desk.press("enter")
        assert desk.text == "explain @src/composer.py "
        await desk.until_shown("+ src/composer.py 15 B")
        await desk.press("enter")
        await desk.until(lambda: desk.app.submitted)
        assert [a.text for a in desk.app.submitted[0].attachments] == ["src/composer.py"]


async def test_completion_descends_into_folders(open_desk: OpenDesk, files: Path) -> None:
    async with open_desk() as desk:
        await desk.type("@docs/")
        await desk.until_shown("docs/two words.md")
        await desk.press("down", "tab")
        await desk.until(lambda: desk.text == '@"docs/two words.md" ')


async def test_gitignored_files_are_not_completed(open_desk: OpenDesk, files: Path) -> None:
    async with open_desk() as desk:
        await desk.type("@app")
        await desk.until_shown("src/app.py")
        assert "app.log" not in desk.screen_text


async def test_escape_closes_the_list_and_keeps_the_text(open_desk: OpenDesk, files: Path) -> None:
    async with open_desk() as desk:
        await desk.type("@ap")
        await desk.until_shown("▌ src/app.py")
        assert desk.composer.escape(clears=True)
        await desk.until(lambda: "src/app.py" not in desk.screen_text)
        await desk.type("p")
        await desk.pilot.pause()
        assert not desk.composer.completing.is_open
        assert desk.text == "@app"


async def test_click_selects_an_item(open_desk: OpenDesk, files: Path) -> None:
    async with open_desk() as desk:
        await desk.type("@src/")
        await desk.until_shown("src/composer.py")
        row = next(
            number
            for number, line in enumerate(desk.screen_text.split("\n"))
            if "src/composer.py" in line
        )
        await desk.pilot.click(offset=(6, row))
        await desk.until(lambda: desk.text == "@src/composer.py ")


async def test_templates_are_completed_as_commands(open_desk: OpenDesk) -> None:
    async with open_desk() as desk:
        completer(desk).templates = [Template("review", "# Review\nLook at {{file}}.")]
        await desk.type("/rev")
        await desk.until_shown("▌ /review")
        await desk.press("enter")
        await desk.until(lambda: desk.composer.selected_text == "{{file}}")
        assert desk.text == "# Review\nLook at {{file}}."


@pytest.mark.slow
async def test_chat_is_attached_only_on_explicit_selection(open_desk: OpenDesk) -> None:
    async with open_desk() as desk:

        async def make() -> str | None:
            return desk.composer.chips.add("Kyoto", "the answer")

        async def find(query: str) -> list[CompletionItem]:
            return [CompletionItem("Kyoto with parents", "2 days ago", make=make)]

        completer(desk).find_chats = find
        await desk.type("as in #kyo")
        await desk.until_shown("Kyoto with parents")
        await desk.press("enter")
        await desk.until(lambda: desk.app.submitted)
        assert desk.app.submitted[0].text == "as in #kyo"
        await desk.type("#kyo")
        await desk.until_shown("Kyoto with parents")
        await desk.press("tab")
        await desk.until(lambda: desk.text == "[Kyoto #1]")


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (160, 45)])
async def test_completion_list_fits_every_screen(
    open_desk: OpenDesk, size: tuple[int, int]
) -> None:
    async with open_desk(size=size) as desk:
        await desk.type("/")
        await desk.until_shown("▌ /")
        lines = desk.screen_text.split("\n")
        first = next(number for number, line in enumerate(lines) if "▌ /" in line)
        assert first >= 0
        assert max(map(len, lines)) <= size[0]
        await desk.press("up")
        await desk.until(lambda: "▌ /" in desk.screen_text)


async def test_selected_command_runs_if_enter_inserts_newlines(open_desk: OpenDesk) -> None:
    async with open_desk() as desk:
        desk.composer.enter_sends = False
        await desk.type("/doc")
        await desk.until_shown("▌ /doctor")
        await desk.press("enter")
        await desk.until(lambda: desk.app.submitted)
        assert desk.app.submitted[0].text == "/doctor"
        assert desk.text == ""
