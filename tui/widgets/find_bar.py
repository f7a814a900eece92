"""`FindBar`: the words to find in this chat, and the number of hits."""

from __future__ import annotations

from typing import ClassVar, Protocol

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Input, Static


class Finder(Protocol):
    """Who looks."""

    def changed(self, text: str) -> None:
        """Another word is looked for."""
        ...

    def move(self, step: int) -> None:
        """The reader wants the next hit (1) or the one before (-1)."""
        ...

    def close(self) -> object:
        """The reader is done."""
        ...


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

    def __init__(self, finder: Finder, text: str = "") -> None:
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
