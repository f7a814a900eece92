"""Finds the stored responses that belong to one conversation."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import msgspec


class _Answer(msgspec.Struct):
    id: str
    previous_response_id: str | None = None


class _Stored(msgspec.Struct):
    response: _Answer


def conversation_of(folder: Path, response_id: str) -> frozenset[str]:
    """Return the ids of a stored response, its predecessors, and all that follow any of them.

    Reads the whole folder; a damaged response counts as a conversation of its own.
    """
    neighbours: dict[str, set[str]] = defaultdict(set)
    decoder = msgspec.json.Decoder(_Stored)
    for path in folder.glob("resp_*.json"):
        with suppress(OSError, msgspec.MsgspecError):
            answer = decoder.decode(path.read_bytes()).response
            if answer.previous_response_id is not None:
                neighbours[answer.id].add(answer.previous_response_id)
                neighbours[answer.previous_response_id].add(answer.id)
    found, waiting = {response_id}, [response_id]
    while waiting:
        for neighbour in neighbours[waiting.pop()] - found:
            found.add(neighbour)
            waiting.append(neighbour)
    return frozenset(found)
