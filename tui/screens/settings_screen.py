"""`SettingsScreen`: the preferences, their effects, and the file they are kept in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList, Static

from ..settings.personas import persona_names
from ..settings.preferences import FILE, Preferences
from .dialog import Dialog

Value = str | bool | int
NAME_WIDTH = 26


@dataclass(frozen=True, slots=True)
class Setting:
    """A field of `Preferences` with the values it can have, and their words."""

    name: str
    title: str
    help: str
    values: Sequence[Value]
    words: Sequence[str] = ()


ON_OFF = (True, False)
SETTINGS = (
    Setting("motion", "Motion", "Smooth scrolling and animation", ON_OFF),
    Setting("enter_sends", "Enter sends", "Off: enter inserts a line break, ctrl+j sends", ON_OFF),
    Setting("vim_keys", "Vim keys", "esc begins normal mode; F1 lists its keys", ON_OFF),
    Setting(
        "gauges",
        "View",
        "Full adds memory, cache and speed; so does F4",
        (False, True),
        ("simple", "full"),
    ),
    Setting("times", "Times", "When a message was sent, beside its name", ON_OFF),
    Setting("fold_thoughts", "Fold thoughts", "Show reasoning as one line", ON_OFF),
    Setting("notify", "Notify", "When a long answer ends while another window is used", ON_OFF),
    Setting(
        "auto_compact",
        "Auto-compact",
        "Summarise earlier messages before it is full",
        ON_OFF,
    ),
    Setting("compact_at", "Compact at", "Percent of the context", range(50, 96, 5)),
)


class SettingsScreen(Dialog[None]):
    """`change` is called with every new value at once, and returns all preferences."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f2", "dismiss", "Close", show=False, priority=True),
        Binding("right,space", "step(1)", "Next", show=False, priority=True),
        Binding("left", "step(-1)", "Previous", show=False, priority=True),
    ]

    def __init__(
        self,
        preferences: Preferences,
        themes: Sequence[str],
        theme: str,
        folder: Path | None,
        change: Callable[[str, Value], Preferences],
    ) -> None:
        where = "not saved" if folder is None else f"saved in {folder / FILE}"
        super().__init__("Settings", f"←→ change  ·  esc closes  ·  {where}")
        choice = Setting("theme", "Theme", "The colours; shown immediately", themes)
        begin = "What new chats begin with; /persona save NAME keeps one"
        persona = Setting("persona", "Persona", begin, ("", *persona_names(folder)))
        self._settings = (choice, *SETTINGS, persona)
        self._preferences = preferences._replace(theme=theme)
        self._change = change

    def body(self) -> ComposeResult:
        """The settings, and the problem with their file, if any."""
        yield OptionList(*map(self._line, self._settings))
        if self._preferences.trouble:
            trouble = Content(f"! {self._preferences.trouble}").stylize("$warning")
            yield Static(trouble, classes="dialog-hint")

    def _line(self, setting: Setting) -> Content:
        value = getattr(self._preferences, setting.name)
        if setting.words:
            shown = setting.words[setting.values.index(value)]
        else:
            on_off = {True: "on", False: "off"}
            shown = on_off[value] if isinstance(value, bool) else value or "none"
        return Content.assemble(
            (f"{setting.title:<{NAME_WIDTH - 6}}", "$foreground"),
            (f"‹ {shown} ›\n", "$primary"),
            (f"  {setting.help}", "$muted"),
        )

    @on(OptionList.OptionSelected)
    def _selected(self) -> None:
        self.action_step(1)

    def action_step(self, direction: int) -> None:
        """Set the highlighted setting to its next (1) or previous (-1) value."""
        options = self.query_one(OptionList)
        index = options.highlighted
        if index is None:
            return
        setting = self._settings[index]
        values = list(setting.values)
        now = getattr(self._preferences, setting.name)
        at = values.index(now) if now in values else -1
        self._preferences = self._change(setting.name, values[(at + direction) % len(values)])
        options.replace_option_prompt_at_index(index, self._line(setting))
