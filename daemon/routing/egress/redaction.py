"""Redaction of outgoing text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from ingle.backends.base.requests import GenerateRequest
from ingle.backends.remote.errors import CannotExpress

from ..detectors.finding import FindingKind, SensitiveFinding, TextPart
from ..inspection.request_parts import parts_of, with_texts
from ..policy.sensitivity_classes import TOPICS
from .placeholders import (
    ANYWHERE,
    LITERAL,
    LONGEST,
    LOOKALIKE,
    Original,
    PlaceholderMemory,
    TooManyValues,
)
from .restoration import PlaceholderRestorer
from .string_context import NEEDS_ESCAPE, StringContext

_JSON = re.compile(r"\.(?:parameters|arguments)$|^grammar\.text$")
_NAME = re.compile(r"\.(?:name|id|tool_call_id)$|^tool_choice\.names")
"""Parts in which a bracket would be refused."""

_PROSE = frozenset({FindingKind.PERSON, FindingKind.ORGANISATION})
"""Kinds whose ends are a matter of reading; those of the others are certain."""

_ANNOUNCING = frozenset(
    word for kind in FindingKind if kind not in _PROSE | TOPICS for word in kind.split("_")
)
"""Words of the kinds of numbers and keys, which often stand before one."""

_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_NUMBER = re.compile(r"-?[0-9][0-9.eE+-]*")
_ESCAPED = 2
_JSON_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)")


class RedactedPart(NamedTuple):
    """A part as it leaves; `spans` are the replaced characters of its original text, from start up
    to end, with the placeholder's name, in order and without overlaps.
    """

    where: str
    text: str
    spans: list[tuple[int, int, str]]


class Redaction(NamedTuple):
    """The replacements in one request, whose values appear nowhere in the outgoing text.

    `kinds` are those of the values, each once; `changed` the redacted parts as they leave;
    `originals` maps the placeholders to what they replace, and `names` changed names of tools to
    the original ones.
    """

    kinds: tuple[str, ...]
    changed: tuple[RedactedPart, ...]
    originals: dict[str, Original]
    names: dict[str, str]

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
        they occur; those of `show` stay, in any case. Raises `CannotExpress` if the result would
        not be JSON, or there are too many values.
        """
        memory = memory if memory is not None else PlaceholderMemory()
        shown = frozenset(text.casefold() for text in show)
        parts = parts_of(request)
        by_part: dict[int, list[SensitiveFinding]] = {}
        for finding in findings:
            by_part.setdefault(finding.part, []).append(finding)
        try:
            with memory.lock:
                # All are learned first, so that a value of one part is replaced in all others.
                redactors = [
                    _PartRedactor(part, by_part.get(number, ()), memory, shown)
                    for number, part in enumerate(parts)
                ]
                # Tools come first, so that new messages do not change their placeholders.
                for one in sorted(redactors, key=lambda one: one.part.where.startswith("messages")):
                    one.redact()
        except TooManyValues:
            raise CannotExpress("The conversation has too many values to stand for.") from None
        names = dict.fromkeys(name for one in redactors for _, _, name in one.spans)
        kinds = dict.fromkeys(memory.kind(name) for name in names)
        changed = [one for one in redactors if one.text != one.part.text]
        redaction = cls(
            kinds=tuple(kind for kind in kinds if kind != LITERAL),
            changed=tuple(RedactedPart(one.part.where, one.text, one.spans) for one in changed),
            originals={name: memory.original(name) for name in names},
            names={one.text: one.part.text for one in changed if one.is_name},
        )
        return with_texts(request, [one.text for one in redactors]), redaction

    def restorer(self) -> PlaceholderRestorer:
        """Return a restorer for the events of one answer."""
        return PlaceholderRestorer(self.originals, self.names)


class _Span(NamedTuple):
    start: int
    end: int
    kind: str
    value: str


