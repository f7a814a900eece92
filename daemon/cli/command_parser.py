"""The argument parser of commands, types of arguments, and subcommands."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from .command_errors import UsageError

_HIGHEST = 2**31 - 1
"""The upper bound of a number without one of its own, which messages do not mention."""


class CommandParser(ArgumentParser):
    """An argument parser that raises `UsageError`; argparse would print its usage and exit.

    Commands that print facts have the option `--json`.
    """

    def __init__(
        self, command: str, description: str, *, examples: str = "", json: bool = True
    ) -> None:
        super().__init__(
            prog=f"ingle {command}",
            description=description,
            epilog=f"examples:\n{examples}" if examples else None,
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if json:
            self.add_flag("--json", help="print JSON for programs")

    def add_flag(self, *names: str, help: str) -> None:  # noqa: A002 - as argparse calls it
        """Add an option without a value."""
        self.add_argument(*names, action="store_true", help=help)

    def add_number(
        self,
        name: str,
        low: int,
        high: int = _HIGHEST,
        *,
        default: int | None = None,
        help: str,  # noqa: A002 - as argparse calls it
    ) -> None:
        """Add an option for a whole number from `low` to `high`."""
        kind = _whole_number(low, high)
        self.add_argument(name, type=kind, default=default, metavar="N", help=help)

    def error(self, message: str) -> NoReturn:
        """Turn argparse's message into a sentence."""
        raise UsageError(_sentence(message), f"`{self.prog} --help` shows the options.")


def _sentence(message: str) -> str:
    """Return argparse's message in plain words."""
    subject, _, rest = message.removeprefix("argument ").partition(": ")
    name = "It" if "|" in subject else subject.rpartition("/")[2]
    if rest.startswith("it must be "):
        words = f"{name} must be {rest.removeprefix('it must be ')}"
    elif rest.startswith("invalid choice: "):
        given, _, choices = rest.removeprefix("invalid choice: ").partition(" (choose from ")
        words = f"{name} must be one of {choices.rstrip(')').replace(chr(39), '')}, not {given}"
    elif rest.startswith("expected "):
        words = f"{name} needs a value"
    elif subject == "the following arguments are required":
        names = rest.split(", ")
        words = f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} missing"
    elif subject == "unrecognized arguments":
        options = [word for word in rest.split() if word.startswith("-")]
        words = f"Unknown option: {' '.join(options)}" if options else f"Unknown argument: {rest}"
    else:
        words = message[:1].upper() + message[1:].rstrip(".")
    return f"{words}."


def _whole_number(low: int, high: int) -> Callable[[str], int]:
    """Return the type of an argument: a number from `low` to `high`."""
    expected = f"a whole number from {low} to {high}"
    if high == _HIGHEST:
        expected = f"a whole number, {low} or more"

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise ArgumentTypeError(f"it must be {expected}, not '{text}'")
        return value

    return parse


def given(options: Namespace, *names: str) -> dict[str, Any]:
    """Return the named options that have a value."""
    values = {name: getattr(options, name, None) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def run_subcommand(
    command: str,
    usage: str,
    subcommands: Mapping[str, Callable[[Sequence[str]], int]],
    arguments: Sequence[str],
) -> int:
    """Run the subcommand that the first argument names; the one named "" takes only options.

    Raises `UsageError` if there is no such subcommand.
    """
    name = arguments[0] if arguments else ""
    if name in {"-h", "--help"}:
        print(usage, end="")
        return 0
    if "" in subcommands and (not name or name.startswith("-")):
        return subcommands[""](arguments)
    if name not in subcommands:
        what = f"There is no `ingle {command} {name}`." if name else "A subcommand is missing."
        raise UsageError(what, f"Subcommands: {', '.join(filter(None, subcommands))}.")
    return subcommands[name](arguments[1:])
