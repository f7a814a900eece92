"""Redaction of outgoing text, and restoration of the values in the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
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
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.remote.errors import CannotExpress

from ..detectors.finding import SensitiveFinding, TextPart
from ..inspection.request_parts import parts_of, with_texts
from .placeholders import LITERAL, LONGEST, LOOKALIKE, PlaceholderMemory, TooManyValues, canonical

_JSON = re.compile(r"\.(?:parameters|arguments)$|^grammar\.text$")
_NAME = re.compile(r"\.(?:name|id|tool_call_id)$|^tool_choice\.names")
"""Parts in which a bracket would be refused."""


Span = tuple[int, int, str]
"""The replaced characters of a part, from start up to end, and the placeholder's name."""


class RedactedPart(NamedTuple):
    """A part as it leaves; `spans` are those of its original text, in order, without overlaps."""

    where: str
    text: str
    spans: list[Span]


class Redaction(NamedTuple):
    """The replacements in one request, whose values appear nowhere in the outgoing text.

    `kinds` are those of the values, each once; `changed` the redacted parts as they leave;
    `originals` maps the placeholders to the texts that they replace.
    """

    kinds: tuple[str, ...]
    changed: tuple[RedactedPart, ...]
    originals: dict[str, str]

    @classmethod
    def of(
        cls,
        request: GenerateRequest,
        findings: Sequence[SensitiveFinding],
        memory: PlaceholderMemory | None = None,
        show: Sequence[str] = (),
    ) -> tuple[GenerateRequest, Redaction]:
        """Return the request with a placeholder for each finding, and the redaction.

        Findings are those of `parts_of(request)`. Values that `memory` knows are replaced wherever
        they occur; those of `show` stay, in any case. Raises `CannotExpress` if the
        result would not be JSON, or there are too many values.
        """
        memory = memory if memory is not None else PlaceholderMemory()
        shown = {text.casefold() for text in show}
        parts = parts_of(request)
        by_part: dict[int, list[SensitiveFinding]] = {}
        for finding in findings:
            by_part.setdefault(finding.part, []).append(finding)
        try:
            # All are named first, so that a value found in one part is replaced in all others.
            named = [
                _name(part, by_part.get(number, ()), memory) for number, part in enumerate(parts)
            ]
            spans = [
                _placed(
                    span
                    for span in (*found, *memory.occurrences(part.text))
                    if part.text[span[0] : span[1]].casefold() not in shown
                )
                for part, found in zip(parts, named, strict=True)
            ]
        except TooManyValues:
            raise CannotExpress("The conversation has too many values to stand for.") from None
        texts = [_replace(part, found) for part, found in zip(parts, spans, strict=True)]
        names = dict.fromkeys(name for found in spans for _, _, name in found)
        labels = (name.rpartition("_")[0] for name in names)
        kinds = dict.fromkeys(label.lower() for label in labels if label != LITERAL)
        changed = tuple(
            RedactedPart(part.where, text, found)
            for part, text, found in zip(parts, texts, spans, strict=True)
            if text != part.text
        )
        originals = {name: memory.text(name) for name in names}
        return with_texts(request, texts), cls(tuple(kinds), changed, originals)

    def restorer(self) -> PlaceholderRestorer:
        """Return a restorer for the events of one answer."""
        return PlaceholderRestorer(self.originals)


def _name(
    part: TextPart, findings: Iterable[SensitiveFinding], memory: PlaceholderMemory
) -> list[Span]:
    """Return the spans of findings, and of text that only looks like a placeholder."""
    spans: list[Span] = []
    for group in _overlapping(findings):
        start, end = min(one.start for one in group), max(one.end for one in group)
        text = part.text[start:end]
        if not text:
            continue
        longest = max(group, key=lambda one: one.end - one.start)
        value = longest.value if len(group) == 1 and longest.value else text
        spans.append(
            (start, end, memory.name(longest.kind.upper(), value, _plain(part.where, text)))
        )
    for match in LOOKALIKE.finditer(part.text):
        literal = match[0]
        spans.append((match.start(), match.end(), memory.name(LITERAL, literal, literal)))
    return spans


def _overlapping(findings: Iterable[SensitiveFinding]) -> list[list[SensitiveFinding]]:
    """Return groups of findings that overlap."""
    groups: list[list[SensitiveFinding]] = []
    end = -1
    for finding in sorted(findings, key=lambda one: (one.start, -one.end)):
        if groups and finding.start < end:
            groups[-1].append(finding)
        else:
            groups.append([finding])
        end = max(end, finding.end)
    return groups


def _plain(where: str, text: str) -> str:
    """Return the text without JSON escapes, if it is in a JSON text."""
    if _JSON.search(where):
        try:
            return str(json.loads(f'"{text}"'))
        except ValueError:
            return text
    return text


def _placed(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in order; of overlapping ones the first and longest wins."""
    placed: list[Span] = []
    at = 0
    for start, end, name in sorted(spans, key=lambda span: (span[0], -span[1])):
        if end > at:
            # The rest of a span that overlaps the previous one is part of its value, too.
            placed.append((max(at, start), end, name))
            at = end
    return placed


def _replace(part: TextPart, spans: Iterable[Span]) -> str:
    """Return the part's text with placeholders for spans that do not overlap, in order."""
    bare = _NAME.search(part.where) is not None
    pieces: list[str] = []
    quoted: list[str] = []
    at = 0
    for start, end, name in spans:
        before = part.text[at:start]
        placeholder = name if bare else f"[{name}]"
        pieces += [before, placeholder]
        quoted += [before, placeholder if _in_string(part.text, start) else f'"{placeholder}"']
        at = end
    if not pieces:
        return part.text
    pieces.append(part.text[at:])
    quoted.append(part.text[at:])
    if not _JSON.search(part.where) or not _is_json(part.text):
        return "".join(pieces)
    text = "".join(quoted)
    if not _is_json(text):
        raise CannotExpress(f"What was found in {part.where} cannot be replaced.")
    return text


def _in_string(text: str, place: int) -> bool:
    """Whether a position in a JSON text is inside a string."""
    inside = escaped = False
    for character in text[:place]:
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = inside
        elif character == '"':
            inside = not inside
    return inside


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text.encode("utf-8", "surrogatepass"))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True


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
