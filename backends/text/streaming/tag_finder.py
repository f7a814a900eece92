"""Finds tags in streamed text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from .text_source import Steps, TextSource


def pass_until(
    source: TextSource,
    tags: Sequence[str],
    emit: Callable[[str], None],
    *,
    take: Sequence[str] | None = None,
) -> Steps[str]:
    """Emit text up to the first of the tags, which is consumed and returned; "" if none follows.

    With `take`, only these are consumed.
    """
    pattern = _pattern(tuple(tags))
    while not source.exhausted:
        text = source.take_before(pattern)
        if text:
            emit(text)
        if source.empty:
            if not source.ended:
                yield
            continue
        tag = yield from source.at(tags)
        if tag:
            if take is None or tag in take:
                source.take(len(tag))
            return tag
        emit(source.take(1))
    return ""


@lru_cache(maxsize=64)
def _pattern(tags: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(_or_beginning(tag) for tag in tags) or "(?!)")


def _or_beginning(tag: str) -> str:
    """Return an expression for a tag, or for a prefix of it at the end of the text."""
    expression = re.escape(tag[-1])
    for char in reversed(tag[:-1]):
        expression = f"{re.escape(char)}(?:\\Z|{expression})"
    return expression
