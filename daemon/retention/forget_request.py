"""Request and response types of the erasure API."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec

from ingle.models.struct_preparation import prepared

from ..batches.batch_record import BatchStore
from ..errors import InvalidBody, NotFound
from ..settings.paths import Paths
from .data_inventory import DATA_INVENTORY, StoredData
from .erasure import ErasureResult, ErasureSelection

MEMORY = "memory"
"""Data in memory, not in a folder: answers that can be resumed, and the caches of loaded models."""

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class KeptInMemory(msgspec.Struct, frozen=True):
    """Finished answers that a client can still resume, and the loaded models."""

    answers: int
    models: list[str]


class KeptPlaces(msgspec.Struct, frozen=True):
    """All stored data, by store; `memory` is what only the daemon holds."""

    places: list[StoredData]
    memory: KeptInMemory


class ForgetRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to erase: `all`, items by their `ids`, or what was used from `since` to `before`.

    Times are Unix seconds. `places` restricts it to stores of `/ingle/v1/kept`; by default all that
    hold text of people, and the logs. `dry_run` erases nothing, and returns what would be erased.
    """

    all: bool = False
    ids: Annotated[list[Id], msgspec.Meta(max_length=10_000)] = []
    since: float | None = None
    before: float | None = None
    places: list[Id] = []
    dry_run: bool = False


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """What was erased, and the models that were unloaded to erase their caches.

    `left` has one sentence for each thing that was not erased, with the reason.
    """

    dry_run: bool
    erased: list[ErasureResult]
    unloaded: list[str] = []
    left: list[str] = []


def check(request: ForgetRequest) -> None:
    """Raise `InvalidBody` if the request does not say clearly what to erase."""
    by_time = request.since is not None or request.before is not None
    if sum((request.all, bool(request.ids), by_time)) != 1:
        raise InvalidBody(
            "Say what to forget: all, items by their ids, or a time, and only one of these."
        )
    known = {place.name for place in DATA_INVENTORY if place.erased_by} | {MEMORY}
    for name in request.places:
        if name not in known:
            raise InvalidBody(
                f"'{name}' is not a place that can be erased.",
                hint=f"Places that can be: {', '.join(sorted(known))}.",
                param="places",
            )


def selection_of(request: ForgetRequest, paths: Paths) -> ErasureSelection:
    """Return the selection, extended to whole conversations of the responses it names; blocking.

    A batch of Anthropic's is erased with its files, which its client does not know.
    """
    ids = frozenset(request.ids)
    for name in request.ids:
        if name.startswith(("resp_", "conv_")):
            ids |= conversation_of(paths.responses, name)
        elif name.startswith("msgbatch_"):
            with suppress(NotFound):
                ids |= BatchStore(paths.batches).get(name).file_ids
    return ErasureSelection(ids=ids, since=request.since, before=request.before)


class _Conversation(msgspec.Struct):
    id: str


class _Answer(msgspec.Struct):
    id: str
    previous_response_id: str | None = None
    conversation: _Conversation | None = None


class _Stored(msgspec.Struct):
    response: _Answer


def conversation_of(folder: Path, response_id: str) -> frozenset[str]:
    """Return the ids of a stored response, its predecessors, and all that follow any of them.

    A conversation that is an object is linked with all its responses. Reads the whole folder; a
    damaged response counts as a conversation of its own.
    """
    neighbours: dict[str, set[str]] = defaultdict(set)
    decoder = msgspec.json.Decoder(prepared(_Stored))
    for path in folder.glob("resp_*.json"):
        with suppress(OSError, msgspec.MsgspecError):
            answer = decoder.decode(path.read_bytes()).response
            place = answer.conversation.id if answer.conversation is not None else None
            for other in filter(None, (answer.previous_response_id, place)):
                neighbours[answer.id].add(other)
                neighbours[other].add(answer.id)
    found, waiting = {response_id}, [response_id]
    while waiting:
        for neighbour in neighbours[waiting.pop()] - found:
            found.add(neighbour)
            waiting.append(neighbour)
    return frozenset(found)
