"""Texts of a wanted length that no server has seen before."""

from __future__ import annotations

import random

# fmt: off
_WORDS = (
    "time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world",
    "school", "state", "family", "student", "group", "country", "problem", "hand", "part",
    "place", "case", "week", "company", "system", "program", "question", "work", "government",
    "number", "night", "point", "home", "water", "room", "mother", "area", "money", "story",
    "fact", "month", "lot", "right", "study", "book", "eye", "job", "word", "business", "issue",
    "side", "kind", "head", "house", "service", "friend", "father", "power", "hour", "game",
    "line", "end", "member", "law", "car", "city", "community", "name", "president", "team",
    "minute", "idea", "kid", "body", "information", "back", "parent", "face", "level", "office",
    "door", "health", "person", "art", "war", "history", "party", "result", "change", "morning",
)
# fmt: on


def words(source: random.Random, count: int) -> str:
    """Some common words, each one token in most vocabularies."""
    return " ".join(source.choices(_WORDS, k=count))


def conversation(source: random.Random, size: int) -> list[dict[str, str]]:
    """Six messages of `size` words in all; the last is the user's."""
    roles = ["user", "assistant"] * 2 + ["user"]
    each = size // len(roles)
    return [{"role": role, "content": f"{words(source, each)}."} for role in roles]
