"""Prompts from grammars: a line is `text with [one|or another] and {slots}`."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

CORPORA = Path(__file__).parent / "corpora"
_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_SLOT = re.compile(r"\{(\w+)\}")

Fillers = dict[str, Sequence[str]]


class Grammar(msgspec.Struct):
    """The lines of one corpus and the slots that it defines itself."""

    lines: list[str]
    slots: dict[str, list[str]]

    @classmethod
    def load(cls, name: str) -> Grammar:
        """Load the corpus `name`.txt."""
        grammar = cls([], {})
        for line in (CORPORA / f"{name}.txt").read_text().splitlines():
            if line.startswith("@"):
                slot, _, values = line[1:].partition(": ")
                grammar.slots[slot] = values.split("|")
            elif line and not line.startswith("#"):
                grammar.lines.append(line)
        return grammar

    def prompts(self, each: int, seed: int, fillers: Fillers) -> Iterator[tuple[int, str]]:
        """Up to `each` different prompts of every line, with the line's number."""
        source = random.Random(seed)
        slots = {**fillers, **self.slots}
        for number, line in enumerate(self.lines):
            made = {expand(line, slots, source) for _ in range(each)}
            yield from ((number, prompt) for prompt in sorted(made))


def expand(line: str, slots: Fillers, source: random.Random) -> str:
    """One prompt of a line; `\\n` in it is a line's end."""

    def fill(match: re.Match[str]) -> str:
        return source.choice(slots[match[1]]) if match[1] in slots else match[0]

    while _CHOICE.search(line):
        line = _CHOICE.sub(lambda match: source.choice(match[1].split("|")), line)
    line = _SLOT.sub(fill, _SLOT.sub(fill, line))  # a slot's words may have slots
    return re.sub(r" +", " ", line.replace("\\n", "\n")).strip()


def plain(name: str) -> list[str]:
    """The lines of a corpus that is no grammar."""
    lines = (CORPORA / f"{name}.txt").read_text().splitlines()
    return [line.replace("\\n", "\n") for line in lines if line and not line.startswith("#")]
