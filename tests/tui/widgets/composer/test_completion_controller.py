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
    from ..conftest import ComposerHarness, OpenComposer


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name in ("src/app.py", "src/composer.py", "docs/two words.md", "ignored/app.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / ".gitignore").write_text("ignored\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def completer(harness: ComposerHarness) -> Completer:
    found = harness.composer.completing.completer
    assert found is not None
    return found


async def test_commands_are_completed_with_their_arguments(open_composer: OpenComposer) -> None:
    async with open_composer() as harness:
        await harness.type("/comp")
        await harness.until_shown("▌ /compare NAME")
        await harness.press("down")
        await harness.until_shown("▌ /compact FOCUS")
        assert "Summarise earlier messages" in harness.screen_text
        await harness.press("tab")
        assert harness.text == "/compact "
        await harness.until(lambda: not harness.composer.completing.is_open)


async def test_enter_sends_a_command_without_arguments(open_composer: OpenComposer) -> None:
    async with open_composer() as harness:
        await harness.type("/doc")
        await harness.until_shown("▌ /doctor")
        await harness.press("enter")
        await harness.until(lambda: harness.app.submitted)
        assert harness.app.submitted[0].text == "/doctor"


async def test_enter_sends_a_fully_typed_command(open_composer: OpenComposer) -> None:
    async with open_composer() as harness:
        await harness.type("/model")
        await harness.until_shown("▌ /model NAME")
        await harness.press("enter")
        await harness.until(lambda: harness.app.submitted)
        assert harness.app.submitted[0].text == "/model"


async def test_enter_sends_type_ahead_not_the_outdated_item(open_composer: OpenComposer) -> None:
    async with open_composer() as harness:
        await harness.type("/ke")
        await harness.until_shown("▌ /keep")
        for key in ("y", "s", "enter"):  # at once, as terminals deliver type-ahead
            harness.composer.post_message(events.Key(key, key if len(key) == 1 else None))
        await harness.until(lambda: harness.app.submitted)
        assert harness.app.submitted[0].text == "/keys"


@pytest.mark.slow
async def test_file_is_found_by_fuzzy_match(open_composer: OpenComposer, files: Path) -> None:
    async with open_composer() as harness:
        await harness.type("explain @comp")
        await harness.until_shown("▌ src/composer.py")
        await harness.press("enter")
        assert harness.text == "explain @src/composer.py "
        await harness.until_shown("+ src/composer.py (15 B)")
        await harness.press("enter")
        await harness.until(lambda: harness.app.submitted)
        assert [a.text for a in harness.app.submitted[0].attachments] == ["src/composer.py"]


async def test_completion_descends_into_folders(open_composer: OpenComposer, files: Path) -> None:
    async with open_composer() as harness:
        await harness.type("@docs/")
        await harness.until_shown("docs/two words.md")
        await harness.press("down", "tab")
        await harness.until(lambda: harness.text == '@"docs/two words.md" ')


async def test_gitignored_files_are_not_completed(open_composer: OpenComposer, files: Path) -> None:
    async with open_composer() as harness:
        await harness.type("@app")
        await harness.until_shown("src/app.py")
        assert "app.log" not in harness.screen_text


async def test_escape_closes_the_list_and_keeps_the_text(
    open_composer: OpenComposer, files: Path
) -> None:
    async with open_composer() as harness:
        await harness.type("@ap")
        await harness.until_shown("▌ src/app.py")
        assert harness.composer.escape(clears=True)
        await harness.until(lambda: "src/app.py" not in harness.screen_text)
        await harness.type("p")
        await harness.pilot.pause()
        assert not harness.composer.completing.is_open
        assert harness.text == "@app"


async def test_click_selects_an_item(open_composer: OpenComposer, files: Path) -> None:
    async with open_composer() as harness:
        await harness.type("@src/")
        await harness.until_shown("src/composer.py")
        row = next(
            number
            for number, line in enumerate(harness.screen_text.split("\n"))
            if "src/composer.py" in line
        )
        await harness.pilot.click(offset=(6, row))
        await harness.until(lambda: harness.text == "@src/composer.py ")


async def test_templates_are_completed_as_commands(open_composer: OpenComposer) -> None:
    async with open_composer() as harness:
        completer(harness).templates = [Template("review", "# Review\nLook at {{file}}.")]
        await harness.type("/rev")
        await harness.until_shown("▌ /review")
        await harness.press("enter")
        await harness.until(lambda: harness.composer.selected_text == "{{file}}")
        assert harness.text == "# Review\nLook at {{file}}."


@pytest.mark.slow
async def test_chat_is_attached_only_on_explicit_selection(open_composer: OpenComposer) -> None:
    async with open_composer() as harness:

        async def make() -> str | None:
            return harness.composer.chips.add("Kyoto", "the answer")

        async def find(query: str) -> list[CompletionItem]:
            return [CompletionItem("Kyoto with parents", "2 days ago", make=make)]

        completer(harness).find_chats = find
        await harness.type("as in #kyo")
        await harness.until_shown("Kyoto with parents")
        await harness.press("enter")
        await harness.until(lambda: harness.app.submitted)
        assert harness.app.submitted[0].text == "as in #kyo"
        await harness.type("#kyo")
        await harness.until_shown("Kyoto with parents")
        await harness.press("tab")
        await harness.until(lambda: harness.text == "[Kyoto]")


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (160, 45)])
async def test_completion_list_fits_every_screen(
    open_composer: OpenComposer, size: tuple[int, int]
) -> None:
    async with open_composer(size=size) as harness:
        await harness.type("/")
        await harness.until_shown("▌ /")
        lines = harness.screen_text.split("\n")
        assert max(map(len, lines)) <= size[0]
        await harness.press("up")
        await harness.until(lambda: "▌ /" in harness.screen_text)


async def test_selected_command_runs_if_enter_inserts_newlines(open_composer: OpenComposer) -> None:
    async with open_composer() as harness:
        harness.composer.enter_sends = False
        await harness.type("/doc")
        await harness.until_shown("▌ /doctor")
        await harness.press("enter")
        await harness.until(lambda: harness.app.submitted)
        assert harness.app.submitted[0].text == "/doctor"
        assert harness.text == ""
