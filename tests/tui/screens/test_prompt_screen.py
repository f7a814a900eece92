"""The prompt screen: immediate repaint of the focused editor, ahead of the screen's timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from textual.app import App, ComposeResult
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static, TextArea

from ingle.tui.screens.prompt_screen import PromptScreen


class Editor(TextArea):
    """Records the text painted in its first line."""

    painted: str = ""

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        if y == 0:
            self.painted = strip.text
        return strip


class OtherWidget(Widget):
    """Another widget on the screen."""


class StoppableScreen(PromptScreen[None]):
    """A prompt screen whose repaint timer can be stopped."""

    stopped: bool = False

    @property
    def dirty(self) -> set[Widget]:
        """The widgets that are not repainted yet."""
        return set(self._dirty_widgets)

    def compose(self) -> ComposeResult:
        yield OtherWidget()
        yield Editor()

    @property
    def typed_in(self) -> Editor:
        return self.query_one(Editor)

    def _on_timer_update(self) -> None:
        if not self.stopped:
            super()._on_timer_update()


class TypingApp(App[None]):
    CSS = "OtherWidget, Editor { height: 5; }"

    def get_default_screen(self) -> Screen[None]:
        return StoppableScreen()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


async def test_typed_text_is_painted_without_waiting_for_the_timer() -> None:
    app = TypingApp()
    async with app.run_test(size=(40, 12)) as pilot:
        screen = app.screen
        assert isinstance(screen, StoppableScreen)
        editor, other_widget = screen.query_one(Editor), screen.query_one(OtherWidget)
        editor.focus()
        await pilot.pause()
        screen.stopped = True
        other_widget.refresh()
        await until(lambda: screen.dirty == {other_widget})
        await pilot.press("h", "i")
        await until(lambda: editor.painted.startswith("hi"))
        assert screen.dirty == {other_widget}
        screen.stopped = False
        await pilot.press("!")
        await until(lambda: not screen.dirty)


async def test_growing_editor_is_painted_after_its_layout() -> None:
    class GrowingApp(TypingApp):
        CSS = "OtherWidget {  height: 5; } Editor { height: auto; }"

    app = GrowingApp()
    async with app.run_test(size=(40, 12)) as pilot:
        screen = app.screen
        assert isinstance(screen, StoppableScreen)
        editor = screen.query_one(Editor)
        editor.focus()
        await pilot.press("h", "i")
        await until(lambda: editor.painted.startswith("hi"))
        screen.stopped = True
        await pilot.press("enter", "y")
        await until(lambda: screen.dirty)
        assert editor.painted.startswith("hi")
        screen.stopped = False
        await pilot.press("o")
        await until(lambda: not screen.dirty)
        assert editor.painted.startswith("hi")
        assert editor.size.height == 2


@pytest.mark.slow
async def test_batched_and_covered_screens_are_painted_later() -> None:
    app = TypingApp()
    async with app.run_test(size=(40, 12)) as pilot:
        screen = app.screen
        assert isinstance(screen, StoppableScreen)
        editor = screen.query_one(Editor)
        await pilot.pause()
        with app.batch_update():
            editor.text = "in a batch"
            await asyncio.sleep(0.05)
            assert "batch" not in editor.painted
        await until(lambda: editor.painted.startswith("in a batch"))
        await app.push_screen(Cover())
        editor.text = "covered"
        await pilot.pause()
        await app.pop_screen()
        await until(lambda: editor.painted.startswith("covered"))


class Cover(Screen[None]):
    def compose(self) -> ComposeResult:
        yield Static("over it")


async def test_screen_without_editor_paints_normally() -> None:
    class Plain(PromptScreen[None]):
        def compose(self) -> ComposeResult:
            yield Editor()

    class PlainApp(App[None]):
        def get_default_screen(self) -> Screen[None]:
            return Plain()

    app = PlainApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.screen.query_one(Editor).focus()
        await pilot.press("h", "i")
        await until(lambda: app.screen.query_one(Editor).painted.startswith("hi"))
