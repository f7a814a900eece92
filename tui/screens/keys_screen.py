"""`KeysScreen`: which key runs what, and how that is changed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType

from ..commands.command_table import COMMANDS, Command
from ..commands.key_table import KeyTable, skeleton
from .dialogs.filtered_table import FilteredTable, Row, Section


class KeysScreen(FilteredTable):
    """`file` is where keys are changed, None where settings are not kept."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "write", "Write the file", show=False, priority=True)
    ]

    def __init__(self, commands: Sequence[Command], table: KeyTable, file: Path | None) -> None:
        self._file = file
        hint = "esc closes"
        if file is not None:
            hint = f"esc closes  ·  ctrl+s writes a file to change: {file}"
        sections = [Section("Skipped", [Row("!", "", problem) for problem in table.problems])]
        for group in dict.fromkeys(command.group for command in COMMANDS):
            rows = [_row(command, table) for command in commands if command.group == group]
            sections.append(Section(group, rows))
        super().__init__("Keys", [section for section in sections if section.rows], hint)

    async def action_write(self) -> None:
        """Write a file with every command, unless there is one."""
        file = self._file
        if file is None:
            return
        try:
            await asyncio.to_thread(_write_new, file)
        except FileExistsError:
            self.notify(f"{file} is there already; it is read when the chat starts.", markup=False)
        except OSError as error:
            self.notify(f"{file}: {error.strerror}.", severity="error", markup=False)
        else:
            self.notify(f"Written: {file}. It is read when the chat starts.", markup=False)


def _row(command: Command, table: KeyTable) -> Row:
    own = "  (yours)" if command.name in table.own else ""
    return Row(" ".join(table.keys_of(command)) or "–", command.name, command.help + own)


def _write_new(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with file.open("x", encoding="utf-8") as opened:
        opened.write(skeleton())
