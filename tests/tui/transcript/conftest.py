"""Fixtures for the transcript: an app with only a transcript, and styles for rendering."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
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
    """An app with only a transcript."""

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
    def record_new_lines(self, event: Transcript.NewLines) -> None:
        """Record the notices of new lines."""
        self.new_lines.append(event)

    @on(Transcript.BlockAction)
    def record_action(self, event: Transcript.BlockAction) -> None:
        """Record the actions on blocks."""
        self.block_actions.append(event)

    @on(Transcript.LinkClicked)
    def record_link(self, event: Transcript.LinkClicked) -> None:
        """Record the addresses of clicked links."""
        self.links.append(event.address)


class Shown:
    """A transcript on a screen, with its keyboard and mouse."""

    def __init__(self, app: TranscriptApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot
        self.transcript = app.query_one(Transcript)

    @property
    def screen_lines(self) -> list[str]:
        strips = self.app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]
        # The last column is the scroll bar.
        return [strip.text[:-1].rstrip() for strip in strips]

    @property
    def screen_text(self) -> str:
        return "\n".join(self.screen_lines)

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
    """Styles that are all different."""
    names = TranscriptStyles.__struct_fields__
    return TranscriptStyles(
        **{name: Style(color=f"color({number + 1})") for number, name in enumerate(names)}
    )


ShowLines = Callable[..., list[str]]


@pytest.fixture
def show(styles: TranscriptStyles) -> ShowLines:
    """`show(entry, width=60)`: the text of its lines without trailing spaces."""

    def shown(entry: Entry, width: int = 60) -> list[str]:
        return [line.text.rstrip() for line in entry.lines(RenderOptions(styles, width))]

    return shown
