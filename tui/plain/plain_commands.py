"""The slash commands of the plain chat: the shared ones, and those about the draft and help."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ..commands.command_runner import run
from ..commands.command_table import COMMANDS, Command, find_slash

if TYPE_CHECKING:
    from .plain_session import PlainSession


class PlainCommands:
    """Runs a command and writes its result."""

    def __init__(self, session: PlainSession) -> None:
        self._session = session
        self._own: dict[str, Callable[[str], None]] = {
            "help": lambda _: self._help(),
            "quit": lambda _: session.leave(),
            "attach": session.files.attach,
            "editor": lambda _: self._write_in_editor(),
            "pull": self._pull,
        }

    async def run(self, name: str, argument: str) -> None:
        """Run a slash command; raises what `command_runner.PROBLEMS` lists."""
        session, command = self._session, find_slash(name)
        if command is None:
            session.output.error(f"There is no command /{name} here.", "/help lists them.")
        elif command.name in self._own:
            self._own[command.name](argument)
        elif not command.is_shared:
            session.output.error(f"/{name} is there on the full screen only.")
        else:
            if command.group == "Models":
                await session.models.refresh()
            result = run(command, session, argument)
            session.front.present(await result if isinstance(result, Awaitable) else result)

    def _help(self) -> None:
        output = self._session.output
        output.line("Write a prompt and press enter. A line that ends in \\ goes on in the next.")
        elsewhere: list[str] = []
        for command in COMMANDS:
            if command.slash is None:
                continue
            if command.is_shared or command.name in self._own:
                output.line(_usage(command))
            else:
                elsewhere.append(f"/{command.slash}")
        output.line(f"On the full screen only: {', '.join(elsewhere)}.")
        output.line("Ctrl+C stops an answer. Ctrl+D leaves.")

    def _write_in_editor(self) -> None:
        session = self._session
        if not session.reader.is_person:
            session.output.error("/editor needs a terminal.")
            return
        text = (session.reader.in_editor("") or "").strip()
        if text:
            session.output.line(f"You: {text}")
            session.send(text)

    def _pull(self, reference: str) -> None:
        session = self._session
        name = reference or session.state.model_name
        if not name:
            session.output.error("Say which model: /pull NAME.", "/model lists all.")
        else:
            session.then(session.models.pull(name))


def _usage(command: Command) -> str:
    argument = f" {command.argument}" if command.argument else ""
    return f"/{command.slash}{argument}: {command.help}."
