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
    """Keeps what was painted of its first line."""

    painted: str = ""

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        if y == 0:
            self.painted = strip.text
        return strip


class Scenery(Widget):
    """What else there is to see."""


class Still(PromptScreen[None]):
    """The clock that paints can be stopped."""

    stopped: bool = False

    @property
    def waiting(self) -> set[Widget]:
        """What is not painted yet."""
        return set(self._dirty_widgets)

    def compose(self) -> ComposeResult:
        yield Scenery()
        yield Editor()

    @property
    def typed_in(self) -> Editor:
        return self.query_one(Editor)

    def _on_timer_update(self) -> None:
        if not self.stopped:
            super()._on_timer_update()


class TypingApp(App[None]):
    CSS = "Scenery, Editor { height: 5; }"

    def get_default_screen(self) -> Screen[None]:
        return Still()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


async def test_what_is_typed_does_not_wait_for_the_clock() -> None:
    app = TypingApp()
    async with app.run_test(size=(40, 12)) as pilot:
        screen = app.screen
        assert isinstance(screen, Still)
        editor, scenery = screen.query_one(Editor), screen.query_one(Scenery)
        editor.focus()
        await pilot.pause()
        screen.stopped = True
        scenery.refresh()
        await until(lambda: screen.waiting == {scenery})
        await pilot.press("h", "i")
        await until(lambda: editor.painted.startswith("hi"))
        assert screen.waiting == {scenery}
        screen.stopped = False
        await pilot.press("!")
        await until(lambda: not screen.waiting)


async def test_what_grows_is_painted_where_it_will_be() -> None:
    class GrowingApp(TypingApp):
        CSS = "Scenery { height: 5; } Editor { height: auto; }"

    app = GrowingApp()
    async with app.run_test(size=(40, 12)) as pilot:
        screen = app.screen
        assert isinstance(screen, Still)
        editor = screen.query_one(Editor)
        editor.focus()
        await pilot.press("h", "i")
        await until(lambda: editor.painted.startswith("hi"))
        screen.stopped = True
        await pilot.press("enter", "y")
        await until(lambda: screen.waiting)
        assert editor.painted.startswith("hi")
        screen.stopped = False
        await pilot.press("o")
        await until(lambda: not screen.waiting)
        assert editor.painted.startswith("hi")
        assert editor.size.height == 2


@pytest.mark.slow
async def test_a_batch_and_a_covered_screen_keep_it_for_later() -> None:
    app = TypingApp()
    async with app.run_test(size=(40, 12)) as pilot:
        screen = app.screen
        assert isinstance(screen, Still)
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


async def test_a_screen_without_a_place_to_type_in_paints_as_any_other() -> None:
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
