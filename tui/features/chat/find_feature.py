"""`FindFeature`: find words in this chat."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Input, Static

from ...transcript.entries.entry import Entry
from ...transcript.view.transcript import Transcript
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

    def __init__(self, transcript: Transcript, close: Callable[[], object], text: str) -> None:
        super().__init__()
        self._transcript = transcript
        self._close = close
        self.styles.padding = (0, 1, 0, transcript.margin)
        self._text = text
        self._search: TextSearch | None = None
        self._number: int | None = None
        self._start = self._place()

    def compose(self) -> ComposeResult:
        yield Static("find", classes="find-label")
        yield Input(self._text, compact=True, select_on_focus=False)
        yield Static("", classes="find-count", markup=False)

    def on_mount(self) -> None:
        """Focus the field."""
        self.query_one(Input).focus()

    def ask(self, text: str) -> None:
        """Focus the field again, with `text` as the new query unless it is ""."""
        field = self.query_one(Input)
        if text:
            field.value = text
        field.focus()
        self._start = self._place()

    def _place(self) -> Entry | None:
        """The first entry in view; None at the newest text, where the last hit is the nearest."""
        return None if self._transcript.following else self._transcript.first_in_view

    @on(Input.Changed)
    def changed(self, event: Input.Changed) -> None:
        """Search while the user types; the search before is given up."""
        event.stop()
        self.run_worker(self._look(event.value), group="find", exclusive=True)

    def on_key(self, event: events.Key) -> None:
        """Walk the hits."""
        if event.key == "escape":
            self._close()
        elif event.key in self.STEPS:
            self._move(self.STEPS[event.key])
        else:
            return
        event.stop()
        event.prevent_default()

    @on(Input.Submitted)
    def submitted(self, event: Input.Submitted) -> None:
        """Go to the next hit."""
        event.stop()
        self._move(1)

    def _move(self, step: int) -> None:
        """Go to the next hit or the one before, wrapping around."""
        if self._search is not None and self._number is not None:
            self._number = (self._number + step) % self._search.total
            self._show(self._search)
            self._start = self._place()

    async def _look(self, text: str) -> None:
        transcript, search = self._transcript, self._search
        if search is None or not search.covers(transcript.entries):
            search = self._search = TextSearch(transcript.entries)
        until = time.monotonic() + WORK
        for _ in search.steps(text.strip()):
            if time.monotonic() > until:
                await asyncio.sleep(0)
                until = time.monotonic() + WORK
        if not search.total:
            self._number = None
        elif self._start is None:  # as before the first letter, whose hit has moved the view
            self._number = search.total - 1
        else:
            self._number = search.first_from(self._start)
        self._show(search)

    def _show(self, search: TextSearch) -> None:
        """Mark the hit, and show its number, counted from one."""
        transcript, words = self._transcript, Content("")
        if self._number is not None:
            entry, place = search.locate(self._number)
            transcript.mark(search.query, (entry, place))
            transcript.show_hit(entry, place)
            words = Content(f"{self._number + 1} of {search.total:,}".replace(",", " "))
        else:
            transcript.mark("")
            if self.query_one(Input).value:
                words = Content("not in this chat").stylize("$warning")
        self.query_one(".find-count", Static).update(words)


class FindFeature(Feature):
    """Searches while the user types; the view moves to the nearest hit."""

    _bar: FindBar | None = None

    def handlers(self) -> Mapping[str, Handler]:
        return {"find": self.open}

    def on_chat_opened(self) -> None:
        self.close()

    def open(self, text: str) -> None:
        """Show the find bar, or focus it; search for `text` at once."""
        if self._bar is not None:
            self._bar.ask(text)
            return
        transcript = self.host.transcript
        transcript.leave_blocks()
        self._bar = FindBar(transcript, self.close, text)
        self.host.mount(self._bar, after="#main")

    def on_first_escape(self) -> bool:
        return self.close()

    def close(self) -> bool:
        """Remove the find bar and leave the view where it is; return whether there was one."""
        if self._bar is None:
            return False
        bar, self._bar = self._bar, None
        bar.workers.cancel_node(bar)  # pyright: ignore[reportUnknownMemberType]
        bar.remove()
        self.host.transcript.mark("")
        self.host.composer.focus()
        return True
