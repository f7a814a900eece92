"""Log-probabilities of tokens in the shape that OpenAI's and Ollama's clients share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ingle.backends.base.events import TokenLogprobs


class TokenAlternative(msgspec.Struct, frozen=True):
    """A token, the natural logarithm of its probability, and its bytes, which may be no text."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(TokenAlternative, frozen=True):
    """A token of the answer, and the most probable ones at its position."""

    top_logprobs: list[TokenAlternative]


def token_logprobs(
    tokens: Iterable[TokenLogprobs], token_bytes: Mapping[int, bytes] | None
) -> list[TokenLogprob]:
    """The log-probabilities of an answer's tokens, whose bytes `token_bytes` has by token id."""
    spelled = token_bytes or {}
    return [
        TokenLogprob(
            *_spell(token.token_id, token.logprob, spelled),
            [TokenAlternative(*_spell(other, logprob, spelled)) for other, logprob in token.top],
        )
        for token in tokens
    ]


def _spell(
    token_id: int, logprob: float, spelled: Mapping[int, bytes]
) -> tuple[str, float, list[int]]:
    data = spelled.get(token_id, b"")
    return data.decode(errors="replace"), logprob, list(data)
