"""`ProgramFeature`: help, themes and other matters of the program itself."""

from __future__ import annotations

from collections.abc import Mapping

from .feature import Feature, Handler


class ProgramFeature(Feature):
    """Commands that are not about a chat."""

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "help": lambda _: self.help(),
            "theme": self.theme,
            "suspend": lambda _: self.host.chat_app.action_suspend_process(),
        }

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
