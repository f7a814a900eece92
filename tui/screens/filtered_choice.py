"""`FilteredChoice`: lines to choose from, which typing filters: the commands, the themes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from .dialog import Dialog

NAME_WIDTH = 20
KEY_WIDTH = 10


class ChoiceLine(NamedTuple):
    """A value, with its name, a description and its key, "" without one."""

    value: str
    name: str
    text: str
    key: str = ""

    def fits(self, typed: str) -> bool:
        """Whether it contains every typed word."""
        whole = f"{self.name} {self.value} {self.text}".lower()
        return all(part in whole for part in typed.lower().split())

    def line(self, width: int) -> Content:
        """The columns in `width` cells; the description is cut, and the key is at the end."""
        room = max(0, width - NAME_WIDTH - KEY_WIDTH)
        text = Content(self.text).truncate(room, ellipsis=True, pad=True)
        name = Content(self.name).truncate(NAME_WIDTH, ellipsis=True, pad=True)
        key = Content(self.key.rjust(KEY_WIDTH)).stylize("$secondary")
        return Content.assemble(name, text.stylize("$muted"), key).truncate(width)


class FilteredChoice(Dialog[str | None]):
    """Ends with the value of the chosen line, or None; calls `highlighted` for each on the way."""

    DEFAULT_CSS = """
    FilteredChoice Input {
        border: none; height: 1; padding: 0; background: $surface; margin-bottom: 1;
        &:focus { border: none; background-tint: transparent; }
    }
    FilteredChoice OptionList { scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move('cursor_up')", "Up", show=False, priority=True),
        Binding("down", "move('cursor_down')", "Down", show=False, priority=True),
        Binding("pageup", "move('page_up')", "Page up", show=False, priority=True),
        Binding("pagedown", "move('page_down')", "Page down", show=False, priority=True),
    ]

    def __init__(
        self,
        heading: str,
        lines: Sequence[ChoiceLine],
        legend: str,
        *,
        at: str = "",
        highlighted: Callable[[str], object] = lambda _: None,
    ) -> None:
        super().__init__(heading, legend)
        self._lines = lines
        self._at = at
        self._highlighted = highlighted

    def body(self) -> ComposeResult:
        """The filter, and the lines."""
        field = Input(placeholder="type to filter", compact=True)
        field.cursor_blink = False
        yield field
        yield OptionList(markup=False)

    def on_mount(self) -> None:
        """Focus the filter."""
        self.query_one(Input).focus()
        self.query_one(OptionList).can_focus = False
        self.call_after_refresh(self._show)

    def on_resize(self) -> None:
        """Lay the lines out for the new width."""
        self.call_after_refresh(self._show)

    @on(Input.Changed)
    def _show(self) -> None:
        typed, options = self.query_one(Input).value, self.query_one(OptionList)
        fitting = [line for line in self._lines if line.fits(typed)]
        words = typed.lower().split()
        # What is called like that comes before what only mentions it.
        fitting.sort(key=lambda line: not all(word in line.name.lower() for word in words))
        width = max(20, options.container_size.width - 1)
        options.set_options([Option(line.line(width), line.value) for line in fitting])
        places = [place for place, line in enumerate(fitting) if line.value == self._at]
        options.highlighted = (places or [0])[0] if fitting and not typed else None
        if typed and fitting:
            options.highlighted = 0

    def action_move(self, step: str) -> None:
        """Highlight another line."""
        getattr(self.query_one(OptionList), f"action_{step}")()

    @on(OptionList.OptionHighlighted)
    def _tell(self, event: OptionList.OptionHighlighted) -> None:
        if event.option_id is not None and event.option_id != self._at:
            self._at = event.option_id
            self._highlighted(event.option_id)

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)

    @on(Input.Submitted)
    def _choose_highlighted(self) -> None:
        options = self.query_one(OptionList)
        if options.highlighted is not None:
            self.dismiss(options.get_option_at_index(options.highlighted).id)


class CommandList(FilteredChoice):
    """Ends with the name of a command."""

    def __init__(self, commands: Sequence[ChoiceLine]) -> None:
        super().__init__("Commands", commands, "enter runs it  ·  F1 help  ·  esc closes")


class ThemeList(FilteredChoice):
    """Ends with the name of a theme; each one is `tried` when it is highlighted."""

    def __init__(
        self, themes: Sequence[ChoiceLine], current: str, tried: Callable[[str], object]
    ) -> None:
        legend = "enter saves  ·  esc keeps the old one"
        super().__init__("Themes", themes, legend, at=current, highlighted=tried)
