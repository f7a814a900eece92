"""Tokenises texts to embed."""

from __future__ import annotations

from functools import cached_property

from ...base.errors import InputTooLong, RequestRejected
from ...base.events import Tokenized
from ...base.requests import TokenizeRequest
from .token_list import token_list
from .tokenizer import Tokenizer

_LONG_TEXT = 2**20
# No tokenizer needs less than one token for this many bytes of real text.
_BYTES_A_TOKEN = 64


class EmbeddingInputs:
    """Tokenises and bounds single texts for one model; used from one thread."""

    def __init__(self, tokenizer: Tokenizer, *, context: int) -> None:
        self._tokenizer = tokenizer
        self._context = context

    def build(self, text: str | list[int], number: int, *, truncate: bool) -> list[int]:
        """Return the tokens of input `number`; raises `RequestRejected` and `InputTooLong`."""
        if isinstance(text, list):
            tokens = self._checked(text, number)
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

    def _checked(self, tokens: list[int], number: int) -> list[int]:
        size = self._tokenizer.vocab_size
        unknown = next((token for token in tokens if not 0 <= token < size), None)
        if unknown is not None:
            raise RequestRejected(
                f"Token {unknown} of input {number} is not in the model's vocabulary of {size}.",
                hint="Token ids of other models are not valid: send text.",
                param="input",
            )
        return tokens

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
