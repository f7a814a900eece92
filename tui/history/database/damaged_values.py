"""Decodes JSON values of rows; a damaged value is left out and noted, so it hides nothing else."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import msgspec

from ingle.daemon.client.answer import prepared

T = TypeVar("T")

_noted: ContextVar[set[str] | None] = ContextVar("noted", default=None)


@contextmanager
def noting_damage() -> Generator[set[str]]:
    """Yield the set of what is left out in the block, each as the middle of a sentence."""
    found: set[str] = set()
    token = _noted.set(found)
    try:
        yield found
    finally:
        _noted.reset(token)


def note_damage(what: str) -> None:
    """Note that something was left out."""
    found = _noted.get()
    if found is not None:
        found.add(what)


def decode_value(body: str, as_type: type[T], what: str) -> T | None:
    """Return the value in a row, None if it is damaged; `what` names it in the report."""
    try:
        return msgspec.json.decode(body, type=prepared(as_type))
    except (msgspec.MsgspecError, UnicodeError, TypeError):
        note_damage(what)
        return None


class DamageReport:
    """Calls `on_trouble` with what was left out, once for each value."""

    def __init__(self, on_trouble: Callable[[str], None]) -> None:
        self._on_trouble = on_trouble
        self._reported: set[str] = set()

    @contextmanager
    def reporting(self) -> Generator[None]:
        """Report what is left out of the results in the block."""
        with noting_damage() as found:
            yield
        new = found - self._reported
        self._reported |= new
        if new:
            others = f" and {len(new) - 1} more" if len(new) > 1 else ""
            self._on_trouble(
                f"Parts of the chats are damaged and were left out: {min(new)}{others}. "
                "Everything else can be read."
            )
