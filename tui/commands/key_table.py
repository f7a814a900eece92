"""`KeyTable`: the keys of commands, from the defaults and the user's file of keys."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from .command_table import COMMANDS, Command, shown_key

FILE = "keys.toml"
UNBOUND = "no_key_"
"""Prefix of the binding of a command without a key; no key has such a name."""

_MODIFIERS = ("ctrl", "alt", "shift", "super")
_NAMED_KEYS = """
    up down left right home end pageup pagedown insert delete space tab enter backspace escape
    underscore minus equals_sign plus comma full_stop slash backslash semicolon apostrophe colon
    grave_accent left_square_bracket right_square_bracket less_than_sign greater_than_sign
    question_mark exclamation_mark at number_sign dollar_sign percent_sign circumflex_accent
    ampersand asterisk left_parenthesis right_parenthesis tilde vertical_line
"""
_WRITING_KEYS = """
    enter ctrl+j backspace delete tab left right up down home end space ctrl+a ctrl+e
"""
_NAMED = frozenset(_NAMED_KEYS.split())
_WRITING = frozenset(_WRITING_KEYS.split())
_BARE = frozenset({"escape", "insert", "pageup", "pagedown", "tab"})
"""Named keys that write nothing, so that they may run a command without a modifier."""
_ALIASED = {
    "ctrl+h": "backspace",
    "ctrl+i": "tab",
    "ctrl+m": "enter",
    "ctrl+left_square_bracket": "escape",
}
_SIGNS = {
    "[": "left_square_bracket",
    "]": "right_square_bracket",
    "\\": "backslash",
    "/": "slash",
    ",": "comma",
    ".": "full_stop",
    "-": "minus",
    "_": "underscore",
}


class KeyTable(msgspec.Struct):
    """The user's keys by the commands' names, and a sentence for each entry that was skipped."""

    own: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict[str, tuple[str, ...]])
    problems: list[str] = msgspec.field(default_factory=list[str])

    def keys_of(self, command: Command) -> tuple[str, ...]:
        """The keys that run a command; empty if it has none."""
        default = (command.key,) if command.key is not None else ()
        return self.own.get(command.name, default)

    def shown_keys(self, command: Command) -> str:
        """The keys that run a command, as the screen writes them."""
        return " ".join(map(shown_key, self.keys_of(command)))

    def keymap(self) -> dict[str, str]:
        """The differences from the defaults, as a Textual keymap."""
        return {name: ",".join(keys) or default_key(name) for name, keys in self.own.items()}


def default_key(name: str) -> str:
    """The binding of a command without a key."""
    return UNBOUND + name


def load_keys(file: Path) -> KeyTable:
    """The user's keys; none without a file. Blocks for a small file."""
    table = KeyTable()
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return table
    except (OSError, UnicodeDecodeError):
        table.problems.append(f"{file} cannot be read.")
        return table
    import tomllib

    try:
        said = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        table.problems.append(f"It is not TOML: {error}.")
        return table
    known = {command.name: command for command in COMMANDS}
    for name, value in said.items():
        if name not in known:
            table.problems.append(f"There is no command {name!r}.")
            continue
        keys = _keys(value)
        if keys is None:
            table.problems.append(f'{name} must be a key, a list of keys, or "".')
            continue
        wrong = [reason for key in keys if (reason := why_not(key)) is not None]
        if wrong:
            table.problems += [f"{name}: {reason}" for reason in wrong]
        else:
            table.own[name] = keys
    _drop_collisions(table)
    return table


def _keys(value: object) -> tuple[str, ...] | None:
    """The normalised keys of an entry; None if it has another type."""
    try:
        said = msgspec.convert(value, str | list[str])
    except msgspec.ValidationError:
        return None
    parts = said.split(",") if isinstance(said, str) else said
    return tuple(dict.fromkeys(normalize(part) for part in parts if part.strip()))


def normalize(key: str) -> str:
    """`Ctrl-K`, `^k` and `ctrl+k` as `ctrl+k`; signs by their names."""
    key = key.strip().lower()
    if len(key) == 2 and key[0] == "^":
        key = f"ctrl+{key[1]}"
    for modifier in (*_MODIFIERS, "control", "option", "meta", "cmd"):
        key = key.replace(f"{modifier}-", f"{modifier}+")
    *modifiers, last = key.split("+") if key != "+" else ["plus"]
    names = {"control": "ctrl", "option": "alt", "meta": "alt", "cmd": "super", "esc": "escape"}
    found = {names.get(modifier, modifier) for modifier in modifiers}
    ordered = [modifier for modifier in _MODIFIERS if modifier in found]
    unknown = sorted(found.difference(_MODIFIERS))
    last = _SIGNS.get(last, names.get(last, last))
    return "+".join([*ordered, *unknown, last])


def why_not(key: str) -> str | None:
    """The reason why a key cannot run a command, or None."""
    *modifiers, last = key.split("+")
    function_key = last[:1] == "f" and last[1:].isdigit() and 1 <= int(last[1:]) <= 24
    single = len(last) == 1 and last.isalnum()
    if not set(modifiers).issubset(_MODIFIERS) or not (function_key or single or last in _NAMED):
        return f"{key!r} is not the name of a key."
    if key in _ALIASED:
        return f"{key} is {_ALIASED[key]} for terminals."
    if key in _WRITING:
        return f"{key} is needed for writing."
    if not function_key and set(modifiers) <= {"shift"} and last not in _BARE:
        return f"{key} is needed for writing."
    return None


def _drop_collisions(table: KeyTable) -> None:
    """Skip and report an entry whose key runs another command already."""
    taken = {
        command.key: command.name
        for command in COMMANDS
        if command.key is not None and command.name not in table.own
    }
    for name, keys in list(table.own.items()):
        others = {key: taken[key] for key in keys if taken.get(key, name) != name}
        for key, other in others.items():
            table.problems.append(f"{name}: {key} is that of {other} already.")
        if others:
            del table.own[name]
        else:
            taken.update(dict.fromkeys(keys, name))


def skeleton(commands: Iterable[Command] = COMMANDS) -> str:
    """A commented key file with the default of every command."""
    lines = [
        "# The keys of the chat. Take the # away from a line and change its key: a key, a list of",
        '# keys, or "" for none. Names are those of /keys; it is read when the chat starts.',
    ]
    group = ""
    for command in commands:
        if command.group != group:
            group = command.group
            lines += ["", f"# {group}"]
        lines.append(f'# {command.name} = "{command.key or ""}"  # {command.help}')
    return "\n".join(lines) + "\n"
