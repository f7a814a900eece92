"""Text that comes in pieces, read by steps that wait wherever they need more of it."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from typing import TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Reads from a `TextSource`; yields where it can go on only with more text, or with its end."""

MOST_AHEAD = 64
"""Blanks that are looked past; what stands behind more of them is not waited for."""

_SPACE = re.compile(r"\s*")


class TextSource:
    """What was fed and not yet taken; whoever reads it decides nothing by where the pieces end."""

    def __init__(self, text: str = "", *, ended: bool = False) -> None:
        self._text = text
        self._at = 0
        self._kept: list[str] | None = None
        self.ended = ended
        """Whether no more text follows."""

    def feed(self, text: str) -> None:
        """Append a piece."""
        self._text = self._text[self._at :] + text
        self._at = 0

    @property
    def empty(self) -> bool:
        """Whether everything that came was taken."""
        return self._at >= len(self._text)

    @property
    def exhausted(self) -> bool:
        """Whether everything was taken, and nothing follows."""
        return self.ended and self.empty

    def keep(self) -> None:
        """Remember from now on what is taken."""
        self._kept = []

    def kept(self) -> str:
        """What was taken since `keep`, which ends here."""
        kept, self._kept = self._kept or [], None
        return "".join(kept)

    def take(self, count: int) -> str:
        """The next characters, of which there are so many."""
        text = self._text[self._at : self._at + count]
        self._at += len(text)
        if self._kept is not None:
            self._kept.append(text)
        return text

    def take_run(self, pattern: re.Pattern[str]) -> str:
        """What matches here of what is there already."""
        match = pattern.match(self._text, self._at)
        return self.take(match.end() - self._at) if match else ""

    def take_before(self, pattern: re.Pattern[str]) -> str:
        """What stands before the first match; everything there is where nothing matches."""
        match = pattern.search(self._text, self._at)
        return self.take((match.start() if match else len(self._text)) - self._at)

    def peek(self, count: int = 1) -> Steps[str]:
        """The next characters without taking them; fewer only at the end."""
        while len(self._text) - self._at < count and not self.ended:
            yield
        return self._text[self._at : self._at + count]

    def skip_space(self) -> Steps[None]:
        """Take blanks up to something else."""
        while True:
            self.take_run(_SPACE)
            if self._at < len(self._text) or self.ended:
                return
            yield

    def ahead(self) -> Steps[str]:
        """The character behind any blanks, without taking anything; empty at the end."""
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
        """Which of the tags stands here, the longest of several; empty if none does."""
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
        """Take the tag that stands here; empty if none does."""
        found = yield from self.at(tags)
        self.take(len(found))
        return found

    def until(self, tags: Sequence[str], most: int) -> Steps[str | None]:
        """Take what stands before one of the tags; None, and nothing taken, if none is near.

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
