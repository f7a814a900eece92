"""`ChatApp`: the Textual application around the chat screen: themes, palette, help, exit."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from rich.console import RenderableType
from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.screen import Screen

from ..settings.themes import EMBER, FALLBACK_VARIABLES, THEMES
from ..terminal.exit_signals import ending_signals
from .chat_screen import ChatScreen


class ChatApp(App[None]):
    """Shows a chat; `on_live` is called once the composer can be typed in."""

    CSS_PATH = "app.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        # For what lies over the chat, where keys of the chat mean nothing.
        Binding("f1", "help_here", "Help", show=False, priority=True)
    ]
    TITLE = "ingle"

    def __init__(
        self,
        chat: ChatScreen,
        *,
        theme: str = EMBER.name,
        on_live: Callable[[], None] | None = None,
    ) -> None:
        driver: type[Driver] | None = None
        if sys.platform != "win32":
            from ..terminal.quick_escape_driver import QuickEscapeDriver

            driver = QuickEscapeDriver
        super().__init__(driver_class=driver)
        self._on_live = on_live
        self._early: list[events.Event] | None = []
        self._chat = chat
        self._chat.on_live = self._live
        for own in THEMES:
            self.register_theme(own)
        if not self.no_color and "TEXTUAL_THEME" not in os.environ:
            self.theme = theme if theme in self.available_themes else EMBER.name

    def get_default_screen(self) -> Screen[Any]:
        """The chat."""
        return self._chat

    async def on_event(self, event: events.Event) -> None:
        """Keep keys that are typed before the composer is ready."""
        if self._early is not None and isinstance(event, (events.Key, events.Paste)):
            self._early.append(event)
        else:
            await super().on_event(event)

    async def _live(self) -> None:
        """Pass the keys typed so far to the composer."""
        early, self._early = self._early or [], None
        for event in early:
            await super().on_event(event)
        if self._on_live is not None:
            self._on_live()

    def on_mount(self) -> None:
        """Exit cleanly on signals that end the program."""
        if sys.platform != "win32":
            for number in ending_signals():
                asyncio.get_running_loop().add_signal_handler(number, self.exit)

    def refresh_css(self, animate: bool = True) -> None:
        """Apply the theme and its styles; as long as no screen is there, only to the variables."""
        if self.screen_stack:
            super().refresh_css(animate)
        else:
            # The first screen has the sheet parsed; parsing it twice would take 30 ms more.
            self.stylesheet.set_variables(self.get_css_variables())

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Defaults for colours that other themes do not define."""
        return FALLBACK_VARIABLES

    def copy_to_clipboard(self, text: str) -> None:
        """Copy text by every available way, and report which one was used."""
        self._clipboard = text
        self.run_worker(partial(self._copy, text), group="copy")

    async def _copy(self, text: str) -> None:
        from ..terminal.clipboard import copy

        copied = await asyncio.to_thread(copy, text)
        if copied.sequence and self._driver is not None:
            self._driver.write(copied.sequence)
        self.notify(copied.sentence, markup=False)

    def action_command_palette(self) -> None:
        """Show every command, unless a dialog is open."""
        if self.screen is not self._chat or not self._chat.is_complete:
            return
        # Importing them before the first frame would bring in everything features need.
        from ..features.program_feature import ProgramFeature
        from ..screens.filtered_choice import CommandList

        def run(name: str | None) -> None:
            if name is not None:
                # Once the list is closed: a screen cannot be pushed while another one is popped.
                self.call_later(self._chat.run_command, name)

        lines = self._chat.feature(ProgramFeature).command_lines()
        self.push_screen(CommandList(lines), run)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave F1 to screens that bind it themselves."""
        if action != "help_here":
            return super().check_action(action, parameters)
        if self.screen is self._chat:
            return False
        from ..screens.filtered_table import FilteredTable

        return not isinstance(self.screen, FilteredTable)

    def action_help_here(self) -> None:
        """Show the help for the screen that is over the chat."""
        self._chat.run_command("help")

    def exit(
        self, result: None = None, return_code: int = 0, message: RenderableType | None = None
    ) -> None:
        """Exit, and save the draft."""
        self._chat.close()
        super().exit(result, return_code, message)

    def save(self) -> None:
        """Write pending changes, also after an unhandled exception."""
        if self._chat.store is not None:
            self._chat.store.close()
