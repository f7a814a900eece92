"""`HelpScreen`: the keys of what has the focus, then every command."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..commands.command_table import COMMANDS, Command
from .dialogs.filtered_table import FilteredTable, Row, Section

HINT = "esc closes  ·  /keys changes keys"
ALWAYS = Row("ctrl+p", "", "Every command, by name")


class HelpScreen(FilteredTable):
    """`here` are the keys of the focused thing; `keys_of` tells the keys of a command."""

    def __init__(
        self,
        here: Sequence[tuple[str, str]],
        commands: Sequence[Command],
        keys_of: Callable[[Command], Sequence[str]],
        *,
        title: str = "Where you are",
    ) -> None:
        rows = [Row(key, "", text) for key, text in here]
        sections = [Section(title, rows)] if rows else []
        super().__init__("Help", [*sections, *command_sections(commands, keys_of)], HINT)


def command_sections(
    commands: Sequence[Command], keys_of: Callable[[Command], Sequence[str]]
) -> Iterator[Section]:
    """Every command under the heading of its group."""
    for group in dict.fromkeys(command.group for command in COMMANDS):
        rows = [_row(command, keys_of) for command in commands if command.group == group]
        if group == "Program":
            rows.append(ALWAYS)
        if rows:
            yield Section(group, rows)


def _row(command: Command, keys_of: Callable[[Command], Sequence[str]]) -> Row:
    argument = f" {command.argument}" if command.argument else ""
    slash = f"/{command.slash}{argument}" if command.slash else ""
    return Row(" ".join(keys_of(command)), slash, command.help)
