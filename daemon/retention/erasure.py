"""Erases what a selection covers, store by store."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..settings.config import Config
from ..stores.durable_file import writing_in
from .data_inventory import DATA_INVENTORY, DataStore, Extent
from .stored_files import erase_files

CHATS = "chats"
"""The store that is a database, from which only `ChatEraser` erases."""

MARKS = "marks"
"""The store that is the router's database, open in a running daemon."""


class ErasureSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Selects the items `ids`; without ids all last used from `since` on and before `before`.

    Times are Unix seconds, None is no bound. `at_latest` includes what was last used since then: KV
    that a model writes only when it is unloaded has no earlier time.
    """

    ids: frozenset[str] = frozenset()
    since: float | None = None
    before: float | None = None
    at_latest: float | None = None
    but: frozenset[str] = frozenset()

    def covers(self, name: str, used: float) -> bool:
        """Whether the item of this name, last used at this time, is selected."""
        if name in self.but:
            return False
        if self.ids:
            return name in self.ids
        if self.at_latest is not None and used >= self.at_latest:
            return True
        return (self.since is None or used >= self.since) and (
            self.before is None or used < self.before
        )

    @property
    def extent(self) -> Extent:
        """How it distinguishes items."""
        if self.ids:
            return "id"
        return "all" if self.since is None and self.before is None else "time"


class ErasureResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was erased from one store: `count` items of `bytes` on disk."""

    place: str
    what: str
    count: int
    bytes: int = 0


def places_for(selection: ErasureSelection, names: Iterable[str] = ()) -> list[DataStore]:
    """Return the stores to erase from: those named, else all that hold text, and the logs.

    Stores that cannot be erased in the way that the selection requires are left out.
    """
    places = {place.name: place for place in DATA_INVENTORY}
    usual = [name for name, place in places.items() if place.words or name in (MARKS, "logs")]
    found = [places[name] for name in list(names) or usual if name in places]
    return [place for place in found if selection.extent in place.erased_by]


def erase(
    config: Config,
    selection: ErasureSelection,
    places: Iterable[DataStore],
    *,
    dry_run: bool = False,
    limit: int | None = None,
) -> list[ErasureResult]:
    """Erase files, at most `limit` items per store, and return what was erased; blocking.

    `dry_run` only counts. Chats are left to `ChatEraser`. Raises `OSError` and `StorageFull`.
    """
    erased: list[ErasureResult] = []
    for place in places:
        if place.name == CHATS:
            continue
        things = [one for one in place.things(config.paths) if selection.covers(one.name, one.used)]
        things = sorted(things, key=lambda thing: thing.used)[:limit]  # least recently used first
        if not things:
            continue
        if not dry_run:
            with writing_in(place.path(config.paths)):
                # The daemon goes on writing to its log.
                erase_files(things, emptied=frozenset({config.paths.log}))
        erased.append(
            ErasureResult(
                place=place.name,
                what=place.what,
                count=len(things),
                bytes=sum(thing.size for thing in things),
            )
        )
    return erased
