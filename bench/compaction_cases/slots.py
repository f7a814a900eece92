"""Things a user can say in a chat, by class: half of them to tune with, the others to report."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

Kind = Literal[
    "name",
    "number",
    "date",
    "code",
    "preference",
    "rule",
    "decision",
    "correction",
    "open",
    "never said",
]


class Slot(msgspec.Struct, frozen=True):
    """One thing that can be said: how (the value at `{}`), how it is asked for, what it can be.

    A value is `said|also right|…`. `correct` are phrasings of a new value, for corrections, and
    `fresh` others that were written when the product was done.
    """

    kind: Kind
    ask: str
    say: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    correct: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()


class Slots(msgspec.Struct, frozen=True):
    """The two halves, which have no slot in common."""

    tune: tuple[Slot, ...]
    report: tuple[Slot, ...]


def load_slots() -> Slots:
    """What the file beside this one says."""
    text = (Path(__file__).parent / "slots.toml").read_bytes()
    return msgspec.toml.decode(text, type=Slots)
