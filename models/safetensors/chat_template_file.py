"""The chat template of a model folder, from any of the files that may hold it."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from ..json_object import read_bounded, read_json_object

_LARGEST = 1 << 20
_FILE = "chat_template.jinja"
# The second is an older habit of models that also see.
_SETTINGS = ("tokenizer_config.json", "chat_template.json")
_DEFAULT = "default"


def read_chat_template(folder: Path) -> str | None:
    """The Jinja source, or None if the folder has none; raises `InvalidModel`.

    Of several named templates the one for plain chats.
    """
    try:
        return read_bounded(folder / _FILE, _LARGEST).decode("utf-8", "replace")
    except FileNotFoundError:
        pass  # the usual place before that file was invented comes next
    for name in _SETTINGS:
        settings = read_json_object(folder / name) or {}
        if source := _chosen(settings.get("chat_template")):
            return source
    return None


def _chosen(found: object) -> str | None:
    if isinstance(found, str):
        return found or None
    named = _by_name(found)
    return named.get(_DEFAULT) or next(iter(named.values()), None)


def _by_name(found: object) -> dict[str, str]:
    """Templates by name, from a list of `{"name": …, "template": …}`."""
    named: dict[str, str] = {}
    for entry in cast("list[object]", found) if isinstance(found, list) else ():
        if isinstance(entry, dict):
            fields = cast("dict[str, object]", entry)
            name, source = fields.get("name"), fields.get("template")
            if isinstance(name, str) and isinstance(source, str):
                named[name] = source
    return named
