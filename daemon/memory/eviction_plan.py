"""Chooses which models to evict for another: a pure function of numbers.

Evicting a model costs the seconds to restore it (reading its weights, recomputing the tokens of its
conversations that are not on disk) times the probability of its next use. Recent uses stand for
that probability, each halved after every `HALF_LIFE` seconds (see `UsageRecord`), so frequency and
recency both count. Of all sets of idle models that free enough memory, the cheapest is evicted:

- busy and pinned models are never evicted;
- a model whose requested keep-alive has not expired is evicted only if no other set is enough: a
  keep-alive is a preference, a pin is a guarantee;
- a model that is about to be unloaded costs nothing;
- among equal costs: fewer models, then fewer bytes, then least recently used.

A set with an unnecessary model always costs more than the same set without it.

Host memory and the memory of each GPU have to suffice.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations

import msgspec

from ingle.models.fit.memory_needs import MemoryNeeds

from ..model_process.model_history import decayed

START_SECONDS = 2.0
"""Seconds to start a process, load its libraries and run the first step."""
READ_RATE = 1.5e9
"""Bytes per second at which weights are read, from a current disk or the page cache."""
PROMPT_RATE = 200.0
"""Prefill tokens per second, if none were measured."""
_EXHAUSTIVE = 10
"""Largest number of models for which all subsets (about a thousand) are tried."""


class ResidentModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that holds memory.

    `last_used` is a time on any monotonic clock, `uses` the decayed count at that time (see
    `decayed`), and `reload_seconds` the cost of restoring the model.
    """

    key: str
    needs: MemoryNeeds
    last_used: float
    uses: float = 1.0
    reload_seconds: float = START_SECONDS
    busy: bool = False
    pinned: bool = False
    kept: bool = False
    is_ending: bool = False

    @property
    def is_evictable(self) -> bool:
        """Whether it may be evicted now."""
        return not self.busy and not self.pinned


class EvictionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The models to evict; `free_after` is the free memory afterwards."""

    fits: bool
    evict: tuple[str, ...] = ()
    free_after: MemoryNeeds
    blockers: tuple[str, ...] = ()
    """Busy models that have to finish first; with their memory it fits."""

    pinned: tuple[str, ...] = ()
    """Pinned models without which it would fit."""


def plan_eviction(
    needs: MemoryNeeds, loaded: Sequence[ResidentModel], free: MemoryNeeds
) -> EvictionPlan:
    """Return the models to evict for `needs`; none if evicting all idle ones is not enough.

    If busy models have to finish first, names the smallest set of them that is enough.
    """
    idle = [o for o in loaded if o.is_evictable]
    if (chosen := _cheapest(needs, idle, free)) is not None:
        return EvictionPlan(
            fits=True, evict=tuple(o.key for o in chosen), free_after=free + _sum(chosen)
        )
    evictable = [o for o in loaded if not o.pinned]
    waited_for = _cheapest(needs, evictable, free)
    blockers = [o for o in waited_for or () if o.busy]
    pinned = [o for o in loaded if o.pinned]
    frees = waited_for is None and needs.fits_in(free + _sum(loaded))
    return EvictionPlan(
        fits=False,
        free_after=free + _sum(idle),
        blockers=tuple(o.key for o in blockers),
        pinned=tuple(o.key for o in pinned) if frees else (),
    )


def reload_seconds(weights: int, lost_tokens: int, prompt_rate: float = 0.0) -> float:
    """Return the seconds to restore a model: `weights` bytes to read, some tokens to recompute."""
    return START_SECONDS + weights / READ_RATE + lost_tokens / (prompt_rate or PROMPT_RATE)


def _cheapest(
    needs: MemoryNeeds, evictable: Sequence[ResidentModel], free: MemoryNeeds
) -> tuple[ResidentModel, ...] | None:
    """Return the cheapest sufficient set, least recently used first; None if there is none."""
    if needs.fits_in(free):
        return ()
    if not needs.fits_in(free + _sum(evictable)):
        return None
    newest = max(o.last_used for o in evictable)
    ordered = sorted(evictable, key=lambda o: (o.last_used, o.key))
    if len(ordered) > _EXHAUSTIVE:
        return _greedy(needs, ordered, free, newest)
    sizes = range(1, len(ordered) + 1)
    subsets = chain.from_iterable(combinations(ordered, size) for size in sizes)
    enough = [s for s in subsets if needs.fits_in(free + _sum(s))]
    return min(enough, key=lambda chosen: _cost(chosen, newest))


def _cost(chosen: Sequence[ResidentModel], newest: float) -> tuple[int, int, float, int, int]:
    # The first of equal sets wins, and subsets start with the least recently used models.
    return (
        sum(o.busy for o in chosen),
        sum(o.kept and not o.is_ending for o in chosen),
        sum(_eviction_cost(o, newest) for o in chosen),
        len(chosen),
        _sum(chosen).total,
    )


def _greedy(
    needs: MemoryNeeds, ordered: Sequence[ResidentModel], free: MemoryNeeds, newest: float
) -> tuple[ResidentModel, ...]:
    """Return a nearly cheapest set of many models: add one by one, then drop unnecessary ones."""
    by_cost = sorted(ordered, key=lambda o: _cost((o,), newest))
    chosen: list[ResidentModel] = []
    for resident in by_cost:
        if needs.fits_in(free + _sum(chosen)):
            break
        chosen.append(resident)
    for resident in reversed(chosen[:]):
        rest = [o for o in chosen if o is not resident]
        if needs.fits_in(free + _sum(rest)):
            chosen = rest
    return tuple(o for o in ordered if o in chosen)


def _eviction_cost(resident: ResidentModel, newest: float) -> float:
    if resident.is_ending:
        return 0.0
    likely = decayed(resident.uses, newest - resident.last_used)
    return likely * resident.reload_seconds


def _sum(residents: Sequence[ResidentModel]) -> MemoryNeeds:
    return sum((resident.needs for resident in residents), MemoryNeeds())
