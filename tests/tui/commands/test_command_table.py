"""The table of commands: slash parsing, keys, documentation and handlers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.tui.commands.command_runner import implementation
from ingle.tui.commands.command_table import COMMANDS, command_table, find_slash, parse_slash

if TYPE_CHECKING:
    from ..conftest import OpenChat

# Keys that terminals send like backspace, tab, enter and escape.
ALIASED = {"ctrl+h", "ctrl+i", "ctrl+m", "ctrl+left_square_bracket"}


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("/model smollm2", ("model", "smollm2")),
        ("/new", ("new", "")),
        ("  /help  ", ("help", "")),
        ("/etc/passwd is what?", None),
        ("/", None),
        ("a /new", None),
        ("/compact prices", ("compact", "prices")),
        ("/compact undo", ("undo", "")),
        ("/compact undo of the lease", ("compact", "undo of the lease")),
        ("/compact then What next?", ("compact+", "What next?")),
        ("/compact+ What next?", ("compact+", "What next?")),
        ("/pin list", ("pins", "")),
    ],
)
def test_slash_commands_are_parsed(text: str, parsed: tuple[str, str] | None) -> None:
    assert parse_slash(text) == parsed


def test_command_names_and_keys_are_unique() -> None:
    keys = [command.key for command in COMMANDS if command.key]
    names = [command.slash for command in COMMANDS if command.slash]
    assert len(set(keys)) == len(keys)
    assert len(set(names)) == len(names)
    assert not ALIASED & set(keys)
    assert all(find_slash(name) for name in names)


def test_documentation_contains_the_command_table() -> None:
    page = Path(__file__).parents[3] / "docs" / "tui.md"
    assert page.read_text(encoding="utf-8").endswith(command_table())


async def test_every_command_has_a_handler(open_chat: OpenChat) -> None:
    async with open_chat() as chat:
        assert not [c.name for c in COMMANDS if not chat.screen.can_run(c.name)]


def test_every_shared_command_has_an_implementation() -> None:
    functions = [implementation(command) for command in COMMANDS if command.is_shared]
    assert len(functions) > 35
    assert all(callable(function) for function in functions)
