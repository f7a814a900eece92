"""The daemon's address and model for a program, and the folders of programs on this machine."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

NO_KEY = "local"
"""Placeholder for programs that require a key when ingle needs none."""


@dataclass(frozen=True, kw_only=True)
class ConnectTarget:
    """The daemon's HTTP address without a path, a model with its context, and maybe a key."""

    url: str
    model: str
    context: int
    key: str | None = None

    @property
    def openai_url(self) -> str:
        """The base URL of OpenAI's routes."""
        return f"{self.url}/v1"

    @property
    def word(self) -> str:
        """The key, or its placeholder."""
        return self.key or NO_KEY

    @property
    def answer_tokens(self) -> int:
        """Tokens of the context that a program should reserve for an answer."""
        return max(256, min(8192, self.context // 4))


@dataclass(frozen=True)
class ProgramFolders:
    """Settings folders and installed programs of one user, by default the current one."""

    home: Path = field(default_factory=Path.home)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    platform: str = sys.platform

    def config(self, name: str) -> Path:
        """Return a program's folder below the user's configuration."""
        base = self.environ.get("XDG_CONFIG_HOME", "")
        return (Path(base) if base.startswith("/") else self.home / ".config") / name

    def application(self, name: str) -> Path:
        """Return a desktop program's settings folder: in `~/.config`, or the system's
        equivalent.
        """
        if self.platform == "darwin":
            return self.home / "Library/Application Support" / name
        if self.platform == "win32":
            return Path(self.environ.get("APPDATA") or self.home / "AppData/Roaming") / name
        return self.config(name)

    def named(self, variable: str, default: str) -> Path:
        """Return the folder that a variable names, else one in the home folder."""
        if value := self.environ.get(variable):
            return Path(value).expanduser()
        return self.home / default

    def has_program(self, name: str) -> bool:
        """Whether it is on the search path."""
        return shutil.which(name, path=self.environ.get("PATH")) is not None

    def has_extension(self, prefix: str) -> bool:
        """Whether VS Code, or an editor derived from it, has an extension with this prefix."""
        editors = (".vscode", ".vscode-insiders", ".vscode-oss", ".cursor", ".windsurf")
        return any(
            any((self.home / editor / "extensions").glob(f"{prefix}-*")) for editor in editors
        )
