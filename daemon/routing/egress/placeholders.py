"""Placeholders for values in outgoing text: `[EMAIL_1]` for the first address, and so on."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator

from ..detectors.finding import FindingKind

LITERAL = "TEXT"
"""Replaces text that already looked like a placeholder."""

_ESCAPE = r"\\{0,2}"
_LABELS = "|".join(
    sorted((LITERAL, *(kind.upper() for kind in FindingKind)), key=len, reverse=True)
)

LOOKALIKE = re.compile(
    rf"(?:{_ESCAPE}\[|(?<!\w))(?P<label>{_LABELS.replace('_', _ESCAPE + '_')})"
    rf"{_ESCAPE}_(?P<number>\d{{1,6}})(?!\w)(?:{_ESCAPE}\])?",
    re.IGNORECASE,
)
"""A placeholder as models write it: in any case, without brackets, escaped for Markdown."""

LONGEST = max(len(kind) for kind in FindingKind) + 20
"""Upper limit of the characters of any spelling of a placeholder."""

MOST_CONVERSATIONS = 256
MOST_VALUES = 10_000


class TooManyValues(ValueError):
    """A conversation has too many values to replace."""


class PlaceholderMemory:
    """The placeholders of one conversation: equal values get equal placeholders.

    Kept in memory only.
    """

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}
        self._texts: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._known: re.Pattern[str] | None = None
        self._by_text: dict[str, str] = {}

    def name(self, label: str, value: str, text: str) -> str:
        """Return the placeholder without its brackets; `text` is the value as written.

        Raises `TooManyValues`.
        """
        key = (label, value)
        if key not in self._names:
            if len(self._names) >= MOST_VALUES:
                raise TooManyValues
            self._counts[label] = self._counts.get(label, 0) + 1
            name = f"{label}_{self._counts[label]}"
            self._names[key], self._texts[name] = name, text
            self._known = None
        return self._names[key]

    def text(self, name: str) -> str:
        """Return the text that a placeholder replaces, as first written."""
        return self._texts[name]

    def occurrences(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield occurrences of known values, detected or not: (start, end, name).

        A restored answer contains them in places that no detector would find.
        """
        if self._known is None:
            names = {written: name for name, written in self._texts.items() if len(written) > 1}
            written = "|".join(re.escape(each) for each in sorted(names, key=len, reverse=True))
            self._known = re.compile(rf"(?<!\w)(?:{written})(?!\w)" if written else r"(?!)")
            self._by_text = names
        for match in self._known.finditer(text):
            yield match.start(), match.end(), self._by_text[match[0]]


class PlaceholderMemories:
    """The memories of the most recently used conversations."""

    def __init__(self) -> None:
        self._memories: OrderedDict[str, PlaceholderMemory] = OrderedDict()

    def of(self, conversation: str) -> PlaceholderMemory:
        """Return that of a conversation; always a new one without a name."""
        if not conversation:
            return PlaceholderMemory()
        memory = self._memories.setdefault(conversation, PlaceholderMemory())
        self._memories.move_to_end(conversation)
        while len(self._memories) > MOST_CONVERSATIONS:
            self._memories.popitem(last=False)
        return memory


def canonical(match: re.Match[str]) -> str:
    """Return the placeholder's name for any of its spellings."""
    label = match["label"].replace("\\", "").upper()
    return f"{label}_{int(match['number'])}"
