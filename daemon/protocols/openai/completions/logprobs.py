"""Log-probabilities of tokens as OpenAI tells them, for chats and for plain completions."""

from __future__ import annotations

import codecs

from ingle.backends.base.events import Delta

from .types import ChatLogprobs, CompletionLogprobs, TokenAlternative, TokenLogprob

_new_decoder = codecs.getincrementaldecoder("utf-8")


def chat_logprobs(delta: Delta) -> ChatLogprobs | None:
    """What a chunk of a chat tells; None where nothing was asked for."""
    if delta.logprobs is None:
        return None
    names = delta.token_bytes or {}
    content: list[TokenLogprob] = []
    for token in delta.logprobs:
        data = names.get(token.token_id, b"")
        alternatives = [
            TokenAlternative(_text(other), logprob, list(other))
            for other, logprob in ((names.get(i, b""), logprob) for i, logprob in token.top)
        ]
        content.append(TokenLogprob(_text(data), token.logprob, list(data), alternatives))
    return ChatLogprobs(content)


class CompletionScores:
    """The tokens of one choice of a plain completion."""

    def __init__(self) -> None:
        self._decoder = _new_decoder(errors="replace")
        self._offset = 0
        self._whole = CompletionLogprobs([], [], [], [])

    def take(self, delta: Delta) -> CompletionLogprobs | None:
        """What a chunk tells; None where nothing was asked for."""
        if delta.logprobs is None:
            return None
        names = delta.token_bytes or {}
        part = CompletionLogprobs([], [], [], [])
        for token in delta.logprobs:
            data = names.get(token.token_id, b"")
            part.tokens.append(_text(data))
            part.token_logprobs.append(token.logprob)
            # The token itself is always there. Of two tokens with one text the likelier counts.
            scores = {_text(data): token.logprob}
            for token_id, logprob in token.top:
                scores.setdefault(_text(names.get(token_id, b"")), logprob)
            part.top_logprobs.append(scores)
            part.text_offset.append(self._offset)
            self._offset += len(self._decoder.decode(data))
        for name in part.__struct_fields__:
            getattr(self._whole, name).extend(getattr(part, name))
        return part

    def whole(self) -> CompletionLogprobs:
        """What all chunks told."""
        return self._whole


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
