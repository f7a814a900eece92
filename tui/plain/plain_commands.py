"""`PlainCommands`: the slash commands of the chat as lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..commands.command_table import COMMANDS, Command, find_slash
from .attached_files import Files
from .chat_commands import ChatCommands
from .context_commands import ContextCommands
from .history_commands import HistoryCommands
from .model_commands import ModelCommands
from .program_commands import ProgramCommands
from .route_commands import RouteCommands

if TYPE_CHECKING:
    from .plain_session import PlainSession


class PlainCommands:
    """Runs what has the same name in the full chat; lists become numbered lines."""

    def __init__(self, session: PlainSession) -> None:
        self._session = session
        self.files = Files(session)
        self.models = ModelCommands(session)
        self.context = ContextCommands(session)
        self.routes = RouteCommands(session)
        chat = ChatCommands(session, self.files)
        self._handlers: dict[str, Callable[[str], None]] = {
            "help": lambda _: self._help(),
            "quit": lambda _: session.leave(),
            **chat.handlers(),
            **HistoryCommands(session).handlers(),
            **self.models.handlers(),
            **self.context.handlers(),
            **self.routes.handlers(),
            **ProgramCommands(session).handlers(),
        }

    def run(self, name: str, argument: str) -> None:
        """Run a slash command; raises `ClientError` and `HistoryError`."""
        command = find_slash(name)
        if command is None:
            self._session.output.error(f"There is no command /{name} here.", "/help lists them.")
        elif command.name not in self._handlers:
            self._session.output.error(f"/{name} is there on the full screen only.")
        else:
            self._handlers[command.name](argument)

    def _help(self) -> None:
        output = self._session.output
        output.line("Write a prompt and press enter. A line that ends in \\ goes on in the next.")
        elsewhere: list[str] = []
        for command in COMMANDS:
            if command.name in self._handlers:
                output.line(_told(command))
            elif command.slash is not None:
                elsewhere.append(f"/{command.slash}")
        output.line(f"On the full screen only: {', '.join(elsewhere)}.")
        output.line("Ctrl+C stops an answer. Ctrl+D leaves.")


def _told(command: Command) -> str:
    argument = f" {command.argument}" if command.argument else ""
    return f"/{command.slash}{argument}: {command.help}."
