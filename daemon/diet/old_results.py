"""Old results of tools in a few lines, until the model asks for one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from msgspec.structs import replace

from ingle.backends.base.conversation import ChatMessage

LEAST_CHARACTERS = 1_000
"""Shorter results stay as they are."""
_BEGINNING = 300
_DIGEST = 12


def digest_of(text: str) -> str:
    """Return what a shortened result is asked for by."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:_DIGEST]


def shorten_results(
    messages: Sequence[ChatMessage], space: int, recall: str
) -> tuple[list[ChatMessage], dict[str, str]]:
    """Return the messages with old results shortened, and the texts of those by digest.

    Once the results in full exceed `space` characters, all but those that followed the last answer
    are shortened, and stay so: a conversation that goes on begins as it did before. `recall` is the
    name of the tool that returns them.
    """
    said = list(messages)
    texts: dict[str, str] = {}
    full: list[int] = []
    latest: list[int] = []
    for place, message in enumerate(messages):
        if message.role == "assistant":
            full, latest = _kept(said, texts, (full, latest), space, recall), []
        elif message.role == "tool" and not (message.pictures or message.documents):
            latest.append(place)
    _kept(said, texts, (full, latest), space, recall)
    return said, texts


def _kept(
    said: list[ChatMessage],
    texts: dict[str, str],
    results: tuple[list[int], list[int]],
    space: int,
    recall: str,
) -> list[int]:
    """Shorten the older results if they and the latest exceed the space; return those in full."""
    older, latest = results
    if sum(len(said[place].content) for place in (*older, *latest)) <= space:
        return [*older, *latest]
    for place in older:
        text = said[place].content
        if len(text) >= LEAST_CHARACTERS:
            texts[digest_of(text)] = text
            said[place] = replace(said[place], content=_stub(text, recall))
    return latest


def _stub(text: str, recall: str) -> str:
    beginning = text[:_BEGINNING].rpartition("\n")[0] or text[:_BEGINNING]
    lines = text.count("\n") + 1
    return (
        f"{beginning}\n[Shortened: this result has {len(text)} characters in {lines} lines. "
        f'{recall} with the digest "{digest_of(text)}" returns all of it.]'
    )
