"""Where the packages of an engine come from, and how their installation reports its progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Step = Literal["resolving", "downloading", "building", "checking"]


@dataclass(frozen=True)
class ClientProgress:
    """`done` of `total` are bytes while downloading, and steps while building; 0 if unknown."""

    step: Step = "resolving"
    done: int = 0
    total: int = 0
    detail: str = ""


OnProgress = Callable[[ClientProgress], None]


@dataclass(frozen=True)
class PackageSource:
    """Where packages come from, beside the user's own settings of uv and pip.

    `index` is the address of an index or a folder of wheels, which is then the only source.
    `offline`: only a folder of wheels and the client's cache may be used.
    """

    index: str = ""
    offline: bool = False

    @property
    def is_folder(self) -> bool:
        """Whether `index` is a folder of wheels."""
        return bool(self.index) and "://" not in self.index

    def arguments(self, *, uv: bool) -> list[str]:
        """Return the options for uv or pip."""
        if self.is_folder:
            return ["--no-index", "--find-links", str(Path(self.index).expanduser())]
        options = ["--offline"] if self.offline and uv else ["--no-index"] if self.offline else []
        if self.index:
            options += ["--index" if uv else "--extra-index-url", self.index]
        return options
