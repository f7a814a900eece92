"""Encodes a query and a document as one sequence, for reranking models."""

from __future__ import annotations

from dataclasses import dataclass

from ...base.errors import InputTooLong
from .tokenizer import Tokenizer

# Cutting a text between two tokens may change how the rest is split.
_SLACK = 8


@dataclass(frozen=True, slots=True)
class PairMarks:
    """Token ids before, between and after two texts."""

    before: list[int]
    between: list[int]
    behind: list[int]


class TextPairs:
    """Encodes pairs for one model: by its own template if it has one, else by its special
    tokens.
    """

    def __init__(
        self, tokenizer: Tokenizer, marks: PairMarks, template: str | None, *, context: int
    ) -> None:
        self._tokenizer = tokenizer
        self._marks = marks
        self._template = template
        self._context = context

    def build(self, query: str, document: str, name: str, *, truncate: bool) -> list[int]:
        """Return the tokens; `truncate` cuts the document.

        Raises `InputTooLong`, which names `name`.
        """
        if self._template is None:
            tokens = self._marked(query, document, truncate=truncate)
        else:
            tokens = self._rendered(query, document)
            excess = len(tokens) - self._context
            if excess > 0 and truncate:
                tokens = self._rendered(query, self._cut(document, excess + _SLACK))
        if len(tokens) > self._context:
            raise InputTooLong(name, len(tokens), self._context, param="documents")
        return tokens

    def _marked(self, query: str, document: str, *, truncate: bool) -> list[int]:
        marks = self._marks
        front = [*marks.before, *self._encode(query), *marks.between]
        tokens = self._encode(document)
        if truncate:
            tokens = tokens[: max(0, self._context - len(front) - len(marks.behind))]
        return [*front, *tokens, *marks.behind]

    def _rendered(self, query: str, document: str) -> list[int]:
        before, _, rest = (self._template or "").partition("{document}")
        text = f"{before.replace('{query}', query)}{document}{rest.replace('{query}', query)}"
        return self._tokenizer.encode(text, add_special=False, parse_special=True)

    def _cut(self, document: str, excess: int) -> str:
        """Return the beginning of the document, shorter by `excess` tokens."""
        tokens = self._encode(document)
        kept = tokens[: max(0, len(tokens) - excess)]
        pieces = b"".join(self._tokenizer.token_bytes(token) for token in kept)
        return pieces.decode("utf-8", "ignore")

    def _encode(self, text: str) -> list[int]:
        # A special token spelled out in a document is plain text.
        return self._tokenizer.encode(text, add_special=False, parse_special=False)
