"""Results of chat commands; the screen and the plain chat present them, neither computes them."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..chats.command_refused import CommandRefused as CommandRefused  # for all commands
from .command_table import Command

Rows = list[tuple[str, str]]


class Done(msgspec.Struct, frozen=True, tag="done"):
    """A completed command, with a sentence for the user and the parts to redraw.

    `changed` is "path" if other messages are sent, "pin" if the message `at` was pinned or
    unpinned, "state" if the title, the settings or the model changed; else `at` is the message to
    show. `is_visible` is True if a screen shows the change anyway, so that only the plain chat
    needs the sentence.
    """

    sentence: str = ""
    changed: Literal["", "path", "pin", "state"] = ""
    at: str | None = None
    is_visible: bool = False
    is_warning: bool = False


class Facts(msgspec.Struct, frozen=True, tag="facts"):
    """Tables of names and values, by their titles."""

    tables: dict[str, Rows]


class CommandHelp(msgspec.Struct, frozen=True, tag="help"):
    """The commands of this front end, and those of others."""

    commands: list[Command]
    elsewhere: list[Command]


Result = Done | Facts | CommandHelp
