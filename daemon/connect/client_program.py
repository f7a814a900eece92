"""A program that ingle can be connected to: its files and its requirements."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .connect_target import ConnectTarget, ProgramFolders
from .settings_file import SettingsFile


def _no_files(target: ConnectTarget, places: ProgramFolders) -> list[SettingsFile]:
    return []


@dataclass(frozen=True, kw_only=True)
class ClientProgram:
    """One program: `tokens` is the length of its own instructions, 0 if they are short.

    `notes` are for the user: remaining steps, or all of them if ingle writes no file. `stays` says
    how to select ingle where the user has chosen another default, which is kept, and `selects` are
    arguments that do it for one start. `exports` are the equivalent environment variables for one
    shell. `probes` are the test requests that it would make, names in `connection_probe.PROBES`.
    With `takes_key` its settings have a place for a key.
    With `names_folder` its instructions say where it works, or another detail of the session.
    `command` starts it in a terminal, "" if it is none that does. `agent` is what it calls itself
    in requests or the model in instructions, "" if that begins with its name.
    """

    name: str
    title: str
    aliases: Sequence[str] = ()
    speaks: str
    command: str = ""
    agent: str = ""
    installed: Callable[[ProgramFolders], bool]
    files: Callable[[ConnectTarget, ProgramFolders], list[SettingsFile]] = _no_files
    notes: Callable[[ConnectTarget], list[str]] = lambda target: []
    stays: str = ""
    selects: Callable[[ConnectTarget], list[str]] = lambda target: []
    exports: Callable[[ConnectTarget], list[tuple[str, str]]] = lambda target: []
    probes: Sequence[str]
    tokens: int = 0
    names_folder: bool = False
    codes: bool = True
    takes_key: bool = True

    def what_stays(self, target: ConnectTarget) -> list[str]:
        """Return the note that another default is kept; none if that needs none."""
        how = f"`{self.command} {shlex.join(self.selects(target))}` selects ingle's model."
        return [self.stays.format(how=how)] if self.stays else []

    @property
    def writes(self) -> bool:
        """Whether ingle can write its settings files."""
        return self.files is not _no_files
