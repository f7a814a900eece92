"""Which loaded models make room for another: a pure decision over numbers.

A model is worth what its going would cost: the seconds until it is as it was (its weights read
again, and of the conversations it holds whatever is not on disk computed again), times how likely
it is to be asked soon. For that stand its uses of late, each of which counts half after every
`HALF_LIFE` seconds, so that both how often and how recently it was used count. Among all sets of
idle models whose memory is enough, the one goes that costs least:

- busy and pinned models are in none of them;
- one that somebody asked to keep, for a time that is not over, goes only where no others are
  enough: a keep-alive is a wish, only a pin is a promise;
- one that is on its way out anyway costs nothing;
- of sets that cost the same, the one of fewer models, then of fewer bytes, then of those used
  longest ago. So nobody goes without need: a set with a needless model costs more than without.

Memory is of two kinds, the machine's and the GPU's, and a set has to be enough in both. Several
GPUs count as the one that models are loaded on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import msgspec

from ingle.models.fit.memory_needs import MemoryNeeds

from ..model_process.usage_record import decayed

START_SECONDS = 2.0
"""A process, its libraries and the first step."""
READ_RATE = 1.5e9
"""Bytes a second that weights come in with, from a disk of today or from the system's cache."""
PROMPT_RATE = 200.0
"""Tokens a second that a prompt is read with, where none was measured."""
_EXHAUSTIVE = 10
"""So many models have a thousand subsets, of which every one can be looked at."""


class MemoryDemand(msgspec.Struct, frozen=True):
    """The model somebody wants, and the memory it will take."""

    name: str
    needs: MemoryNeeds


class ResidentModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that holds memory.

    `last_used` is any clock that only grows, `uses` those counted at that moment, of which older
    ones count less (see `decayed`), and `reload_seconds` what it costs to have it back.
    """

    key: str
    needs: MemoryNeeds
    last_used: float
    uses: float = 1.0
    reload_seconds: float = START_SECONDS
    busy: bool = False
    pinned: bool = False
    kept: bool = False
    leaving: bool = False


class EvictionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What has to happen first; `free_after` is what there is once it has."""

    fits: bool
    evict: tuple[str, ...] = ()
    free_after: MemoryNeeds
    blockers: tuple[str, ...] = ()
    """Busy models whose end has to be waited for; it fits when they, too, are gone."""

    pinned: tuple[str, ...] = ()
    """Pinned models without which alone it would fit, now or later."""


def plan_eviction(
    wanted: MemoryDemand, loaded: Sequence[ResidentModel], free: MemoryNeeds
) -> EvictionPlan:
    """The idle models that go, as the module describes; none where all are not enough.

    Where busy models have to end first, those are named whose end makes room soonest: the fewest.
    """
    idle = [o for o in loaded if not o.busy and not o.pinned]
    if (chosen := _cheapest(wanted.needs, idle, free)) is not None:
        return EvictionPlan(
            fits=True, evict=tuple(o.key for o in chosen), free_after=free + _sum(chosen)
        )
    movable = [o for o in loaded if not o.pinned]
    waited_for = _cheapest(wanted.needs, movable, free)
    blockers = [o for o in waited_for or () if o.busy]
    pinned = [o for o in loaded if o.pinned]
    frees = waited_for is None and wanted.needs.fits_in(free + _sum(loaded))
    return EvictionPlan(
        fits=False,
        free_after=free + _sum(idle),
        blockers=tuple(o.key for o in blockers),
        pinned=tuple(o.key for o in pinned) if frees else (),
    )


def reload_seconds(weights: int, lost_tokens: int, prompt_rate: float = 0.0) -> float:
    """What it costs to have a model back: bytes to read, tokens to compute once more."""
    return START_SECONDS + weights / READ_RATE + lost_tokens / (prompt_rate or PROMPT_RATE)


def _cheapest(
    needs: MemoryNeeds, movable: Sequence[ResidentModel], free: MemoryNeeds
) -> tuple[ResidentModel, ...] | None:
    """The set that costs least of those that are enough, in the order of their last use."""
    if needs.fits_in(free):
        return ()
    if not needs.fits_in(free + _sum(movable)):
        return None
    newest = max(o.last_used for o in movable)
    ordered = sorted(movable, key=lambda o: (o.last_used, o.key))
    if len(ordered) > _EXHAUSTIVE:
        return _greedy(needs, ordered, free, newest)
    enough = [s for s in _subsets(ordered) if needs.fits_in(free + _sum(s))]
    return min(enough, key=lambda chosen: _cost(chosen, newest))


def _subsets(occupants: Sequence[ResidentModel]) -> Iterator[tuple[ResidentModel, ...]]:
    for count in range(1, len(occupants) + 1):
        yield from combinations(occupants, count)


def _cost(chosen: Sequence[ResidentModel], newest: float) -> tuple[int, int, float, int, int]:
    # Of equal ones the first counts, and subsets come with those used longest ago first.
    return (
        sum(o.busy for o in chosen),
        sum(o.kept and not o.leaving for o in chosen),
        sum(_harm(o, newest) for o in chosen),
        len(chosen),
        _sum(chosen).total,
    )


def _greedy(
    needs: MemoryNeeds, ordered: Sequence[ResidentModel], free: MemoryNeeds, newest: float
) -> tuple[ResidentModel, ...]:
    """Nearly the cheapest of many: one by one, then without those that turn out not needed."""
    by_cost = sorted(ordered, key=lambda o: _cost((o,), newest))
    chosen: list[ResidentModel] = []
    for occupant in by_cost:
        if needs.fits_in(free + _sum(chosen)):
            break
        chosen.append(occupant)
    for occupant in reversed(chosen[:]):
        rest = [o for o in chosen if o is not occupant]
        if needs.fits_in(free + _sum(rest)):
            chosen = rest
    return tuple(o for o in ordered if o in chosen)


def _harm(occupant: ResidentModel, newest: float) -> float:
    if occupant.leaving:
        return 0.0
    likely = decayed(occupant.uses, newest - occupant.last_used)
    return likely * occupant.reload_seconds


def _sum(occupants: Sequence[ResidentModel]) -> MemoryNeeds:
    return sum((occupant.needs for occupant in occupants), MemoryNeeds())
