"""Redaction of outgoing text, and restoration of the values in the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

import msgspec

from ingle.backends.base.requests import GenerateRequest
from ingle.backends.remote.errors import CannotExpress

from ..detectors.finding import SensitiveFinding, TextPart
from ..inspection.request_parts import parts_of, with_texts
from .placeholder_restorer import PlaceholderRestorer
from .placeholders import LITERAL, LOOKALIKE, PlaceholderMemory, TooManyValues

_JSON = re.compile(r"\.(?:parameters|arguments)$|^grammar\.text$")
_NAME = re.compile(r"\.(?:name|id|tool_call_id)$|^tool_choice\.names")
"""Parts in which a bracket would be refused."""


class Redaction:
    """The replacements in one request, whose values appear nowhere in the outgoing text."""

    def __init__(
        self, memory: PlaceholderMemory, kinds: tuple[str, ...], names: frozenset[str]
    ) -> None:
        self.kinds = kinds
        """The kinds that were replaced, each once."""
        self.changed: tuple[TextPart, ...] = ()
        """The redacted parts, as they leave, for display."""
        self._memory = memory
        self._names = names

    @classmethod
    def of(
        cls,
        request: GenerateRequest,
        findings: Sequence[SensitiveFinding],
        memory: PlaceholderMemory | None = None,
    ) -> tuple[GenerateRequest, Redaction]:
        """Return the request with a placeholder for each finding, and the redaction.

        Findings are those of `parts_of(request)`. Values that `memory` knows are replaced wherever
        they occur. Raises `CannotExpress` if the result would not be JSON, or there are too many
        values.
        """
        memory = memory if memory is not None else PlaceholderMemory()
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
                [*found, *memory.occurrences(part.text)]
                for part, found in zip(parts, named, strict=True)
            ]
        except TooManyValues:
            raise CannotExpress("The conversation has too many values to stand for.") from None
        texts = [_replace(part, found) for part, found in zip(parts, spans, strict=True)]
        names = dict.fromkeys(name for found in spans for _, _, name in found)
        labels = (name.rpartition("_")[0] for name in names)
        kinds = dict.fromkeys(label.lower() for label in labels if label != LITERAL)
        redaction = cls(memory, tuple(kinds), frozenset(names))
        redaction.changed = tuple(
            TextPart(part.where, text)
            for part, text in zip(parts, texts, strict=True)
            if text != part.text
        )
        return with_texts(request, texts), redaction

    def restorer(self) -> PlaceholderRestorer:
        """Return a restorer for the events of one answer."""
        return PlaceholderRestorer({name: self._memory.text(name) for name in self._names})


Span = tuple[int, int, str]


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


def _replace(part: TextPart, spans: Iterable[Span]) -> str:
    """Return the part's text with placeholders; of overlapping spans the first and longest wins."""
    bare = _NAME.search(part.where) is not None
    pieces: list[str] = []
    quoted: list[str] = []
    at = 0
    for start, end, name in sorted(spans, key=lambda span: (span[0], -span[1])):
        if end <= at:
            continue
        # The rest of a span that overlaps the previous one is part of its value, too.
        before = part.text[at : max(at, start)]
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
