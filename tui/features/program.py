"""`ProgramFeature`: help, themes and other matters of the program itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..preferences import remember_theme
from .feature import Feature, Handler

if TYPE_CHECKING:
    from textual.theme import Theme

    from ..host import ChatHost


class ProgramFeature(Feature):
    """Commands that are not about a chat."""

    def __init__(self, host: ChatHost) -> None:
        super().__init__(host)
        self._theme = ""

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "help": lambda _: self.help(),
            "theme": self.theme,
            "suspend": lambda _: self.host.chat_app.action_suspend_process(),
        }

    def on_ready(self) -> None:
        """Keep every change of the theme, whichever way it came."""
        self._theme = self.host.chat_app.theme
        self.host.chat_app.theme_changed_signal.subscribe(self.host.composer, self._keep_theme)

    def _keep_theme(self, theme: Theme) -> None:
        folders = self.host.folders
        if folders is not None and theme.name != self._theme:
            self._theme = theme.name
            self.host.run_task(self._remember(folders.config, theme.name), group="theme")

    async def _remember(self, folder: Path, theme: str) -> None:
        try:
            await asyncio.to_thread(remember_theme, folder, theme)
        except OSError as error:
            self.host.tell(f"The theme is not kept: {error.strerror}.", "warning")

    def help(self) -> None:
        """Show keys and commands, or close them."""
        from ..screens.help import HelpScreen

        if isinstance(self.host.chat_app.screen, HelpScreen):
            self.host.chat_app.screen.dismiss()
        else:
            self.host.show_screen(HelpScreen())

    def theme(self, name: str) -> None:
        """Change the colours, or show which there are."""
        app = self.host.chat_app
        if not name:
            app.action_change_theme()
        elif name in app.available_themes:
            app.theme = name
        else:
            self.host.tell(f"There is no theme {name}; /theme shows them.", "warning")