class _PartRedactor:
    """Redacts one part; `text` is the result, `spans` what was replaced."""

    def __init__(
        self,
        part: TextPart,
        findings: Iterable[SensitiveFinding],
        memory: PlaceholderMemory,
        shown: frozenset[str],
    ) -> None:
        """Learn the values of the findings, but for `shown`; raises `TooManyValues`."""
        self.part = part
        self.text = part.text
        self.spans: list[tuple[int, int, str]] = []
        self._shown = shown
        self.is_name = _NAME.search(part.where) is not None
        self._is_json = _JSON.search(part.where) is not None and _is_json(part.text)
        self._memory = memory
        self._inside = _string_positions(part.text) if self._is_json else bytearray()
        self._taken = bytearray(len(part.text))
        # Of two that overlap, the certain and the longer one stays whole.
        found = sorted(
            filter(self._is_masked, map(self._span, findings)),
            key=lambda s: (s.kind in _PROSE, s.start - s.end, s.start),
        )
        self._found = [piece for span in found for piece in self._free(span)]
        for span in self._found:
            text = self._plain(part.text[span.start : span.end])
            memory.learn(span.kind, span.value, text.strip())

    def redact(self) -> None:
        """Replace all values; raises `TooManyValues` and `CannotExpress`."""
        spans = self._spans()
        if not spans:
            return
        context = StringContext(arguments=self._is_json)
        pieces: list[str] = []
        at = fed = 0
        for span in spans:
            pieces.append(self.part.text[at : span.start])
            written = self.part.text[span.start : span.end]
            if NEEDS_ESCAPE.search(written):
                for piece in pieces[fed:]:
                    context.feed(piece)
                fed = len(pieces)
            name = self._memory.name(span.kind, span.value, self._original(written, context))
            self.spans.append((span.start, span.end, name))
            placeholder = name if self.is_name else f"[{name}]"
            if self._is_json and not self._inside[span.start]:
                placeholder = f'"{placeholder}"'
            pieces.append(placeholder)
            at = span.end
        pieces.append(self.part.text[at:])
        self.text = "".join(pieces)
        if self._is_json and not _is_json(self.text):
            raise CannotExpress(f"What was found in {self.part.where} cannot be replaced.")

    def _original(self, written: str, context: StringContext) -> Original:
        if self._is_json:
            return Original(self._plain(written))
        if not NEEDS_ESCAPE.search(written):
            return Original(written)
        value = context.read(written)
        return Original(written, verbatim=True) if value is None else Original(value)

    def _spans(self) -> list[_Span]:
        """Return all spans to replace, which do not overlap: the findings, other occurrences of
        values, and text that looks like a placeholder.
        """
        text = self.part.text
        known = [_Span(*one) for one in self._memory.occurrences(text, is_json=self._is_json)]
        known = [span for span in known if self._is_masked(span)]
        if self._is_json:
            known = [span for span in known if self._is_replaceable(span)]
        spans = [piece for span in sorted(known, key=_longest) for piece in self._free(span)]
        new = [*self._found, *spans]
        literals = {match.span() for match in LOOKALIKE.finditer(text)}
        while new or literals:
            # What would be one beside a replaced neighbour, too.
            for edge in {edge for span in new for edge in (span.start, span.end)}:
                for match in ANYWHERE.finditer(text, max(0, edge - LONGEST), edge + LONGEST):
                    if match.start() <= edge <= match.end():
                        literals.add(match.span())
            alike = [_Span(start, end, LITERAL, text[start:end]) for start, end in literals]
            new = [piece for span in sorted(alike, key=_longest) for piece in self._free(span)]
            spans += new
            literals.clear()
        return sorted([*self._found, *spans])

    def _free(self, span: _Span) -> Iterator[_Span]:
        """Yield the parts of a span that no earlier one has taken, and take them."""
        text, at = self.part.text, span.start
        while (start := self._taken.find(0, at, span.end)) >= 0:
            end = self._taken.find(1, start, span.end)
            at = end = end if end >= 0 else span.end
            whole = (start, end) == (span.start, span.end)
            if not whole and span.kind != LITERAL:
                start, end = self._trimmed(*_word_ends(text, start, end))
                if text[start:end].lower() in _ANNOUNCING:
                    continue  # a word such as "IBAN", before the number that it announces
            if start < end:
                self._taken[start:end] = bytes([1]) * (end - start)
                yield span if whole else _Span(start, end, span.kind, text[start:end])

    def _span(self, finding: SensitiveFinding) -> _Span:
        start, end = self._trimmed(finding.start, finding.end)
        value = finding.value or self.part.text[start:end]
        return _Span(start, end, finding.kind.value, value)

    def _is_masked(self, span: _Span) -> bool:
        return self.part.text[span.start : span.end].casefold() not in self._shown

    def _is_replaceable(self, span: _Span) -> bool:
        """Whether a span of a JSON text is within a string, or a number."""
        if self._inside[span.start] == 0:
            return _NUMBER.fullmatch(self.part.text, span.start, span.end) is not None
        return _ESCAPED not in (self._inside[span.start], self._inside[span.end])

    def _after_escape(self, place: int) -> int:
        while self._inside[place] == _ESCAPED:
            place += 1
        return place

    def _trimmed(self, start: int, end: int) -> tuple[int, int]:
        """Return a span without white space at its ends, and without parts of JSON's escapes."""
        text = self.part.text
        if self._is_json and start < end:
            start = self._after_escape(start)
            if start >= (end := self._after_escape(end)):
                while self._inside[start - 1] == _ESCAPED:
                    start -= 1
                start -= 1
        while start < end and text[start].isspace():
            start += 1
        while start < end and text[end - 1].isspace():
            end -= 1
        return start, end

    def _plain(self, text: str) -> str:
        """Return the text without JSON escapes, if it is in a JSON text."""
        if self._is_json:
            try:
                return str(json.loads(f'"{text}"'))
            except ValueError:
                return text
        return text


def _longest(span: _Span) -> tuple[int, int]:
    return span.start - span.end, span.start


def _word_ends(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and not text[start].isalnum():
        start += 1
    while start < end and not text[end - 1].isalnum():
        end -= 1
    return start, end


def _string_positions(text: str) -> bytearray:
    """Return for each character of a JSON text 1 if it is inside a string, 2 if inside an escape,
    else 0.
    """
    inside = bytearray(len(text) + 1)
    for string in _JSON_STRING.finditer(text):
        start, end = string.start() + 1, string.end() - 1
        inside[start:end] = bytes([1]) * (end - start)
        for escape in _JSON_ESCAPE.finditer(text, start, end):
            length = len(escape[0]) - 1
            inside[escape.start() + 1 : escape.end()] = bytes([_ESCAPED]) * length
    return inside


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text.encode("utf-8", "surrogatepass"))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True
