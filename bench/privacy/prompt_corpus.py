"""Labelled prompts in sixteen languages, from the grammars in `corpora/prompts`.

A line is `KIND: text with [one|or another] and {slots}`; `@slot: one|another` defines a slot of the
file. Values of the slots in `TAGS` are labelled spans; others are plain text.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from prompt_fillers import Fillers

FOLDER = Path(__file__).parent / "corpora" / "prompts"
KINDS = (
    *("health", "sexuality", "religion", "money", "law", "family", "work", "immigration"),
    *("personal", "business", "secret"),
)
"""Kinds of prompts that should not leave; `public` is none of them."""

TAGS = {
    "first": "person",
    "last": "person",
    "street": "address",
    "postcode": "address",
    "org": "organisation",
    "number": "number",
    "secret": "secret",
    "pin": "secret",
    "dob": "birth date",
}
"""The label of a slot's values."""

_SLOT = re.compile(r"\{(\w+)\}")
_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_MARK = re.compile("\ue000([^\ue001]*)\ue001([^\ue002]*)\ue002")
_BRACKETS = str.maketrans("⟦⟧⦃⦄¦", "[]{}|")


class Span(msgspec.Struct, frozen=True):
    """A labelled value: characters `start` to `end` of the text."""

    start: int
    end: int
    tag: str


class Prompt(msgspec.Struct, frozen=True):
    """A text with its kind, and the line of the grammar that it comes from."""

    text: str
    kind: str
    language: str
    line: str
    spans: tuple[Span, ...] = ()


class PromptGrammar:
    """The lines of one file."""

    def __init__(self, path: Path) -> None:
        self.language = path.stem[:2]
        self.lines: list[tuple[str, str]] = []
        self._slots: dict[str, list[str]] = {}
        for line in path.read_text().splitlines():
            if line.startswith("@"):
                slot, _, values = line[1:].partition(": ")
                self._slots[slot] = values.split("|")
            elif line and not line.startswith("#"):
                kind, _, text = line.partition(": ")
                if kind not in (*KINDS, "public"):
                    raise ValueError(f"{path.name}: {line[:60]!r} has no kind")
                self.lines.append((kind, text))

    def prompts(self, each: int, seed: int) -> Iterator[Prompt]:
        """Up to `each` different prompts of every line."""
        fill = Fillers(self.language, seed)
        draw = random.Random(f"{seed} {self.language}")
        for kind, line in self.lines:
            seen: set[str] = set()
            for _ in range(each):
                text, spans = _unmarked(_varied(self._expand(line, fill, draw), draw))
                if text not in seen:
                    seen.add(text)
                    yield Prompt(text, kind, self.language, line, spans)

    def _expand(self, line: str, fill: Fillers, draw: random.Random) -> str:
        """One prompt of a line, with marks around labelled values."""

        def value(match: re.Match[str]) -> str:
            slot = match[1]
            if slot in self._slots:
                return draw.choice(self._slots[slot])
            made = fill(slot)
            return f"\ue000{TAGS[slot]}\ue001{made}\ue002" if slot in TAGS else made

        while _CHOICE.search(line):
            line = _CHOICE.sub(lambda match: draw.choice(match[1].split("|")), line)
        line = _SLOT.sub(value, _SLOT.sub(value, line))  # a slot's words may have slots
        return re.sub(r" +", " ", line.replace("\\n", "\n")).strip().translate(_BRACKETS)


def _varied(text: str, draw: random.Random) -> str:
    """The text as it may be typed: in small letters, without the last sign."""
    if draw.random() < 0.15:
        text = text.lower()
    return text.rstrip(".?!。？！।؟") if draw.random() < 0.15 else text


def _unmarked(marked: str) -> tuple[str, tuple[Span, ...]]:
    pieces: list[str] = []
    spans: list[Span] = []
    length = at = 0
    for match in _MARK.finditer(marked):
        before = marked[at : match.start()]
        start = length + len(before)
        length = start + len(match[2])
        spans.append(Span(start, length, match[1]))
        pieces += before, match[2]
        at = match.end()
    return "".join((*pieces, marked[at:])), tuple(spans)


def all_prompts(each: int, seed: int) -> list[Prompt]:
    """Prompts of all files."""
    grammars = [PromptGrammar(path) for path in sorted(FOLDER.glob("*.txt"))]
    return [prompt for grammar in grammars for prompt in grammar.prompts(each, seed)]
