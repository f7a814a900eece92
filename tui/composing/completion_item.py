"""One entry of the completion list."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CompletionItem:
    """The text shown, and the text inserted in place of the typed word.

    `runs` is a command that enter sends at once; `is_incomplete` is incomplete, such as a folder;
    `exact` equals the typed text. `make` produces the text if that takes time; None from it changes
    nothing.
    """

    label: str
    detail: str = ""
    insert: str = ""
    runs: bool = False
    is_incomplete: bool = False
    exact: bool = False
    make: Callable[[], Awaitable[str | None]] | None = None
