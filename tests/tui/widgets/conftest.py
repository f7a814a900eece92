"""Fixtures for widgets: an app with only a composer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Static

from ingle.tui.settings.themes import FALLBACK_VARIABLES
from ingle.tui.widgets.composer.completer import Completer
from ingle.tui.widgets.composer.composer import Composer


class ComposerScreen(Screen[None]):
    """Records the commands that the composer runs."""

    def __init__(self) -> None:
        super().__init__()
        self.commands: list[str] = []

    def action_command(self, name: str) -> None:
        self.commands.append(name)


class ComposerApp(App[None]):
    """Records submitted prompts and clears the composer, as the chat does."""

    CSS_PATH = str(Path(__file__).parents[3] / "tui" / "app" / "app.tcss")

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.submitted: list[Composer.Submitted] = []
        self.command_screen = ComposerScreen()

    def get_default_screen(self) -> ComposerScreen:
        return self.command_screen

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return FALLBACK_VARIABLES

    def compose(self) -> ComposeResult:
        yield Static(id="main")
        with Vertical(id="dock"):
            yield Composer(id="composer")

    def on_mount(self) -> None:
        composer = self.query_one(Composer)
        composer.folder = self.folder
        composer.take_draft = self.record
        composer.completing.completer = Completer(self.folder, lambda _: True)
        composer.focus()

    def record(self, draft: Composer.Submitted) -> None:
        self.submitted.append(draft)
        composer = self.query_one(Composer)
        composer.remember(draft.text)
        composer.clear_sent()


class ComposerHarness:
    """The app and its keyboard."""

    def __init__(self, app: ComposerApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot
        self.composer = app.query_one(Composer)

    @property
    def text(self) -> str:
        return self.composer.text

    @property
    def screen_text(self) -> str:
        lines = self.app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]
        return "\n".join(strip.text.rstrip() for strip in lines)

    async def until(self, condition: Callable[[], object], seconds: float = 10.0) -> None:
        """Let the app run until `condition` holds; fails with the screen after a timeout."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not condition():
            if loop.time() > deadline:
                pytest.fail(f"timed out; the screen:\n{self.screen_text}")
            await self.pilot.pause(0.005)
        await self.pilot.pause()

    async def until_shown(self, text: str) -> None:
        await self.until(lambda: text in self.screen_text)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def type(self, text: str) -> None:
        """Press the keys of a text."""
        names = {" ": "space", "\n": "ctrl+j"}
        await self.pilot.press(*(names.get(letter, letter) for letter in text))

    async def paste(self, text: str) -> None:
        """Paste a text, like the terminal."""
        self.composer.post_message(events.Paste(text))
        await self.pilot.pause()


OpenComposer = Callable[..., AbstractAsyncContextManager[ComposerHarness]]


@pytest.fixture
def open_composer(tmp_path: Path) -> OpenComposer:
    """`async with open_composer(size=(80, 24)) as harness`; files are in `tmp_path`."""

    @asynccontextmanager
    async def opened(size: tuple[int, int] = (80, 24)) -> AsyncGenerator[ComposerHarness]:
        app = ComposerApp(tmp_path)
        async with app.run_test(size=size, notifications=True) as pilot:
            yield ComposerHarness(app, pilot)

    return opened
