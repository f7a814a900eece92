"""Help, keys, settings and the doctor screen of the chat."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.tui.app.chat_screen import ChatScreen
from ingle.tui.commands.command_results import Done
from ingle.tui.commands.command_table import COMMANDS
from ingle.tui.features import program_feature
from ingle.tui.features.program_feature import ProgramFeature
from ingle.tui.screens.filtered_table import HelpScreen, Row
from ingle.tui.settings.chat_folders import ChatFolders
from ingle.tui.settings.preferences import Preferences, load_preferences
from ingle.tui.widgets.composer.composer import Composer

if TYPE_CHECKING:
    from ..conftest import FakeDaemon, OpenChat


@pytest.fixture
def folders(tmp_path: Path) -> ChatFolders:
    folders = ChatFolders(tmp_path / "chats", tmp_path / "config")
    folders.config.mkdir()
    return folders


@pytest.mark.slow
@pytest.mark.parametrize("size", [(60, 20), (80, 24), (160, 45)])
async def test_help_starts_with_the_focused_context(
    open_chat: OpenChat, size: tuple[int, int]
) -> None:
    async with open_chat(size=size) as chat:
        await chat.until_shown("on disk")
        await chat.pilot.press("f1")
        await chat.until_shown("Writing")
        assert "Send; while an answer runs" in chat.screen_text
        rows = [line for line in chat.screen_text.split("\n") if "ctrl+j   " in line]
        indent = rows[0].index("New line; also")
        below = chat.screen_text.split("\n")[chat.screen_text.split("\n").index(rows[0]) + 1]
        assert below[indent - 1] == " "
        assert below[indent] != " " or size[0] == 160
        await chat.pilot.press(*"attach")
        await chat.until_shown("Attach a file to the prompt")
        assert "/attach FILE" in chat.screen_text
        assert "Send; while" not in chat.screen_text
        await chat.pilot.press(*"zzz")
        await chat.until_shown("Nothing matches.")
        await chat.pilot.press("f1")
        await chat.until(lambda: "Nothing matches" not in chat.screen_text)
        assert chat.draft == ""


def test_text_behind_a_long_word_begins_on_the_next_line() -> None:
    lines = [
        line.plain for line in Row("esc", "/think off|on|low|medium", "How much").lines(60, 22)
    ]
    assert lines == ["esc".ljust(16) + "/think off|on|low|medium", " " * 38 + "How much"]


@pytest.mark.slow
async def test_help_lists_every_runnable_command(open_chat: OpenChat) -> None:
    async with open_chat(size=(120, 200)) as chat:
        await chat.until_shown("on disk")
        await chat.pilot.press("f1")
        await chat.until_shown("Writing")
        screen = chat.app.get_default_screen()
        assert isinstance(screen, ChatScreen)
        for command in COMMANDS:
            if command.slash is not None and command.is_listed and screen.can_run(command.name):
                assert command.usage in chat.screen_text


@pytest.mark.slow
async def test_custom_keys_run_commands(open_chat: OpenChat, folders: ChatFolders) -> None:
    (folders.config / "keys.toml").write_text('help = "f9"\ndoctor = "alt+d"\ncopy = ""\n')
    async with open_chat(folders=folders) as chat:
        await chat.until_shown("on disk")
        await chat.pilot.press("f1")
        await chat.pilot.press("f9")
        await chat.until_shown("Writing")
        await chat.pilot.press(*"leave", "escape")
        await chat.until(lambda: "Writing" not in chat.screen_text)
        await chat.pilot.press("alt+d")
        await chat.until_shown("versions")
        await chat.pilot.press("escape", "ctrl+p")
        await chat.pilot.press(*"doctor")
        await chat.until_shown("alt+d")


async def test_invalid_keys_are_reported(open_chat: OpenChat, folders: ChatFolders) -> None:
    (folders.config / "keys.toml").write_text('help = "ctrl+h"\nhepl = "f9"\n')
    async with open_chat(size=(120, 30), folders=folders) as chat:
        await chat.until_shown("ctrl+h is backspace for terminals")
        await chat.until_shown("There is no command 'hepl'")
        await chat.pilot.press("f1")
        await chat.until_shown("Writing")


@pytest.mark.slow
async def test_key_file_is_not_overwritten(open_chat: OpenChat, folders: ChatFolders) -> None:
    file = folders.config / "keys.toml"
    async with open_chat(size=(120, 40), folders=folders) as chat:
        await chat.until_shown("on disk")
        await chat.send("/keys")
        await chat.until_shown("ctrl+s writes")
        await chat.until(lambda: "compact" in chat.screen_text or "stop" in chat.screen_text)
        await chat.pilot.press("ctrl+s")
        await chat.until(file.exists)
        file.write_text("# mine\n")
        await chat.pilot.press("ctrl+s")
        await chat.until_shown("exists already")
        assert file.read_text() == "# mine\n"


@pytest.mark.slow
async def test_settings_take_effect_and_are_saved(
    open_chat: OpenChat, folders: ChatFolders
) -> None:
    async with open_chat(size=(100, 30), folders=folders) as chat:
        await chat.until_shown("on disk")
        await chat.pilot.press("f2")
        await chat.until_shown("Enter sends")
        await chat.pilot.press("down", "down", "right")
        await chat.until_shown("‹ off ›")
        await chat.until(lambda: not load_preferences(folders.config).enter_sends)
        await chat.pilot.press("up", "up", "right")
        await chat.until(lambda: load_preferences(folders.config).theme == chat.app.theme)
        await chat.pilot.press("escape")
        await chat.pilot.press("a", "enter", "b")
        await chat.until(lambda: chat.draft == "a\nb")


@pytest.mark.parametrize("size", [(60, 20), (160, 45)])
async def test_settings_fit_every_screen(open_chat: OpenChat, size: tuple[int, int]) -> None:
    async with open_chat(size=size) as chat:
        await chat.until_shown("on disk")
        await chat.pilot.press("f2")
        await chat.until_shown("Theme")
        await chat.until_shown("not saved")


@pytest.mark.slow
async def test_doctor_shows_and_copies_its_report(
    open_chat: OpenChat, folders: ChatFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.7 1 192.0.2.8 22")
    async with open_chat(size=(120, 45), folders=folders) as chat:
        await chat.until_shown("on disk")
        await chat.send("/doctor")
        await chat.until_shown("OSC 52")
        for word in ("versions", "terminal", "120 × 45", "SSH", "glyphs", "daemon", "chats"):
            assert word in chat.screen_text
        await chat.pilot.press("y")
        await chat.until(lambda: "glyphs" in chat.app.clipboard)
        assert "192.0.2" not in chat.app.clipboard
        await chat.pilot.resize_terminal(100, 40)
        await chat.until_shown("100 × 40")
        await chat.pilot.press("y")
        await chat.until(lambda: "100 × 40" in chat.app.clipboard)


async def test_doctor_shows_findings_of_the_daemon(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    finding = {
        "severity": "warning",
        "what": "llama.cpp was built without a GPU.",
        "mend": "Build it for CUDA:",
        "commands": ["CMAKE_ARGS=x pip install y"],
    }
    fake_daemon.doctor = {"findings": [finding], "fine": ["disk", "clock"]}
    async with open_chat(size=(120, 50)) as chat:
        await chat.until_shown("on disk")
        await chat.send("/doctor")
        await chat.until_shown("llama.cpp was built without a GPU. Build it for CUDA:")
        for words in ("CMAKE_ARGS=x pip install y", "disk, clock"):
            assert words in chat.screen_text
        await chat.pilot.press("y")
        await chat.until(lambda: "CMAKE_ARGS=x" in chat.app.clipboard)


@pytest.mark.slow
async def test_settings_change_the_display_of_messages(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script("Four.", thoughts=["two and two"])
    async with open_chat(size=(100, 40)) as chat:
        await chat.until_shown("on disk")
        await chat.send("what is two and two?")
        await chat.until_shown("Four.")
        await chat.until(lambda: re.search(r"you  \d\d:\d\d", chat.screen_text))
        assert chat.screen_text.count("two and two") == 2  # in the title and in the prompt
        await chat.pilot.press("f2")
        await chat.until_shown("Fold thoughts")
        await chat.pilot.press(*["down"] * 5, "right", "down", "right", "escape")
        await chat.until(lambda: not re.search(r"you  \d\d:\d\d", chat.screen_text))
        await chat.until(lambda: chat.screen_text.count("two and two") == 3)


async def test_hints_show_what_enter_does(open_chat: OpenChat) -> None:
    async with open_chat(preferences=Preferences(enter_sends=False)) as chat:
        await chat.until_shown("ctrl+j send · enter new line")
        await chat.pilot.press("a", "enter", "b")
        assert chat.draft == "a\nb"


@pytest.mark.slow
async def test_vim_keys_are_a_setting_and_in_the_help(open_chat: OpenChat) -> None:
    async with open_chat() as chat:
        await chat.until_shown("on disk")
        await chat.pilot.press("f2")
        await chat.until_shown("Vim keys")
        await chat.pilot.press(*["down"] * 3, "right", "escape")
        await chat.pilot.press("a", "b", "escape", "x")
        await chat.until_shown("NORMAL")
        assert chat.draft == "a"
        assert chat.transcript.has_vim_keys
        await chat.pilot.press("f1")
        await chat.until_shown("normal mode; enter sends")


async def test_help_for_a_block_returns_to_the_draft(open_chat: OpenChat) -> None:
    async with open_chat(size=(100, 30)) as chat:
        await chat.until_shown("on disk")
        await chat.send("hello")
        await chat.until_shown("Hello there.")
        await chat.pilot.press(*"draft", "alt+up")
        await chat.until(lambda: chat.transcript.has_focus)
        await chat.pilot.press("f1")
        await chat.until_shown("A block of the chat")
        await chat.pilot.press("f1")
        await chat.pilot.press("escape")
        await chat.until(lambda: chat.app.query_one(Composer).has_focus)
        assert chat.draft == "draft"


@pytest.mark.slow
async def test_help_in_a_dialog_is_about_the_dialog(open_chat: OpenChat) -> None:
    async with open_chat(size=(100, 40)) as chat:
        await chat.pilot.press("f2")
        await chat.until_shown("Settings")
        await chat.pilot.press("f1")
        await chat.until(lambda: isinstance(chat.app.screen, HelpScreen))
        await chat.until_shown("Close")
        await chat.pilot.press("escape")
        await chat.until_shown("Settings")


async def test_settings_changed_in_quick_succession_are_all_saved(
    open_chat: OpenChat, tmp_path: Path
) -> None:
    folders = ChatFolders(tmp_path / "chats", tmp_path / "config")
    async with open_chat(folders=folders) as chat:
        program = chat.screen.feature(ProgramFeature)
        values = {"theme": "ingle-light", "times": False, "gauges": False, "motion": False}
        for name, value in values.items():
            program._change(name, value)  # pyright: ignore[reportPrivateUsage]
        wanted = Preferences(theme="ingle-light", times=False, gauges=False, motion=False)
        await chat.until(lambda: load_preferences(folders.config) == wanted)


@pytest.mark.parametrize(
    ("focused", "seconds", "told"), [(False, 0, 1), (True, 0, 0), (False, 99, 0)]
)
async def test_end_of_a_long_answer_is_reported_to_an_unfocused_terminal(
    open_chat: OpenChat,
    fake_daemon: FakeDaemon,
    monkeypatch: pytest.MonkeyPatch,
    focused: bool,
    seconds: float,
    told: int,
) -> None:
    written: list[str] = []
    monkeypatch.setattr(program_feature, "LONG_ANSWER", seconds)
    async with open_chat() as chat:
        driver = chat.app._driver  # pyright: ignore[reportPrivateUsage]
        assert driver is not None
        monkeypatch.setattr(driver, "write", written.append)
        fake_daemon.script("Hello ", "there.", gate_before=1)
        await chat.send("Hi")
        await chat.until_shown("Hello")
        chat.app.app_focus = focused
        fake_daemon.gate.set()
        await chat.until_shown("Hello there.")
        await chat.until(lambda: chat.screen.turn is None)
    assert sum("The answer is complete." in text for text in written) == told


async def test_theme_list_shows_each_theme_and_keeps_the_chosen_one(
    open_chat: OpenChat, folders: ChatFolders
) -> None:
    async with open_chat(size=(100, 40), folders=folders) as chat:
        await chat.until_shown("on disk")
        chat.screen.run_command("theme")
        await chat.until_shown("Themes")
        await chat.pilot.press(*"contrast-l")
        await chat.until(lambda: chat.app.theme == "ingle-contrast-light")
        await chat.pilot.press("escape")
        await chat.until(lambda: chat.app.theme == "ingle")
        assert load_preferences(folders.config).theme == ""
        chat.screen.run_command("theme")
        await chat.until_shown("Themes")
        await chat.pilot.press("down", "enter")
        await chat.until(lambda: load_preferences(folders.config).theme == "ingle-light")


async def test_command_list_runs_the_chosen_command(open_chat: OpenChat) -> None:
    async with open_chat(size=(100, 40)) as chat:
        await chat.until_shown("on disk")
        await chat.pilot.press("ctrl+p")
        await chat.until_shown("enter runs it")
        await chat.pilot.press(*"settings")
        await chat.until_shown("Show and change the settings")
        await chat.pilot.press("enter")
        await chat.until_shown("Compact at")


async def test_progress_is_shown_until_the_command_ends(open_chat: OpenChat) -> None:
    async with open_chat() as chat:
        ended = asyncio.Event()

        async def command() -> Done:
            chat.screen.front.progress("Reading notes")
            await ended.wait()
            return Done("")

        chat.screen.run_worker(chat.screen.present(command()))
        await chat.until_notified("Reading notes")
        ended.set()
        await chat.until(lambda: not chat.notification_text)
        await chat.until(lambda: not chat.screen.query("ToastHolder"))
