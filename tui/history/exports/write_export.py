"""Writes an exported chat to a new file."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from ...chats.chat import Chat
from ..database.history_errors import HistoryError

FORMATS = ("md", "json", "html")
_UNFIT = re.compile(r"[^\w.-]+")
_RESERVED = re.compile(r"(?i:con|prn|aux|nul|com\d|lpt\d)\Z")


def parse_export(argument: str) -> tuple[str, str]:
    """Parse `/export md|json|html [PATH]` into format and path; either may be omitted."""
    first, _, rest = argument.strip().partition(" ")
    path = rest.strip()
    if first in FORMATS:
        return first, path
    path = argument.strip()
    ending = path.rpartition(".")[2].lower()
    return (ending if ending in FORMATS else "md"), path


def write_export(chat: Chat, kind: str, path: str, folder: Path) -> Path:
    """Write the chat; return the path. Raises `HistoryError`.

    Without a path the file is named by the title in `folder`, with a number if the name is taken; a
    folder as path replaces `folder`.
    """
    target = folder / Path(path.strip("\"'")).expanduser() if path else folder
    content = _exporter(kind)(chat).encode("utf-8", "replace")
    try:
        if not path or target.is_dir():
            return _write_beside(target, file_name(chat.title), kind, content)
        _write_new(target, content)
    except FileExistsError as error:
        raise HistoryError(f"{target} exists already.", "Give another name.") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise HistoryError(f"{target} cannot be written: {reason}.") from error
    return target


def file_name(title: str) -> str:
    """Return a title as a file name that every file system accepts."""
    name = _UNFIT.sub("-", title).strip("-. ")[:60].rstrip("-. ")
    return f"{name or 'chat'}_" if _RESERVED.match(name) else name or "chat"


def _write_beside(folder: Path, name: str, kind: str, content: bytes) -> Path:
    number = 1
    while True:
        target = folder / (f"{name}.{kind}" if number == 1 else f"{name}-{number}.{kind}")
        try:
            _write_new(target, content)
        except FileExistsError:
            number += 1
        else:
            return target


def _write_new(target: Path, content: bytes) -> None:
    """Create a new file atomically."""
    with target.open("xb") as file:
        try:
            file.write(content)
            file.flush()
        except OSError:
            target.unlink(missing_ok=True)
            raise


def _exporter(kind: str) -> Callable[[Chat], str]:
    if kind == "json":
        from ..ingle_json import export_json

        return export_json
    if kind == "html":
        from .export_html import export_html

        return export_html
    from .export_markdown import export_markdown

    return export_markdown
