"""A transcript without a chat around it, and looks for pure rendering."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from rich.style import Style
from textual import on
from textual.app import App, ComposeResult
from textual.pilot import Pilot

import ingle.tui
from ingle.tui.settings.themes import EMBER, FALLBACK_VARIABLES
from ingle.tui.transcript.entries.entry import Entry, RenderOptions
from ingle.tui.transcript.lines import TranscriptStyles
from ingle.tui.transcript.view.transcript import Transcript


class TranscriptApp(App[None]):
    """Nothing but a transcript."""

    CSS_PATH = Path(ingle.tui.__path__[0]) / "app" / "app.tcss"

    def __init__(self) -> None:
        super().__init__()
        self.register_theme(EMBER)
        self.theme = EMBER.name
        self.new_lines: list[Transcript.NewLines] = []
        self.block_actions: list[Transcript.BlockAction] = []
        self.links: list[str] = []

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return FALLBACK_VARIABLES

    def compose(self) -> ComposeResult:
        yield Transcript()

    @on(Transcript.NewLines)
    def hear(self, event: Transcript.NewLines) -> None:
        """Take note of what the screen would say."""
        self.new_lines.append(event)

    @on(Transcript.BlockAction)
    def hear_action(self, event: Transcript.BlockAction) -> None:
        """Take note of what the screen would do."""
        self.block_actions.append(event)

    @on(Transcript.LinkClicked)
    def hear_link(self, event: Transcript.LinkClicked) -> None:
        """Take note of what the screen would open."""
        self.links.append(event.address)


class Shown:
    """A transcript on a screen, and its reader."""

    def __init__(self, app: TranscriptApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot
        self.transcript = app.query_one(Transcript)

    @property
    def screen_lines(self) -> list[str]:
        strips = self.app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]
        # The last column belongs to the scroll bar.
        return [strip.text[:-1].rstrip() for strip in strips]

    @property
    def screen_text(self) -> str:
        return "\n".join(self.screen_lines)

    async def until(self, condition: Callable[[], object], seconds: float = 10.0) -> None:
        """Let the app run until `condition` holds; fails with the screen when it never does."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not condition():
            if loop.time() > deadline:
                pytest.fail(f"never came true; the screen:\n{self.screen_text}")
            await self.pilot.pause(0.005)
        await self.pilot.pause()

    async def until_shown(self, text: str) -> None:
        """Let the app run until `text` is on the screen."""
        await self.until(lambda: text in self.screen_text)


OpenTranscript = Callable[..., AbstractAsyncContextManager[Shown]]


@pytest.fixture
def open_transcript() -> OpenTranscript:
    """`async with open_transcript(*entries, size=(80, 24)) as shown`."""

    @asynccontextmanager
    async def opened(
        *entries: Entry, size: tuple[int, int] = (80, 24), **options: Any
    ) -> AsyncGenerator[Shown]:
        app = TranscriptApp()
        async with app.run_test(size=size) as pilot:
            shown = Shown(app, pilot)
            if entries:
                shown.transcript.load(entries, **options)
                await pilot.pause()
            yield shown

    return opened


@pytest.fixture(scope="session")
def styles() -> TranscriptStyles:
    """Styles that can be told from one another."""
    names = [field.name for field in fields(TranscriptStyles)]
    return TranscriptStyles(
        **{name: Style(color=f"color({number + 1})") for number, name in enumerate(names)}
    )


ShowLines = Callable[..., list[str]]


@pytest.fixture
def show(styles: TranscriptStyles) -> ShowLines:
    """`show(entry, width=60)`: the text of its lines without the space at their ends."""

    def shown(entry: Entry, width: int = 60) -> list[str]:
        return [line.text.rstrip() for line in entry.lines(RenderOptions(styles, width))]

    return shown
