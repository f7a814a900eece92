"""Data files of the detectors: tables of words and patterns in `detectors/data`."""

from __future__ import annotations

import functools
import re
from importlib import resources

from .text_index import keywords_in, register_keywords


def read_data_file(name: str) -> bytes:
    """Return the content of the file of this name in `data/`."""
    return (resources.files("ingle.daemon.routing.detectors") / "data" / name).read_bytes()


def read_sections(name: str) -> dict[str, list[str]]:
    """Return the lines below each `[heading]` of a text file, without empty lines and comments."""
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in read_data_file(name).decode().splitlines():
        if line.startswith("[") and line.endswith("]"):
            lines = sections.setdefault(line[1:-1], [])
        elif line and not line.startswith("#"):
            lines.append(line)
    return sections


@functools.cache
def word_lists() -> dict[str, list[str]]:
    """Return the words and phrases in `words.txt` and `credentials.txt`, by heading."""
    sections = read_sections("words.txt") | read_sections("credentials.txt")
    return {name: ", ".join(lines).split(", ") for name, lines in sections.items()}


class KeywordPatterns:
    """The patterns of a file, below the keywords of which every text that matches has one.

    A search for keywords is many times faster than one for patterns. `insert` replaces each `@`.
    """

    def __init__(self, name: str, insert: str = "@", flags: re.RegexFlag = re.NOFLAG) -> None:
        self._patterns = [
            (frozenset(words.split(", ")), re.compile(line.replace("@", insert), flags))
            for words, lines in read_sections(name).items()
            for line in lines
        ]
        for words, _ in self._patterns:
            register_keywords(words)

    def finditer(self, text: str) -> list[re.Match[str]]:
        """Return the matches of all patterns."""
        present = keywords_in(text)
        found = [one for words, one in self._patterns if not words.isdisjoint(present)]
        return [match for pattern in found for match in pattern.finditer(text)]
