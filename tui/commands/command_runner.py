"""Runs the commands that the screen and the plain chat share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast

from ingle.daemon.client.client_errors import ClientError

from ..history.database.history_errors import HistoryError
from .command_results import CommandRefused, Result
from .command_table import COMMANDS, Command

if TYPE_CHECKING:
    from .chat_session import ChatSession

Implementation = Callable[["ChatSession", str], Result | Awaitable[Result]]
Problem = CommandRefused | ClientError | HistoryError
PROBLEMS = (CommandRefused, ClientError, HistoryError)
"""The exceptions of commands; each has a `message` and a `hint` for the user."""


def implementation(command: Command) -> Implementation:
    """The function of a shared command, imported on first use."""
    module = import_module(f"{__package__}.{command.group.lower()}_commands")
    # Names that Python has taken, such as `import`, have an underscore behind them.
    function = getattr(module, f"{command.name}_", None) or getattr(module, command.name)
    return cast(Implementation, function)


def import_commands() -> None:
    """Import all implementations, so that the first command does not wait for that."""
    for command in COMMANDS:
        if command.is_shared:
            implementation(command)


def run(command: Command, session: ChatSession, argument: str) -> Result | Awaitable[Result]:
    """Run a shared command; it, or awaiting what it returns, may raise one of `PROBLEMS`."""
    return implementation(command)(session, argument)
