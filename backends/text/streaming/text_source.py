"""A buffer of streamed text, read by generators that yield while they need more."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Reads from a `TextSource`; yields until more text or its end has arrived."""

MOST_AHEAD = 64
"""Most blanks to look past; text after more of them is not awaited."""

_SPACE = re.compile(r"\s*")


class TextSource:
    """Text received and not yet consumed; results never depend on chunk borders."""

    def __init__(self, text: str = "", *, ended: bool = False) -> None:
        self._text = text
        self._at = 0
        self._kept: list[str] | None = None
        self.ended = ended
        """Whether the stream has ended."""

    def feed(self, text: str) -> None:
        """Append text."""
        self._text = self._text[self._at :] + text
        self._at = 0

    @property
    def empty(self) -> bool:
        """Return whether everything received was consumed."""
        return self._at >= len(self._text)

    @property
    def exhausted(self) -> bool:
        """Return whether everything was consumed and the stream has ended."""
        return self.ended and self.empty

    def keep(self) -> None:
        """Record consumed text from now on."""
        self._kept = []

    def kept(self) -> str:
        """Return the text consumed since `keep`, and stop recording."""
        kept, self._kept = self._kept or [], None
        return "".join(kept)

    def take(self, count: int) -> str:
        """Consume `count` characters, which must be available."""
        text = self._text[self._at : self._at + count]
        self._at += len(text)
        if self._kept is not None:
            self._kept.append(text)
        return text

    def take_run(self, pattern: re.Pattern[str]) -> str:
        """Consume the match of the pattern at this position, in the text received so far."""
        match = pattern.match(self._text, self._at)
        return self.take(match.end() - self._at) if match else ""

    def take_before(self, pattern: re.Pattern[str]) -> str:
        """Consume text before the first match; everything without a match."""
        match = pattern.search(self._text, self._at)
        return self.take((match.start() if match else len(self._text)) - self._at)

    def peek(self, count: int = 1) -> Steps[str]:
        """Return the next characters without consuming them; fewer only at the end."""
        while len(self._text) - self._at < count and not self.ended:
            yield
        return self._text[self._at : self._at + count]

    def skip_space(self) -> Steps[None]:
        """Consume blanks."""
        while True:
            self.take_run(_SPACE)
            if self._at < len(self._text) or self.ended:
                return
            yield

    def ahead(self) -> Steps[str]:
        """Return the character after any blanks without consuming; "" at the end."""
        while True:
            match = _SPACE.match(self._text, self._at)
            end = match.end() if match else self._at
            if end - self._at > MOST_AHEAD:
                return ""
            if end < len(self._text):
                return self._text[end]
            if self.ended:
                return ""
            yield

    def at(self, tags: Sequence[str]) -> Steps[str]:
        """Return the longest of the tags found here; "" if none."""
        while True:
            found = max(
                (tag for tag in tags if self._text.startswith(tag, self._at)), key=len, default=""
            )
            there = self._text[self._at : self._at + max(map(len, tags), default=0)]
            longer = (
                len(tag) > max(len(found), len(there)) for tag in tags if tag.startswith(there)
            )
            if self.ended or not any(longer):
                return found
            yield

    def accept(self, *tags: str) -> Steps[str]:
        """Consume and return the tag found here; "" if none."""
        found = yield from self.at(tags)
        self.take(len(found))
        return found

    def until(self, tags: Sequence[str], most: int) -> Steps[str | None]:
        """Consume text before one of the tags; None, consuming nothing, if none is near.

        Near means within `most` characters.
        """
        while True:
            there = self._text[self._at : self._at + most + max(map(len, tags))]
            found = [start for tag in tags if 0 <= (start := there.find(tag)) <= most]
            if found and (min(found) + max(map(len, tags)) <= len(there) or self.ended):
                return self.take(min(found))
            if self.ended or len(there) >= most + max(map(len, tags)):
                return None
            yield


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
