"""Which loaded models make room for another: a pure decision over numbers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Demand(msgspec.Struct, frozen=True):
    """The model somebody wants, and the bytes it will take."""

    name: str
    size: int


class Occupant(msgspec.Struct, frozen=True):
    """A model that holds memory; `last_used` is any clock that only grows."""

    key: str
    size: int
    busy: bool
    last_used: float


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """What has to happen first; `free_after` counts the bytes once it has."""

    fits: bool
    evict: tuple[str, ...] = ()
    free_after: int
    blockers: tuple[str, ...] = ()
    """Busy models without which it would fit."""


def plan(wanted: Demand, loaded: Sequence[Occupant], free: int) -> Placement:
    """Evict idle models, least recently used first, and only those whose bytes are needed.

    A busy model is never evicted. Where even all idle ones are not enough none is: it would hurt
    without helping.
    """
    idle = sorted((o for o in loaded if not o.busy), key=lambda o: o.last_used)
    chosen: list[Occupant] = []
    for occupant in idle:
        if free + _size(chosen) >= wanted.size:
            break
        chosen.append(occupant)
    if free + _size(chosen) < wanted.size:
        return _refuse(wanted, loaded, free + _size(chosen))
    # The last one chosen may be so large that an older, smaller one can stay; spare the newest.
    for occupant in reversed(chosen[:-1]):
        rest = [o for o in chosen if o is not occupant]
        if free + _size(rest) >= wanted.size:
            chosen = rest
    return Placement(fits=True, evict=tuple(o.key for o in chosen), free_after=free + _size(chosen))


def _refuse(wanted: Demand, loaded: Sequence[Occupant], free_at_most: int) -> Placement:
    busy = [o for o in loaded if o.busy]
    enough = free_at_most + _size(busy) >= wanted.size
    return Placement(
        fits=False,
        free_after=free_at_most,
        blockers=tuple(o.key for o in busy) if enough else (),
    )


def _size(occupants: Sequence[Occupant]) -> int:
    return sum(occupant.size for occupant in occupants)
