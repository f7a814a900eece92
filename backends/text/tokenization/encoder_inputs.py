"""Tokenises texts to embed, and queries with documents to rank."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ...base.errors import InputTooLong, RequestRejected
from ...base.events import Tokenized
from ...base.requests import TokenizeRequest
from .token_list import check_known, token_list
from .tokenizer import Tokenizer

_LONG_TEXT = 2**20
# No tokenizer needs less than one token for this many bytes of real text.
_BYTES_A_TOKEN = 64
# Cutting a text between two tokens may change how the rest is split.
_SLACK = 8


class EmbeddingInputs:
    """Tokenises and bounds single texts for one model; used from one thread."""

    def __init__(self, tokenizer: Tokenizer, *, context: int) -> None:
        self._tokenizer = tokenizer
        self._context = context

    def build(self, text: str | list[int], number: int, *, truncate: bool) -> list[int]:
        """Return the tokens of input `number`; raises `RequestRejected` and `InputTooLong`."""
        if isinstance(text, list):
            tokens = text
            check_known(self._tokenizer, "input", tokens, f" of input {number}")
        else:
            tokens = self._encode(self.bounded(text, number, truncate=truncate, param="input"))
        if not tokens:
            raise RequestRejected(f"Input {number} has no tokens.", param="input")
        if len(tokens) <= self._context:
            return tokens
        if not truncate:
            raise InputTooLong(f"Input {number}", len(tokens), self._context, param="input")
        if isinstance(text, list):
            return tokens[: self._context]
        # An end-of-text token stays at the end, where the model pools.
        suffix = self._suffix
        return tokens[: self._context - len(suffix)] + suffix

    def token_list(self, request: TokenizeRequest) -> Tokenized:
        """Return the tokens of a text, or the text of tokens; raises `RequestRejected`."""
        return token_list(self._tokenizer, request)

    def bounded(self, text: str, number: int, *, truncate: bool, param: str) -> str:
        """Return as much of the text as can matter, so that nothing huge is tokenised."""
        most = max(_LONG_TEXT, _BYTES_A_TOKEN * self._context)
        if len(text) <= most:
            return text
        if truncate:
            return text[:most]
        raise RequestRejected(
            f"Text {number} in '{param}' has {len(text)} characters, and the model reads "
            f"{self._context} tokens at once.",
            hint="Split the text, or send 'truncate': true to have its end cut off.",
            code=InputTooLong.code,
            param=param,
        )

    def _encode(self, text: str) -> list[int]:
        # A control token spelled out in a text is plain text.
        return self._tokenizer.encode(text, add_special=True, parse_special=False)

    @cached_property
    def _suffix(self) -> list[int]:
        """Return the tokens that `encode` appends to a text."""
        bare = self._tokenizer.encode("a", add_special=False, parse_special=False)
        whole = self._encode("a")
        for start in range(len(whole) - len(bare) + 1):
            if whole[start : start + len(bare)] == bare:
                return whole[start + len(bare) :]
        return []


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
