"""`FindFeature`: find words in this chat."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Input, Static

from ...transcript.view.transcript_search import TextSearch
from ..feature import Feature, Handler

WORK = 0.004
"""Seconds of searching after which keys are handled."""


class FindBar(Horizontal):
    """One line; enter or down goes to the next hit, shift+enter or up to the one before."""

    DEFAULT_CSS = """
    FindBar { height: 1; padding: 0 2; background: $surface; }
    FindBar > .find-label { width: auto; padding-right: 1; color: $primary; }
    FindBar > .find-count { width: auto; min-width: 14; text-align: right; color: $muted; }
    FindBar > Input {
        width: 1fr; height: 1; border: none; padding: 0 1; background: $surface;
        &:focus { border: none; background-tint: transparent; }
    }
    """
    STEPS: ClassVar[dict[str, int]] = {"enter": 1, "down": 1, "shift+enter": -1, "up": -1}

    def __init__(self, finder: FindFeature, text: str = "") -> None:
        super().__init__()
        self._finder = finder
        self._text = text

    def compose(self) -> ComposeResult:
        yield Static("find", classes="find-label")
        yield Input(self._text, compact=True, select_on_focus=False)
        yield Static("", classes="find-count", markup=False)

    def on_mount(self) -> None:
        """Be ready to type."""
        self.query_one(Input).focus()

    def ask(self, text: str) -> None:
        """Take the keyboard again, with something else to look for unless `text` is ""."""
        field = self.query_one(Input)
        if text:
            field.value = text
        field.focus()

    def tell(self, number: int | None, total: int) -> None:
        """Show which of how many hits is marked, counted from one."""
        words = Content("")
        if number is not None:
            words = Content(f"{number} of {total:,}".replace(",", " "))
        elif self.query_one(Input).value:
            words = Content("not in this chat").stylize("$warning")
        self.query_one(".find-count", Static).update(words)

    @on(Input.Changed)
    def changed(self, event: Input.Changed) -> None:
        """Search while the user types."""
        event.stop()
        self._finder.changed(event.value)

    def on_key(self, event: events.Key) -> None:
        """Walk the hits."""
        if event.key == "escape":
            self._finder.close()
        elif event.key in self.STEPS:
            self._finder.move(self.STEPS[event.key])
        else:
            return
        event.stop()
        event.prevent_default()

    @on(Input.Submitted)
    def submitted(self, event: Input.Submitted) -> None:
        """Enter is a key of the field, too."""
        event.stop()
        self._finder.move(1)


class FindFeature(Feature):
    """Searches while the user types; the view goes to the hit next to what is on the screen."""

    _bar: FindBar | None = None
    _search: TextSearch | None = None
    _number: int | None = None
    _sought = 0

    def handlers(self) -> Mapping[str, Handler]:
        return {"find": self.open}

    def on_chat_opened(self) -> None:
        self.close()

    def open(self, text: str) -> None:
        """Show the line to type in; with `text` it is looked for at once."""
        if self._bar is not None:
            self._bar.ask(text)
            return
        transcript = self.host.transcript
        transcript.leave_blocks()
        self._bar = FindBar(self, text)
        self._bar.styles.padding = (0, 1, 0, transcript.margin)
        self.host.mount(self._bar, after="#main")

    def on_first_escape(self) -> bool:
        return self.close()

    def close(self) -> bool:
        """Take the line away, and leave the view where it is; whether the line was there."""
        if self._bar is None:
            return False
        bar, self._bar = self._bar, None
        self._search = self._number = None
        self._sought += 1
        bar.remove()
        self.host.transcript.mark("")
        self.host.composer.focus()
        return True

    def changed(self, text: str) -> None:
        """Look for something else; what was looked for before is given up."""
        self._sought += 1
        self.host.run_worker(self._look(text, self._sought), group="find")

    def move(self, step: int) -> None:
        """Go to the next hit or the one before, round the end."""
        search = self._search
        if search is None or self._number is None:
            return
        self._number = (self._number + step) % search.total
        self._show()

    async def _look(self, text: str, sought: int) -> None:
        search = self._search
        if search is None or not search.covers(self.host.transcript.entries):
            search = self._search = TextSearch(self.host.transcript.entries)
        until = time.monotonic() + WORK
        for _ in search.steps(text.strip()):
            if time.monotonic() > until:
                await asyncio.sleep(0)
                if sought != self._sought:
                    return
                until = time.monotonic() + WORK
        if sought == self._sought and self._bar is not None:
            self._number = self._start(search)
            self._show()

    def _start(self, search: TextSearch) -> int | None:
        """The hit to begin with: the marked one's, else the first that is below the view's top."""
        transcript = self.host.transcript
        if not search.total:
            return None
        if transcript.following:
            return search.total - 1
        return search.first_from(transcript.first_in_view)

    def _show(self) -> None:
        search, bar, transcript = self._search, self._bar, self.host.transcript
        if search is None or bar is None:
            return
        if self._number is None:
            transcript.mark("")
            bar.tell(None, 0)
            return
        entry, place = search.locate(self._number)
        transcript.mark(search.query, (entry, place))
        transcript.show_hit(entry, place)
        bar.tell(self._number + 1, search.total)
