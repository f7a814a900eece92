"""`CompletionItem`: one line of the list that completes what is being typed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CompletionItem:
    """What is shown, and what it puts in the place of the typed word.

    `runs` is a command that enter sends at once; `goes_on` is something half typed, such as a
    folder; `exact` is what was typed already. `make` is asked for the text where that takes time;
    None from it changes nothing.
    """

    label: str
    detail: str = ""
    insert: str = ""
    runs: bool = False
    goes_on: bool = False
    exact: bool = False
    make: Callable[[], Awaitable[str | None]] | None = None
