"""Edits a text in the user's editor."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ..chats.command_refused import CommandRefused

_COMMON = ("sensible-editor", "nano", "vim", "vi")


class EditorFailed(CommandRefused):
    """The text could not be edited; the message gives the reason and the next step."""


def editor_command(env: Mapping[str, str]) -> list[str]:
    """Return the editor: $VISUAL, $EDITOR, else a common one; raises `EditorFailed`."""
    for name in ("VISUAL", "EDITOR"):
        value = env.get(name, "").strip()
        if not value:
            continue
        try:
            command = shlex.split(value, posix=sys.platform != "win32")
        except ValueError:
            command = []
        if not command or shutil.which(command[0]) is None:
            raise EditorFailed(f"${name} is {value!r}, which is not there. Set it to an editor.")
        return command
    if sys.platform == "win32":
        return ["notepad"]
    for name in _COMMON:
        if (program := shutil.which(name)) is not None:
            return [program]
    raise EditorFailed("There is no editor. Set $EDITOR to one, such as nano.")


def edit_text(text: str, env: Mapping[str, str] | None = None) -> str:
    """Return the edited text; the editor has the terminal while this blocks.

    The temporary file is readable by its owner only. Raises `EditorFailed`.
    """
    command = editor_command(os.environ if env is None else env)
    # mkstemp makes the file with 0600.
    fd, name = tempfile.mkstemp(prefix="ingle-", suffix=".md")
    path = Path(name)
    try:
        with os.fdopen(fd, "w", encoding="utf-8", newline="\n") as file:
            file.write(text + "\n")  # editors end the last line; a prompt does not
        status = subprocess.run([*command, name], check=False).returncode
        if status != 0:
            raise EditorFailed(f"{command[0]} ended with status {status}; the text is unchanged.")
        edited = path.read_text(encoding="utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise EditorFailed(f"{command[0]} could not be run: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise EditorFailed("What the editor left is not UTF-8; the text is unchanged.") from None
    finally:
        path.unlink(missing_ok=True)
    return edited.removesuffix("\n")
