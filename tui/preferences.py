"""`Preferences`: what a person set for the chat itself, in `chat.toml` beside the other settings.

Read before the first frame, which has its colours: a file that is not there costs nothing.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

FILE = "chat.toml"


class Preferences(NamedTuple):
    """`theme` "" leaves the choice to the terminal; without `motion` nothing moves or flashes."""

    theme: str = ""
    motion: bool = True


def load_preferences(folder: Path | None) -> Preferences:
    """What the file says; what it does not say, or says wrongly, is as it would be without it."""
    try:
        text = (folder / FILE).read_text(encoding="utf-8") if folder is not None else ""
    except (OSError, UnicodeDecodeError):
        return Preferences()
    if not text:
        return Preferences()
    import tomllib

    try:
        said = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return Preferences()
    theme, motion = said.get("theme", ""), said.get("motion", True)
    return Preferences(
        theme if isinstance(theme, str) else "", motion if isinstance(motion, bool) else True
    )


def remember_theme(folder: Path, theme: str) -> None:
    """Have the chat begin with this theme from now on; raises `OSError`."""
    file = folder / FILE
    lines: list[str] = []
    with suppress(FileNotFoundError):
        lines = file.read_text(encoding="utf-8").splitlines()
    others = [line for line in lines if line.partition("=")[0].strip() != "theme"]
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    # At the top: behind a table's head it would belong to that.
    file.write_text("\n".join([f'theme = "{theme}"', *others]) + "\n", encoding="utf-8")
