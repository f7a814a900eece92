"""The user's `keys.toml`: changed bindings, validation and the skeleton file."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from ingle.tui.commands.command_table import COMMANDS
from ingle.tui.commands.key_table import KeyTable, load_keys, normalize, skeleton, why_not

pytestmark = pytest.mark.quick


def load(folder: Path, text: str) -> KeyTable:
    file = folder / "keys.toml"
    file.write_text(text)
    return load_keys(file)


def test_missing_key_file_keeps_the_defaults(tmp_path: Path) -> None:
    table = load_keys(tmp_path / "keys.toml")
    assert table.problems == []
    assert table.keymap() == {}
    assert [table.keys_of(command) for command in COMMANDS if command.name == "help"] == [("f1",)]


def test_keys_are_changed_added_and_removed(tmp_path: Path) -> None:
    table = load(tmp_path, 'compact = "F8"\nmodel = ["ctrl+o", "alt-m"]\nundo = ""\n')
    assert table.problems == []
    assert table.keymap() == {
        "compact": "f8",
        "model": "ctrl+o,alt+m",
        "undo": "no_key_undo",
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('compact = "ctrl+h"', "compact: ctrl+h is backspace for terminals."),
        ('compact = "^["', "compact: ctrl+left_square_bracket is escape for terminals."),
        ('compact = "a"', "compact: a is needed for writing."),
        ('compact = "shift+q"', "compact: shift+q is needed for writing."),
        ('compact = "enter"', "compact: enter is needed for writing."),
        ('compact = "hyper+x"', "compact: 'hyper+x' is not the name of a key."),
        ('compact = "f25"', "compact: 'f25' is not the name of a key."),
        ('compat = "f8"', "There is no command 'compat'."),
        ("compact = 8", 'compact must be a key, a list of keys, or "".'),
        ('compact = "f4"', "compact: f4 is that of gauges already."),
        ('compact = "f8"\nundo = "f8"', "undo: f8 is that of compact already."),
    ],
)
def test_invalid_bindings_are_reported_and_skipped(tmp_path: Path, text: str, problem: str) -> None:
    table = load(tmp_path, text)
    assert table.problems == [problem]
    assert set(table.keymap()) <= {"compact"}


def test_two_commands_can_swap_keys(tmp_path: Path) -> None:
    table = load(tmp_path, 'compact = "f4"\ngauges = "f6"\n')
    assert table.problems == []
    assert table.keymap() == {"compact": "f4", "gauges": "f6"}


def test_malformed_key_file_is_reported(tmp_path: Path) -> None:
    table = load(tmp_path, "compact = f8")
    assert len(table.problems) == 1
    assert table.problems[0].startswith("It is not TOML")


@pytest.mark.parametrize(
    ("written", "key"),
    [("Ctrl-K", "ctrl+k"), ("^k", "ctrl+k"), ("shift+alt+x", "alt+shift+x"), ("esc", "escape")],
)
def test_key_spellings_are_normalized(written: str, key: str) -> None:
    assert normalize(written) == key


def test_default_keys_are_valid_in_the_key_file() -> None:
    for command in COMMANDS:
        if command.key is not None:
            assert normalize(command.key) == command.key
            assert why_not(command.key) is None, command.key


def test_key_file_skeleton_changes_nothing(tmp_path: Path) -> None:
    text = skeleton()
    assert tomllib.loads(text) == {}
    bare = "\n".join(
        line.removeprefix("# ")
        for line in text.splitlines()
        if line.startswith("# ") and "=" in line
    )
    assert load(tmp_path, bare).problems == []
