"""`ForgetRequest`: what is to be erased, as the API takes it, and what it answers."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ..settings.paths import Paths
from .data_inventory import DATA_INVENTORY, StoredData
from .erasure import ErasureResult
from .erasure_selection import ErasureSelection
from .response_chain import conversation_of

MEMORY = "memory"
"""The place that is no folder: answers to come back for, and what loaded models hold."""

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class KeptInMemory(msgspec.Struct, frozen=True):
    """Ended answers that a client may still come back for, and the models that are loaded."""

    answers: int
    models: list[str]


class KeptPlaces(msgspec.Struct, frozen=True):
    """Everything that is kept, place by place; `memory` is what only the daemon itself holds."""

    places: list[StoredData]
    memory: KeptInMemory


class ForgetRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to erase: `all`, things by their `ids`, or what was used from `since` to `before`.

    Times are Unix seconds. `places` narrows it to places of `/ingle/v1/kept`; without it, all that
    hold words of people, and the logs. `dry_run` erases nothing, and says what would go.
    """

    all: bool = False
    ids: Annotated[list[Id], msgspec.Meta(max_length=10_000)] = []
    since: float | None = None
    before: float | None = None
    places: list[Id] = []
    dry_run: bool = False


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """What went, and the models that were unloaded so that they forget.

    `left` says in sentences what was not erased, and why.
    """

    dry_run: bool
    erased: list[ErasureResult]
    unloaded: list[str] = []
    left: list[str] = []


class BadSelection(Exception):
    """A request that leaves open what should go; `param` is the field that is wrong."""

    def __init__(self, message: str, hint: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.param = param


def check(request: ForgetRequest) -> None:
    """Raises `BadSelection`."""
    by_time = request.since is not None or request.before is not None
    if sum((request.all, bool(request.ids), by_time)) != 1:
        raise BadSelection(
            "Say what to forget: all, things by their ids, or a time, and one of these only."
        )
    known = {place.name for place in DATA_INVENTORY if place.erased_by} | {MEMORY}
    for name in request.places:
        if name not in known:
            raise BadSelection(
                f"'{name}' is no place that can be erased.",
                f"These are: {', '.join(sorted(known))}.",
                "places",
            )


def selection_of(request: ForgetRequest, paths: Paths) -> ErasureSelection:
    """What the request covers, with all of the conversations it names a response of; blocking."""
    ids = frozenset(request.ids)
    for name in request.ids:
        if name.startswith("resp_"):
            ids |= conversation_of(paths.responses, name)
    return ErasureSelection(ids=ids, since=request.since, before=request.before)
