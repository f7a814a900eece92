"""Personas: a system prompt, a model and sampling under a name, one file each."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec

from ..chats.command_refused import CommandRefused

FOLDER = "personas"
"""The folder of personas inside the folder of settings."""
_NAME = re.compile(r"[\w-]{1,40}\Z")


class Persona(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that a chat takes over; "" and no sampling leave them to the model."""

    system: str = ""
    model: str = ""
    thinking: str = ""
    sampling: dict[str, float] = {}


def persona_names(config: Path | None) -> list[str]:
    """Return the names of all personas, sorted."""
    if config is None:
        return []
    names = (file.stem for file in (config / FOLDER).glob("*.toml"))
    return sorted(name for name in names if _NAME.match(name))


def load_persona(config: Path | None, name: str) -> Persona:
    """Read a persona; raises `CommandRefused` if there is none, or its file is invalid."""
    if config is None or name not in persona_names(config):
        known = ", ".join(persona_names(config))
        hint = f"There are: {known}." if known else "/persona save NAME keeps this chat's settings."
        raise CommandRefused(f"There is no persona {name}.", hint)
    file = _file(config, name)
    try:
        return msgspec.toml.decode(file.read_bytes(), type=Persona)
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise CommandRefused(f"{file} cannot be read: {error}", "Mend the file.") from error


def save_persona(config: Path, name: str, persona: Persona) -> Path:
    """Write a persona, and return its file; raises `CommandRefused`."""
    if not _NAME.match(name):
        raise CommandRefused("A persona's name has letters, digits, - and _ only.")
    # Strings of JSON are strings of TOML, except that TOML wants the delete character escaped.
    texts = {key: getattr(persona, key) for key in ("system", "model", "thinking")}
    lines = [f"{key} = {json.dumps(text)}" for key, text in texts.items() if text]
    lines = [line.replace("\x7f", "\\u007f") for line in lines]
    if persona.sampling:
        pairs = ", ".join(f"{key} = {value!r}" for key, value in persona.sampling.items())
        lines.append(f"sampling = {{ {pairs} }}")
    file = _file(config, name)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise CommandRefused(f"{file} cannot be written: {error.strerror}.") from error
    return file


def delete_persona(config: Path | None, name: str) -> None:
    """Delete a persona; raises `CommandRefused` if there is none."""
    load_persona(config, name)
    assert config is not None
    _file(config, name).unlink(missing_ok=True)


def _file(config: Path, name: str) -> Path:
    return config / FOLDER / f"{name}.toml"
