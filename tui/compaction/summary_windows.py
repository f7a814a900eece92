"""Divides messages that exceed the context into windows, each summarised by its own request."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..chats.context_view import ViewEntry, without_middle

LEAST_ROOM = 256
"""Tokens of a window, however small the context is."""


def divide(entries: Sequence[ViewEntry], sizes: Sequence[int], room: int) -> list[list[ViewEntry]]:
    """Return runs of whole turns of at most `room` tokens; `sizes` are those of the entries.

    The messages of a turn that is longer than a window lose their middles.
    """
    room = max(LEAST_ROOM, room)
    windows: list[list[ViewEntry]] = []
    left = 0
    for turn in _turns(list(zip(entries, sizes, strict=True))):
        tokens = sum(size for _, size in turn)
        if tokens > room:
            share = room / tokens
            turn, tokens = [(_shortened(entry, share), size) for entry, size in turn], room
        if not windows or tokens > left:
            windows.append([])
            left = room
        windows[-1] += [entry for entry, _ in turn]
        left -= tokens
    return windows


def _turns(sized: Sequence[tuple[ViewEntry, int]]) -> list[list[tuple[ViewEntry, int]]]:
    turns: list[list[tuple[ViewEntry, int]]] = []
    for entry, size in sized:
        if not turns or entry.role == "user":
            turns.append([])
        turns[-1].append((entry, size))
    return turns


def _shortened(entry: ViewEntry, share: float) -> ViewEntry:
    """Return the entry with about this share of its text."""
    kept = max(0, round(len(entry.content) * share) - 40)  # the note of what is left out
    head = kept * 3 // 4
    text = without_middle(entry.content, head, kept - head)
    return msgspec.structs.replace(entry, content=text)
