"""Cuts the text of a document into passages that know their place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

LONGEST = 1200
"""Characters of a passage: some 300 tokens, of which most embedding models read all."""
LEAST = 700
"""Characters after which a passage ends at the next empty line."""
_HEADING = re.compile(r"(#{1,6}) +(\S.{0,199})")
_FENCE = re.compile(r" {0,3}(?:```|~~~)")
_PAGE = re.compile(r"(?:\A|\n\n)\[page \d+\]\n")
_MARKDOWN = (".md", ".markdown", ".mdx")


class TextPassage(NamedTuple):
    """Lines (or pages) `first` to `last`, counted from 1, below the headings in `title`."""

    first: int
    last: int
    title: str
    text: str


_Line = tuple[int, str]


def cut_text(name: str, text: str) -> Iterator[TextPassage]:
    """Yield the passages of a file, whose name decides whether it has headings."""
    if name.lower().endswith(_MARKDOWN):
        yield from _cut_markdown(text)
    else:
        yield from _cut_lines(enumerate(text.split("\n"), 1), "")


def cut_pages(text: str) -> Iterator[TextPassage]:
    """Yield the passages of a document with a line `[page 1]` before each page."""
    for number, page in enumerate(_PAGE.split(text)[1:], 1):
        yield from _cut_lines(((number, line) for line in page.split("\n")), "")


def _cut_markdown(text: str) -> Iterator[TextPassage]:
    headings: dict[int, str] = {}
    section: list[_Line] = []
    is_fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        is_fenced ^= _FENCE.match(line) is not None
        heading = None if is_fenced else _HEADING.match(line)
        if heading is not None:
            yield from _cut_lines(section, " › ".join(headings.values()))
            level = len(heading[1])
            headings = {depth: title for depth, title in headings.items() if depth < level}
            headings[level] = heading[2].strip()
            section = []
        section.append((number, line))
    yield from _cut_lines(section, " › ".join(headings.values()))


def _cut_lines(lines: Iterable[_Line], title: str) -> Iterator[TextPassage]:
    taken: list[_Line] = []
    length = 0
    for number, line in lines:
        if length + len(line) > LONGEST or (length > LEAST and not line.strip()):
            yield from _passage(taken, title)
            taken, length = [], 0
        while len(line) > LONGEST:
            at = line.rfind(" ", LONGEST // 2, LONGEST) + 1 or LONGEST
            yield from _passage([(number, line[:at])], title)
            line = line[at:]
        taken.append((number, line))
        length += len(line) + 1
    yield from _passage(taken, title)


def _passage(lines: list[_Line], title: str) -> Iterator[TextPassage]:
    """Yield the passage of these lines without empty ones around it, if anything is left."""
    full = [index for index, (_, line) in enumerate(lines) if line.strip()]
    if full:
        lines = lines[full[0] : full[-1] + 1]
        text = "\n".join(line for _, line in lines)
        yield TextPassage(lines[0][0], lines[-1][0], title, text)
