"""The chat commands that have one implementation for all front ends, run by the screen."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from functools import partial

from ..commands.command_runner import PROBLEMS, import_commands, run
from ..commands.command_table import COMMANDS, Command
from ..features.chat_host import ChatHost
from ..features.feature import Feature, Handler
from .screen_front import ScreenFront

import_commands()


class CommandFeature(Feature):
    """Runs the functions of the command table and presents their results.

    It comes first, so that a feature that handles a command in its own way replaces it.
    """

    def __init__(self, host: ChatHost) -> None:
        super().__init__(host)
        host.front = ScreenFront(host)

    def handlers(self) -> Mapping[str, Handler]:
        """See `Feature`."""
        return {
            command.name: partial(self._run, command) for command in COMMANDS if command.is_shared
        }

    def _run(self, command: Command, argument: str) -> Awaitable[None] | None:
        try:
            result = run(command, self.host, argument)
        except PROBLEMS as error:
            self.host.refuse(error)
            return None
        if isinstance(result, Awaitable):
            return self.host.present(result)
        self.host.front.present(result)
        return None
