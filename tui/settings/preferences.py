"""The chat's preferences, stored in `chat.toml`.

Read before the first frame, which needs the theme; a missing file costs nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

FILE = "chat.toml"


class Preferences(NamedTuple):
    """With `theme` "" the terminal decides; without `motion` nothing moves or flashes.

    With `enter_sends` False, enter breaks the line and ctrl+j sends; with `vim_keys` escape
    begins normal mode. `compact_at` is the share of the context, in percent, at which a chat is
    compacted if `auto_compact` is set. `gauges`,
    `times` and `fold_thoughts` set what is shown initially. New chats begin with `persona`. With
    `notify` the end of a long answer is reported while the terminal has no focus.
    """

    theme: str = ""
    motion: bool = True
    enter_sends: bool = True
    vim_keys: bool = False
    auto_compact: bool = True
    compact_at: int = 90
    gauges: bool = False
    times: bool = True
    fold_thoughts: bool = True
    persona: str = ""
    notify: bool = True
    trouble: str = ""


class PreferencesBroken(Exception):
    """The file is not TOML, so nothing can be added to it; the message is shown to the user."""


def load_preferences(folder: Path | None) -> Preferences:
    """Read the file; missing and invalid values keep their defaults.

    `trouble` describes invalid values; the file is not changed.
    """
    if folder is None:
        return Preferences()
    try:
        said = _read(folder / FILE)
    except (OSError, PreferencesBroken) as error:
        return Preferences(trouble=str(error))
    found: dict[str, object] = {}
    wrong: list[str] = []
    for name, default in Preferences()._asdict().items():
        if name == "trouble" or name not in said:
            continue
        if type(said[name]) is type(default) and _is_possible(name, said[name]):
            found[name] = said[name]
        else:
            wrong.append(name)
    trouble = f"{FILE} has an invalid value for: {', '.join(wrong)}." if wrong else ""
    return Preferences(trouble=trouble)._replace(**found)  # pyright: ignore[reportArgumentType]


def _is_possible(name: str, value: object) -> bool:
    return name != "compact_at" or (isinstance(value, int) and 30 <= value <= 95)


def _read(file: Path) -> dict[str, object]:
    """Return the file's values, empty without a file; raises `OSError`, `PreferencesBroken`."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError:
        raise PreferencesBroken(f"{file} is not UTF-8; it is not changed.") from None
    if not text.strip():
        return {}
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PreferencesBroken(f"{file} is not TOML ({error}); it is not changed.") from None


def save_preference(folder: Path, name: str, value: str | bool | int) -> None:
    """Save a preference; raises `OSError`, `PreferencesBroken`.

    The file is replaced atomically, and keeps its other contents.
    """
    import json

    # If the file is a link, as with settings kept in a repository, its target is changed.
    file = (folder / FILE).resolve()
    _read(file)
    lines = file.read_text(encoding="utf-8-sig").splitlines() if file.exists() else []
    entry = f"{name} = {json.dumps(value, ensure_ascii=False)}"  # which is TOML, too
    head = next((at for at, line in enumerate(lines) if line.startswith("[")), len(lines))
    place = next((at for at in range(head) if lines[at].partition("=")[0].strip() == name), None)
    if place is None:
        lines.insert(0, entry)  # at the top: after a table's header it would belong to the table
    else:
        lines[place] = entry
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        new.write_text("\n".join(lines) + "\n", encoding="utf-8")
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)
