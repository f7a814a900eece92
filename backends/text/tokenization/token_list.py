"""Tokenises and detokenises for the API, without generation."""

from __future__ import annotations

from collections.abc import Iterable

from ...base.errors import RequestRejected
from ...base.events import Tokenized
from ...base.requests import TokenizeRequest
from .tokenizer import Tokenizer

LONGEST_TEXT = 2**20
"""Most characters of a text: tokenisation must not delay other requests noticeably."""


def token_list(tokenizer: Tokenizer, request: TokenizeRequest) -> Tokenized:
    """Return the answer to a request with a `text` or with `token_ids`; raises
    `RequestRejected`.
    """
    if request.text is None:
        token_ids = request.token_ids or []
        check_known(tokenizer, "tokens", token_ids)
    else:
        if len(request.text) > LONGEST_TEXT:
            raise RequestRejected(
                f"A text of {len(request.text)} characters is too long to be tokenised at once.",
                hint=f"Split it into pieces of at most {LONGEST_TEXT} characters.",
                param="content",
            )
        token_ids = tokenizer.encode(
            request.text, add_special=request.add_special, parse_special=request.parse_special
        )
    return Tokenized(request.id, token_ids, pieces(tokenizer, token_ids))


def pieces(tokenizer: Tokenizer, token_ids: Iterable[int]) -> list[bytes]:
    """Return the bytes of each token; for a control token its name, for a picture's nothing."""
    return [
        tokenizer.token_bytes(token_id, special=True) if token_id >= 0 else b""
        for token_id in token_ids
    ]


def check_known(
    tokenizer: Tokenizer, param: str, token_ids: Iterable[int], where: str = ""
) -> None:
    """Raise `RequestRejected` for a token outside the vocabulary; `where` it is in the request."""
    known = range(tokenizer.vocab_size)
    unknown = next((token_id for token_id in token_ids if token_id not in known), None)
    if unknown is not None:
        raise RequestRejected(
            f"Token {unknown}{where} is not in the model's vocabulary of {len(known)}.",
            hint="Token ids of other models are not valid: send text.",
            param=param,
        )
