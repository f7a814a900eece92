"""The argument parser of commands."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from typing import NoReturn

from .command_errors import UsageError


class CommandParser(ArgumentParser):
    """Raises `UsageError`, while argparse would print its usage and exit."""

    def __init__(self, command: str, description: str, *, examples: str = "") -> None:
        super().__init__(
            prog=f"ingle {command}",
            description=description,
            epilog=f"examples:\n{examples}" if examples else None,
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Turn argparse's message into a sentence."""
        sentence = message[:1].upper() + message[1:].rstrip(".") + "."
        raise UsageError(sentence, f"`{self.prog} --help` shows the options.")

    def add_json(self) -> None:
        """Add the flag of every command that prints facts."""
        self.add_argument("--json", action="store_true", help="print JSON for programs")
