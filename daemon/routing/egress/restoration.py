"""Restoration of the values in an answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from ingle.backends.base.events import (
    Delta,
    Event,
    Finished,
    PromptAdvanced,
    ReasoningDelta,
    Started,
    ToolCallDelta,
    ToolCallStarted,
)

from .placeholders import (
    LONGEST,
    LOOKALIKE,
    UNSPACED,
    Original,
    canonical,
    spellings,
    squeezed,
)
from .string_context import NEEDS_ESCAPE, StringContext

_BOUNDARY = re.compile(rf"[\\\[［【]|(?<![^\W{UNSPACED}])\w|(?<=[{UNSPACED}])\w")
_TAIL = re.compile(r"['’]\w{0,3}$")
_BRACKETS = "\\[［【"

Piece = Delta | ReasoningDelta | ToolCallDelta


@dataclass
class _Open:
    """The state of one text: its last piece, the text held back, and the character before it."""

    piece: Piece
    context: StringContext
    held: str = ""
    before: str = ""


class PlaceholderRestorer:
    """For the events of one answer, whose order is kept; the result stays on this machine."""

    def __init__(self, originals: Mapping[str, Original], names: Mapping[str, str]) -> None:
        """`originals` maps the placeholders of this request to what they replace, `names` its
        changed names of tools to the original ones.

        Placeholders of other requests are left, so that making a model output one reveals nothing.
        """
        self._originals = originals
        self._names = names
        self._whole = {each for name in originals for each in spellings(name)}
        self._beginnings = {name[:end] for name in self._whole for end in range(1, len(name) + 1)}
        self._escapes = any(NEEDS_ESCAPE.search(one.text) for one in originals.values())
        self._open: dict[tuple[int, type[Piece], int], _Open] = {}
        self._last: dict[int, type[Piece]] = {}

    def feed(self, events: list[Event]) -> list[Event]:
        """Return the events with values restored; an incomplete placeholder is held back."""
        restored: list[Event] = []
        for event in events:
            match event:
                case Delta() | ReasoningDelta() | ToolCallDelta():
                    restored += self._take(event)
                case ToolCallStarted():
                    restored += self.flush(event.index)
                    name = self._names.get(event.name, event.name)
                    restored.append(replace(event, name=name))
                case Finished():
                    restored += self.flush(event.index)
                    restored.append(event)
                case Started() | PromptAdvanced():
                    restored.append(event)
        return restored

    def flush(self, index: int) -> list[Event]:
        """Return what was held back of a sequence that ends or changes its kind of piece."""
        restored: list[Event] = []
        for key, state in self._open.items():
            if key[0] == index and state.held:
                restored.append(_with_text(state.piece, self._restored(state.held, state)))
                state.before, state.held = state.held[-1:], ""
        return restored

    def _take(self, piece: Piece) -> list[Event]:
        restored: list[Event] = []
        if self._last.get(piece.index) is not type(piece):
            restored += self.flush(piece.index)
        self._last[piece.index] = type(piece)
        is_call = isinstance(piece, ToolCallDelta)
        # Calls may take turns, in the middle of a string.
        key = piece.index, type(piece), piece.call if is_call else -1
        state = self._open.setdefault(key, _Open(piece, StringContext(arguments=is_call)))
        state.piece = piece
        text = state.held + _text(piece)
        cut = self._safe(text, state.before)
        now, state.held = text[:cut], text[cut:]
        if now or piece.token_ids:
            restored.append(_with_text(piece, self._restored(now, state)))
            state.before = (state.before + now)[-1:]
        return restored

    def _safe(self, text: str, before: str) -> int:
        """Return how much of the text no later piece can change."""
        whole = before + text
        for match in _BOUNDARY.finditer(whole, max(len(before), len(whole) - LONGEST)):
            tail = whole[match.start() :]
            name = tail.lstrip(_BRACKETS)
            name = squeezed(_TAIL.sub("", name)) if name != tail else squeezed(name, "\\_")
            if not name or name in self._beginnings or name[:-1] in self._whole:
                return match.start() - len(before)
        return len(text)

    def _restored(self, text: str, state: _Open) -> str:
        """Return the text that follows `state.before` with its values."""
        whole, at = state.before + text, len(state.before)
        pieces: list[str] = []
        for match in LOOKALIKE.finditer(whole):
            name, letter = canonical(match)
            original = self._originals.get(name + letter.upper())
            if original is not None:
                letter = ""
            elif letter == "s":  # a genitive
                original = self._originals.get(name)
            if original is None or match.start() < len(state.before):
                continue  # unknown, or the end of a longer word
            opening, closing = _surroundings(match)
            self._follow(state, whole[at : match.start()] + opening)
            pieces += [
                whole[at : match.start()],
                opening,
                self._written(original, state.context),
                letter,
                closing,
            ]
            self._follow(state, match[0][len(opening) :])
            at = match.end()
        self._follow(state, whole[at:])
        return "".join([*pieces, whole[at:]])

    def _follow(self, state: _Open, text: str) -> None:
        if self._escapes or isinstance(state.piece, ToolCallDelta):
            state.context.feed(text)

    def _written(self, original: Original, context: StringContext) -> str:
        if original.verbatim and not context.arguments:
            return original.text
        return context.written(original.text)


def _surroundings(match: re.Match[str]) -> tuple[str, str]:
    """Return what of a placeholder's spelling is the text around it."""
    if match["loose"]:
        escaped = match["close"].startswith("\\")
        return "" if escaped else match["escape"], match["tail"] or ""
    if match["open"] and not match["shut"]:
        return "[", ""
    return "", "" if match["open"] else match["shut"] or ""


def _text(piece: Piece) -> str:
    return piece.arguments if isinstance(piece, ToolCallDelta) else piece.text


def _with_text(piece: Piece, text: str) -> Piece:
    if isinstance(piece, ToolCallDelta):
        return replace(piece, arguments=text)
    return replace(piece, text=text)
