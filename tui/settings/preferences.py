"""`Preferences`: what a person set for the chat itself, in `chat.toml` beside the other settings.

Read before the first frame, which has its colours: a file that is not there costs nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

FILE = "chat.toml"


class Preferences(NamedTuple):
    """`theme` "" leaves the choice to the terminal; without `motion` nothing moves or flashes.

    With `enter_sends` False, enter breaks the line and ctrl+j sends. `compact_at` is the part of
    the context, in percent, at which a chat is compacted where `auto_compact` lets it. `gauges`,
    `times` and `fold_thoughts` say what is shown before anybody asks.
    """

    theme: str = ""
    motion: bool = True
    enter_sends: bool = True
    auto_compact: bool = True
    compact_at: int = 90
    gauges: bool = True
    times: bool = True
    fold_thoughts: bool = True
    trouble: str = ""


class PreferencesBroken(Exception):
    """The file is not TOML, so that nothing can be added to it; the message is for people."""


def load_preferences(folder: Path | None) -> Preferences:
    """What the file says; what it does not say, or says wrongly, is as it would be without it.

    `trouble` then says what is wrong; the file is left alone.
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
    trouble = f"{FILE} has a value that cannot be: {', '.join(wrong)}." if wrong else ""
    return Preferences(trouble=trouble)._replace(**found)  # pyright: ignore[reportArgumentType]


def _is_possible(name: str, value: object) -> bool:
    return name != "compact_at" or (isinstance(value, int) and 30 <= value <= 95)


def _read(file: Path) -> dict[str, object]:
    """What the file says, nothing where there is none; raises `OSError`, `PreferencesBroken`."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError:
        raise PreferencesBroken(f"{file} is not UTF-8; it is left as it is.") from None
    if not text.strip():
        return {}
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PreferencesBroken(f"{file} is not TOML ({error}); it is left as it is.") from None


def remember(folder: Path, name: str, value: str | bool | int) -> None:
    """Have the chat begin with this from now on; raises `OSError`, `PreferencesBroken`.

    The file is replaced in one step, and keeps what else is written in it.
    """
    # Where the file is a link, as with settings kept in a repository, what it leads to is changed.
    file = (folder / FILE).resolve()
    _read(file)
    lines = file.read_text(encoding="utf-8-sig").splitlines() if file.exists() else []
    entry = f"{name} = {_toml(value)}"
    head = next((at for at, line in enumerate(lines) if line.startswith("[")), len(lines))
    place = next((at for at in range(head) if lines[at].partition("=")[0].strip() == name), None)
    if place is None:
        lines.insert(0, entry)  # at the top: behind a table's head it would belong to that
    else:
        lines[place] = entry
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        new.write_text("\n".join(lines) + "\n", encoding="utf-8")
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)


def _toml(value: str | bool | int) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
