"""Values in the place of their placeholders, in an answer that comes in pieces."""

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
    """For the events of one answer, which keep their order; what comes out goes nowhere else."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """`texts` is what the placeholders of this one request stand for.

        Others of the conversation stay as they are: whoever makes a model say one learns nothing.
        """
        self._texts = texts
        self._beginnings = {name[:end] for name in texts for end in range(1, len(name) + 1)}
        self._open: dict[int, tuple[Piece, str, str]] = {}
        """By sequence: a piece like the last one, what of it is held back, and what was before."""

    def feed(self, events: list[Event]) -> list[Event]:
        """The events with values in them; the beginning of a placeholder waits for its end."""
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
        """What of a sequence was held back: nothing follows that could belong to it."""
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
        """How much of the text no later piece can change."""
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
                return match[0]  # nobody's, or the end of a longer word
            written = json.dumps(found)[1:-1] if isinstance(piece, ToolCallDelta) else found
            # A bracket that belongs to the text around stays there.
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
