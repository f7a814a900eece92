"""Chips: short labels in a draft that stand for long texts."""

from __future__ import annotations

import re
from bisect import bisect_left

import msgspec

from ..chats.message import Attachment
from ..text import number_format

_START, _MIDDLE, _END = "\x02", "\x1f", "\x03"
"""Delimiters of a chip in a saved draft: control characters that no draft can contain."""
_KEPT = re.compile(f"{_START}([^{_MIDDLE}{_END}]*){_MIDDLE}([^{_END}]*){_END}")


class ChipSpan(msgspec.Struct, frozen=True):
    """The span of a chip's label in a text, `end` exclusive."""

    label: str
    start: int
    end: int


class TextChips:
    """Maps labels to their texts; a label counts wherever it is in the draft.

    Contents are kept while a draft exists, so that undoing a deletion restores them.
    """

    def __init__(self) -> None:
        self._contents: dict[str, Attachment] = {}
        self._pattern: re.Pattern[str] | None = None

    def __len__(self) -> int:
        return len(self._contents)

    def __contains__(self, label: object) -> bool:
        return label in self._contents

    def add_paste(self, text: str) -> str:
        """Add pasted text; return its label."""
        lines = text.removesuffix("\n").count("\n") + 1
        amount, unit = (lines, "lines") if lines > 1 else (len(text), "characters")
        return self.add(f"pasted {number_format.tokens(amount)} {unit}", text)

    def add(self, name: str, text: str) -> str:
        """Add a text under a name, made unique by a number if necessary; return its label."""
        name = " ".join(name.replace("[", "(").replace("]", ")").split())
        names = (name, *(f"{name} #{number}" for number in range(2, len(self._contents) + 2)))
        unique = next(each for each in names if f"[{each}]" not in self._contents)
        return self.put(Attachment(unique, text))

    def put(self, attachment: Attachment) -> str:
        """Add an attachment under its own name; return its label."""
        label = f"[{attachment.name}]"
        self._contents[label] = attachment
        self._pattern = None
        return label

    def content(self, label: str) -> str:
        """Return the text of a label; raises `KeyError`."""
        return self._contents[label].text

    def replace(self, label: str, text: str) -> None:
        """Replace the text of a label."""
        self._contents[label] = Attachment(self._contents[label].name, text)

    def spans(self, text: str) -> list[ChipSpan]:
        """Return the chips in a text, from left to right."""
        if not self._contents or "[" not in text:
            return []
        if self._pattern is None:
            labels = sorted(self._contents, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, labels)))
        return [ChipSpan(m[0], m.start(), m.end()) for m in self._pattern.finditer(text)]

    def attachments(self, text: str) -> tuple[Attachment, ...]:
        """Return the contents of the chips in a text, each once, in order."""
        labels = dict.fromkeys(span.label for span in self.spans(text))
        return tuple(self._contents[label] for label in labels)

    def pack(self, text: str) -> str:
        """Return the draft with the contents of its chips embedded; `unpack` reads it."""
        parts: list[str] = []
        at = 0
        for span in self.spans(text):
            # A content contains the delimiters only if it was never cleaned.
            content = self.content(span.label).translate(_NO_MARKS)
            parts += [text[at : span.start], _START, span.label[1:-1], _MIDDLE, content, _END]
            at = span.end
        return "".join([*parts, text[at:]])

    def unpack(self, kept: str) -> str:
        """Return the draft of a `pack`, and register its chips."""

        def put(match: re.Match[str]) -> str:
            return self.put(Attachment(match[1], match[2]))

        return _KEPT.sub(put, kept)


_NO_MARKS = {ord(mark): None for mark in (_START, _MIDDLE, _END)}


def with_labels(kept: str) -> str:
    """Return the draft of a `pack` as it looked, its chips as their labels."""
    return _KEPT.sub(r"[\1]", kept)


def span_at(spans: list[ChipSpan], place: int, *, inside: bool = False) -> ChipSpan | None:
    """Return the chip that touches a position, or strictly contains it with `inside`."""
    at = bisect_left([span.end for span in spans], place)
    for span in spans[at : at + 2]:
        if inside and span.start < place < span.end:
            return span
        if not inside and span.start <= place <= span.end:
            return span
    return None
