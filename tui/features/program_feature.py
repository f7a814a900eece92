"""`ProgramFeature`: help, keys, settings, themes and other matters of the program itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..commands.command_table import COMMANDS, Command
from ..commands.key_table import FILE as KEYS_FILE
from ..commands.key_table import KeyTable, load_keys
from ..settings.preferences import Preferences, PreferencesBroken, save_preference
from ..settings.themes import THEMES
from .feature import Feature, Handler

if TYPE_CHECKING:
    from textual.app import App
    from textual.theme import Theme

    from ..screens.filtered_choice import ChoiceLine
    from ..session.turn import Turn
    from .chat_host import ChatHost

LONG_ANSWER = 10.0
"""Seconds from which the end of an answer is reported."""


class ProgramFeature(Feature):
    """Commands that are not about a chat."""

    def __init__(self, host: ChatHost) -> None:
        super().__init__(host)
        self._remembering = asyncio.Lock()
        self._theme = ""
        self._keys = KeyTable()
        self._is_trying = False
        """Whether the list of themes is open, which shows each without keeping it."""

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "keys": lambda _: self.keys(),
            "settings": lambda _: self.settings(),
            "doctor": lambda _: self.doctor(),
            "watch": lambda _: self.watch(),
            "theme": self.theme,
            "suspend": lambda _: self.host.chat_app.action_suspend_process(),
        }

    def on_ready(self) -> None:
        """Apply the user's keys, and save every change of the theme."""
        app = self.host.chat_app
        self._theme = app.theme
        app.theme_changed_signal.subscribe(self.host, self._keep_theme)
        if self._keys_file is not None:
            self._keys = load_keys(self._keys_file)
            app.set_keymap(self._keys.keymap())
        if self._keys.problems:
            problems = " ".join(self._keys.problems)
            self.host.tell(f"{KEYS_FILE}: {problems} /keys shows the keys in effect.", "warning")
        if self.host.preferences.trouble:
            self.host.tell(self.host.preferences.trouble, "warning")
        self._apply(self.host.preferences)

    def on_turn_ended(self, turn: Turn) -> None:
        """Have the terminal report the end of a long answer while another window is used."""
        app, seconds = self.host.chat_app, turn.message.facts.seconds or 0.0
        driver = app._driver  # pyright: ignore[reportPrivateUsage]
        is_due = seconds >= LONG_ANSWER and turn.ending != "stopped" and not app.app_focus
        if self.host.preferences.notify and is_due and driver is not None:
            from ..terminal.notification import notification

            driver.write(notification("The answer is complete.", os.environ))

    def on_preferences(self, preferences: Preferences) -> None:
        """Apply the motion, composer and transcript settings."""
        self.host.chat_app.animation_level = "full" if preferences.motion else "none"
        self._apply(preferences)

    def _apply(self, preferences: Preferences) -> None:
        self.host.composer.enter_sends = preferences.enter_sends
        self.host.composer.set_vim(preferences.vim_keys)
        self.host.transcript.has_vim_keys = preferences.vim_keys
        self.host.transcript.set_display(
            times=preferences.times, folded_reasoning=preferences.fold_thoughts
        )

    @property
    def _keys_file(self) -> Path | None:
        folders = self.host.folders
        return None if folders is None else folders.config / KEYS_FILE

    # Themes and settings

    def _keep_theme(self, theme: Theme) -> None:
        if theme.name != self._theme and not self._is_trying:
            self._theme = theme.name
            self._keep("theme", theme.name)

    def _keep(self, name: str, value: str | bool | int) -> None:
        folders = self.host.folders
        if folders is not None:
            self.host.run_worker(self._remember(folders.config, name, value), group="remember")

    async def _remember(self, folder: Path, name: str, value: str | bool | int) -> None:
        try:
            async with self._remembering:  # each reads what the one before wrote
                await asyncio.to_thread(save_preference, folder, name, value)
        except PreferencesBroken as error:
            self.host.tell(str(error), "warning")
        except OSError as error:
            self.host.tell(f"The setting could not be saved: {error.strerror}.", "warning")

    def settings(self) -> None:
        """Show the settings."""
        from ..screens.settings_screen import SettingsScreen

        app, host = self.host.chat_app, self.host
        folder = None if host.folders is None else host.folders.config
        themes = sorted(app.available_themes)
        app.push_screen(SettingsScreen(host.preferences, themes, app.theme, folder, self._change))

    def _change(self, name: str, value: str | bool | int) -> Preferences:
        """Apply and save a setting; return all preferences."""
        preferences = self.host.preferences._replace(**{name: value})  # pyright: ignore[reportArgumentType]
        self.host.preferences = preferences
        if name == "theme":
            self.host.chat_app.theme = str(value)  # which is kept as every change of it
        else:
            self._keep(name, value)
        return preferences

    def theme(self, name: str) -> None:
        """Change the theme, or list the themes."""
        app = self.host.chat_app
        if not name:
            self._choose_theme()
        elif name in app.available_themes:
            app.theme = name
        else:
            self.host.tell(f"There is no theme {name}; /theme shows them.", "warning")

    def _choose_theme(self) -> None:
        """Show the themes as the user walks through them, and keep the chosen one."""
        from ..screens.filtered_choice import ChoiceLine, ThemeList

        app = self.host.chat_app
        themes, own = app.available_themes, [theme.name for theme in THEMES]
        others = sorted(name for name in themes if name not in own)
        lines = [
            ChoiceLine(name, name, "dark" if themes[name].dark else "light")
            for name in (*own, *others)
        ]
        before = app.theme
        self._is_trying = True

        def chosen(name: str | None) -> None:
            self._is_trying = False
            app.theme = before if name is None else name
            self._keep_theme(app.current_theme)

        app.push_screen(ThemeList(lines, before, self._try_theme), chosen)

    def _try_theme(self, name: str) -> None:
        self.host.chat_app.theme = name

    # Help

    def command_lines(self) -> list[ChoiceLine]:
        """A line of each command that can be run here, for the list of commands."""
        from ..screens.filtered_choice import ChoiceLine

        return [
            ChoiceLine(command.name, command.title, command.help, self._keys.shown_keys(command))
            for command in COMMANDS
            if command.palette and self.host.can_run(command.name)
        ]

    def show_help(self, commands: Sequence[Command]) -> None:
        """Show the keys of the focused widget, and the commands."""
        from ..screens.filtered_table import HelpScreen

        app = self.host.chat_app
        focused = app.focused or self.host.composer
        if focused is self.host.composer:
            here = self.host.composer.help_keys()
        else:
            here = getattr(focused, "HELP_KEYS", ()) or keys_of_screen(app)
        title = getattr(focused, "HELP_TITLE", "Where you are")
        app.push_screen(HelpScreen(here, commands, self._keys, title=title))

    def keys(self) -> None:
        """Show the keys of all commands."""
        from ..screens.filtered_table import KeysScreen

        commands = [command for command in COMMANDS if self.host.can_run(command.name)]
        self.host.chat_app.push_screen(KeysScreen(commands, self._keys, self._keys_file))

    def doctor(self) -> None:
        """Report on terminal, machine and daemon."""
        from ..screens.doctor_screen import DoctorScreen

        self.host.chat_app.push_screen(DoctorScreen(self.host))

    def watch(self) -> None:
        """Show the requests of all programs."""
        from ..screens.watch_screen import WatchScreen

        self.host.chat_app.push_screen(WatchScreen(self.host.client))


def keys_of_screen(app: App[None]) -> list[tuple[str, str]]:
    """The keys of the current screen and their descriptions."""
    bindings = [active.binding for active in app.screen.active_bindings.values()]
    return [
        (app.get_key_display(binding), binding.description)
        for binding in bindings
        if binding.description and binding.key != "f1"
    ]
