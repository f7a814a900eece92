"""`erase`: remove from the disk what a selection covers, place by place."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..settings.config import Config
from ..stores.durable_file import storage_error
from .data_inventory import DATA_INVENTORY, DataStore, Extent, find_place
from .erasure_selection import ErasureSelection
from .stored_files import chosen, erase_files

CHATS = "chats"
"""The place that is a database, which `ChatEraser` knows how to erase from."""

MARKS = "marks"
"""The place that is the router's database, open in a daemon that runs."""


class ErasureResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was erased at one place: `count` things of `bytes` on the disk."""

    place: str
    what: str
    count: int
    bytes: int = 0


def extent_of(selection: ErasureSelection) -> Extent:
    """What the selection tells things apart by."""
    if selection.ids:
        return "id"
    return "all" if selection.is_all else "time"


def places_for(selection: ErasureSelection, names: Iterable[str] = ()) -> list[DataStore]:
    """The places that this selection erases from: those named, else all with words, and the logs.

    Places that cannot be erased by what the selection tells things apart by are left out.
    """
    wanted = list(names)
    found = [find_place(name) for name in wanted] if wanted else _usual()
    extent = extent_of(selection)
    return [place for place in found if place is not None and extent in place.erased_by]


def _usual() -> list[DataStore]:
    return [place for place in DATA_INVENTORY if place.words or place.name in (MARKS, "logs")]


def erase(
    config: Config,
    selection: ErasureSelection,
    places: Iterable[DataStore],
    *,
    dry_run: bool = False,
    limit: int | None = None,
    but: Iterable[str] = (),
) -> list[ErasureResult]:
    """Erase files, at most `limit` things a place, and say what went; blocking.

    `dry_run` only counts. Chats are left to `ChatEraser`, the places in `but` alone.
    Raises `OSError` and `StorageFull`.
    """
    erased: list[ErasureResult] = []
    for place in places:
        if place.name == CHATS or place.name in but:
            continue
        things = chosen(place.things(config.paths), selection, limit=limit)
        if not things:
            continue
        if not dry_run:
            try:
                # The daemon goes on writing to its log.
                erase_files(things, emptied=frozenset({config.paths.log}))
            except OSError as error:
                raise storage_error(error, place.path(config.paths)) from error
        erased.append(
            ErasureResult(
                place=place.name,
                what=place.what,
                count=len(things),
                bytes=sum(thing.size for thing in things),
            )
        )
    return erased
