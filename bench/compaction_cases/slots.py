"""Facts that a user may state, by class: half for tuning, half for reporting."""

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
    """A kind of fact: sentences (with the value at `{}`), questions, and values.

    A value is `expected|also right|…`. `correct` are phrasings of a correction, and `fresh` others
    written after the product was finished.
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
    """Read the file beside this one."""
    text = (Path(__file__).parent / "slots.toml").read_bytes()
    return msgspec.toml.decode(text, type=Slots)
