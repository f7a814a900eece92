"""Restores the values of placeholders in a streamed answer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from msgspec.structs import replace

from ingle.backends.base.events import (
    Delta,
    Event,
    Finished,
    ReasoningDelta,
    Started,
    ToolCallDelta,
    ToolCallStarted,
)

from .placeholders import LONGEST, LOOKALIKE, canonical

_BOUNDARY = re.compile(r"[\\\[]|(?<!\w)\w")

Piece = Delta | ReasoningDelta | ToolCallDelta


class PlaceholderRestorer:
    """For the events of one answer, whose order is kept; the result stays on this machine."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """`texts` maps the placeholders of this request to their values.

        Placeholders of other requests are left, so that making a model output one reveals nothing.
        """
        self._texts = texts
        self._beginnings = {name[:end] for name in texts for end in range(1, len(name) + 1)}
        self._open: dict[int, tuple[Piece, str, str]] = {}
        """By sequence: the kind of piece last seen, the text held back, and the text before it."""

    def feed(self, events: list[Event]) -> list[Event]:
        """Return the events with values restored; an incomplete placeholder is held back."""
        restored: list[Event] = []
        for event in events:
            match event:
                case Delta() | ReasoningDelta() | ToolCallDelta():
                    restored += self._take(event)
                case ToolCallStarted():
                    restored += self.flush(event.index)
                    restored.append(replace(event, name=self._whole(event.name)))
                case Finished():
                    restored += self.flush(event.index)
                    restored.append(event)
                case Started():
                    restored.append(event)
        return restored

    def flush(self, index: int) -> list[Event]:
        """Return what was held back of a sequence that ends or changes its kind of piece."""
        piece, held, before = self._open.pop(index, (None, "", ""))
        if piece is None or not held:
            return []
        return [_with_text(piece, self._restored(held, before, piece))]

    def _take(self, piece: Piece) -> list[Event]:
        restored: list[Event] = []
        last, held, before = self._open.get(piece.index, (piece, "", ""))
        if type(last) is not type(piece) or _call(last) != _call(piece):
            restored += self.flush(piece.index)
            held = before = ""
        text = held + _text(piece)
        cut = self._safe(text, before)
        now, later = text[:cut], text[cut:]
        self._open[piece.index] = (piece, later, (before + now)[-1:])
        if now or piece.token_ids:
            restored.append(_with_text(piece, self._restored(now, before, piece)))
        return restored

    def _safe(self, text: str, before: str) -> int:
        """Return how much of the text no later piece can change."""
        whole = before + text
        for match in _BOUNDARY.finditer(whole, max(len(before), len(whole) - LONGEST)):
            tail = whole[match.start() :]
            name = tail.lstrip("\\[").replace("\\", "")
            if not name or name.upper() in self._beginnings:
                return match.start() - len(before)
        return len(text)

    def _restored(self, text: str, before: str, piece: Piece) -> str:
        def value(match: re.Match[str]) -> str:
            found = self._texts.get(canonical(match))
            if found is None or match.start() < len(before):
                return match[0]  # unknown, or the end of a longer word
            written = json.dumps(found)[1:-1] if isinstance(piece, ToolCallDelta) else found
            # A bracket that belongs to the surrounding text stays.
            opened, closed = "[" in match[0], match[0].endswith("]")
            tail = match[0][len(match[0].rstrip("\\]")) :] if closed and not opened else ""
            return ("[" if opened and not closed else "") + written + tail

        return LOOKALIKE.sub(value, before + text)[len(before) :]

    def _whole(self, text: str) -> str:
        return LOOKALIKE.sub(lambda match: self._texts.get(canonical(match)) or match[0], text)


def _text(piece: Piece) -> str:
    return piece.arguments if isinstance(piece, ToolCallDelta) else piece.text


def _with_text(piece: Piece, text: str) -> Piece:
    if isinstance(piece, ToolCallDelta):
        return replace(piece, arguments=text)
    return replace(piece, text=text)


def _call(piece: Piece) -> int:
    return piece.call if isinstance(piece, ToolCallDelta) else -1
